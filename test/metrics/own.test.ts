import { expect, it } from 'vitest';
import { createAccountMeter, knownRequests, ownFamilies, statusSamples } from '../../src/metrics/own.ts';
import type { RoundStatus } from '../../src/model/status.ts';

const [endpoints, outcomes] = [['cancel'], ['ok', 'timeout']];
const known = { ...knownRequests(endpoints, outcomes), collectors: ['dlq'] };
const ended = { endpoint: 'cancel', outcome: 'timeout' };

it('a reopened account and its predecessor share counters while the predecessor stops', () => {
  const before = createAccountMeter(known);
  before.requests.inc(ended);
  const after = createAccountMeter(known, before);
  const revision = after.revision();
  // A request of the predecessor ends while the predecessor stops.
  before.requests.inc(ended);
  expect([after.spent().requests, after.revision() > revision]).toEqual([2, true]);
  after.requests.inc(ended);
  expect([after.spent().requests, before.spent().requests]).toEqual([3, 3]);
});

it('a reopened account keeps only the counters of enabled collectors', () => {
  const before = createAccountMeter(known);
  before.rowsRejected.inc({ collector: 'dlq' });
  const after = createAccountMeter({ ...known, collectors: ['events'] }, before);
  expect(after.rowsRejected.samples()).toEqual([{ labels: { collector: 'events' }, value: 0 }]);
});

const READ: RoundStatus = {
  round: 'tail',
  every: 15_000,
  success: true,
  complete: true,
  durationSeconds: 1,
  dataAt: 1_000_000,
  consecutiveFailures: 0,
  idle: undefined,
  stale: false,
  failure: undefined,
};

it.each<[string, Partial<RoundStatus>, number]>([
  ['1 while the log is read and stored', {}, 1],
  ['0 before the first complete read of this process', { success: undefined, dataAt: undefined }, 0],
  ['0 while the data is stale', { stale: true }, 0],
  ['0 when the last read was not stored', { success: false }, 0],
])('delivery_event_log_counting is %s', (_, round, expected) => {
  const events = { collector: 'events', withdrawn: false, rounds: [{ ...READ, ...round }] };
  const samples = new Map(statusSamples({ account: 'a', up: true, collectors: [events] }));
  expect(samples.get(ownFamilies.counting)).toEqual([{ labels: {}, value: expected }]);
});

it('delivery_event_log_counting is absent without the event log', () => {
  const samples = new Map(statusSamples({ account: 'a', up: true, collectors: [] }));
  expect(samples.get(ownFamilies.counting)).toEqual([]);
});
