import { expect, it } from 'vitest';
import type { RoundStatus } from '../../../src/model/status.ts';
import { dataStatusOf } from '../../../src/rules/checks/account.ts';

const round = (name: string, dataAt: number | undefined, more: Partial<RoundStatus> = {}): RoundStatus => ({
  round: name,
  every: 30_000,
  success: true,
  complete: true,
  durationSeconds: 1,
  dataAt,
  consecutiveFailures: 0,
  idle: undefined,
  stale: false,
  ...more,
  failure: undefined,
});

const truth = (collector: string, rounds: readonly RoundStatus[], withdrawn = false) =>
  dataStatusOf({ collectors: [{ collector, withdrawn, rounds }] }, collector);

it.each([
  [
    'is fresh if a read for new entries keeps the numbers of the last walk current',
    [round('new', 900), round('full', 300)],
    'fresh',
    900,
  ],
  ['is fresh if a walk is newer than a read for new entries', [round('new', 300), round('full', 900)], 'fresh', 900],
  ['is fresh if only one round has run', [round('new', undefined), round('full', 300)], 'fresh', 300],
  ['is stale if walks fail', [round('new', 900), round('full', 300, { stale: true })], 'stale', 300],
  ['is stale if reads for new entries fail', [round('new', 300, { stale: true }), round('full', 900)], 'stale', 300],
  [
    'is as old as the newest read if all rounds fail',
    [round('new', 900, { stale: true }), round('full', 300, { stale: true })],
    'stale',
    900,
  ],
  ['is not_read before the first round', [round('new', undefined), round('full', undefined)], 'not_read', undefined],
])('the data of dead letters %s', (_, rounds, data, at) => {
  expect(truth('dlq', rounds)).toEqual({ enabled: true, data, at, failedFilters: [] });
});

it('the state of data ignores auxiliary rounds', () => {
  expect(truth('flow_control', [round('list', 300), round('watch', 900)]).at).toBe(300);
  expect(truth('events', [round('tail', 900), round('sweep', 300)]).at).toBe(900);
});

it('withdrawn data has no time', () => {
  expect(truth('dlq', [round('new', 300, { stale: true })], true)).toEqual({
    enabled: true,
    data: 'withdrawn',
    at: undefined,
    failedFilters: [],
  });
});
