import { describe, expect, it } from 'vitest';
import { storeOptions } from '../../src/store/options.ts';

describe('store options', () => {
  it('are a file by default', () => {
    expect(storeOptions.parse({})).toEqual({ kind: 'sqlite', path: './data/delivery-watch.db' });
  });

  it.each([
    [{ kind: 'postgres' }, 'must be sqlite or memory'],
    [{ path: '' }, 'must be the path of a file'],
    [{ path: 'a\0b' }, 'must be the path of a file'],
    [{ path: 1 }, 'must be the path of a file'],
    [{ file: 'x' }, 'Unrecognized key: "file"'],
  ])('refuse %j', (options, message) => {
    expect(storeOptions.safeParse(options).error?.issues.map(issue => issue.message)).toEqual([message]);
  });
});
