import { expect, it } from 'vitest';
import { requireProgram } from '../support/prometheus.ts';
import { allOr } from '../support/runs.ts';
import { unexpectedlyFired } from './fired.ts';

const HOURS = allOr(48, 12);

it.skipIf(!requireProgram('promtool'))(`the scenario steady fires no alert in ${HOURS} hours`, async () => {
  // Longer intervals and fewer evaluated scrapes limit the duration of the test to minutes.
  const every = { every: '2m' };
  const config = { collect: { flowControl: every, dlq: every, events: every } };
  expect(await unexpectedlyFired([], { scenario: 'steady', minutes: HOURS * 60, step: 4, config })).toBe('');
});
