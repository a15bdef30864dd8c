import { expect, it } from 'vitest';
import { requireProgram } from '../support/prometheus.ts';
import { unexpectedlyFired } from './fired.ts';

it.skipIf(!requireProgram('promtool'))('the scenario steady fires no alert in 48 hours', async () => {
  // Longer intervals and fewer evaluated scrapes limit the duration of the test to minutes.
  const every = { every: '2m' };
  const config = { collect: { flowControl: every, dlq: every, events: every } };
  expect(await unexpectedlyFired([], { scenario: 'steady', minutes: 48 * 60, step: 4, config })).toBe('');
});
