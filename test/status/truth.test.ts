import { expect, it } from 'vitest';
import type { RoundStatus } from '../../src/model/status.ts';
import { truthOf } from '../../src/status/truth.ts';

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
  truthOf({ collectors: [{ collector, withdrawn, rounds }] }, collector);

it.each([
  ['a quiet round keeps the numbers of the last walk current', [round('new', 900), round('full', 300)], 'fresh', 900],
  ['a walk reads everything that a quiet round does', [round('new', 300), round('full', 900)], 'fresh', 900],
  ['only one round was read', [round('new', undefined), round('full', 300)], 'fresh', 300],
  ['no walk came through', [round('new', 900), round('full', 300, { stale: true })], 'stale', 300],
  ['quiet rounds fail', [round('new', 300, { stale: true }), round('full', 900)], 'stale', 300],
  ['nothing was read', [round('new', undefined), round('full', undefined)], 'not_read', undefined],
])('dead letters: %s', (_, rounds, data, at) => {
  expect(truth('dlq', rounds)).toEqual({ enabled: true, data, at, failedFilters: [] });
});

it('rounds that no gauge depends on say nothing about it', () => {
  expect(truth('flow_control', [round('list', 300), round('watch', 900)]).at).toBe(300);
  expect(truth('events', [round('tail', 900), round('sweep', 300)]).at).toBe(900);
});

it('what is withdrawn is not shown', () => {
  expect(truth('dlq', [round('new', 300, { stale: true })], true)).toEqual({
    enabled: true,
    data: 'withdrawn',
    at: undefined,
    failedFilters: [],
  });
});
