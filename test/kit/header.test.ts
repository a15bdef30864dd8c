import { expect, it } from 'vitest';
import { headerError, headerText } from '../../src/kit/secret.ts';

it('a header from the environment is checked and sent without surrounding white space', () => {
  const env = { KEY: 'Bearer k\n', BAD: 'Bearer\nk' };
  expect(headerError({ env: 'KEY' }, env)).toBeUndefined();
  expect(headerText({ env: 'KEY' }, env)).toBe('Bearer k');
  expect(headerError({ env: 'BAD' }, env)).toBe('the environment variable BAD must be printable ASCII characters');
});
