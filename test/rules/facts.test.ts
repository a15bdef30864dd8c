import { expect, it } from 'vitest';
import { createAlertFacts } from '../../src/rules/facts.ts';
import { accountStatus, createCollectorState } from '../../src/scheduler/board.ts';
import { stalenessOptions } from '../../src/scheduler/options.ts';

const COUNTER = 'delivery_events_total';
const clock = { now: () => 0, monotonic: () => 0 };

it('alert facts contain no series of a committed counter until this process has read the log', () => {
  const rounds = { tail: { every: 30_000 } };
  const state = createCollectorState({ account: 'a', collector: 'events' }, rounds, stalenessOptions.parse({}), clock);
  const account = {
    name: 'a',
    state: (collector: string) => (collector === 'events' ? state : undefined),
    status: () => accountStatus('a', [state]),
    isTokenKnown: () => true,
  };
  const source = {
    account: 'a',
    families: [{ name: COUNTER, type: 'counter' as const, help: '', labels: [] }],
    revision: () => state.shown(),
    samples: () => new Map([[COUNTER, [{ labels: {}, value: 7 }]]]),
  };
  const facts = createAlertFacts(account, [source]);
  state.committed({});
  expect(facts.series({ metric: COUNTER, labels: {} })).toBeUndefined();
  state.observed('tail', { at: 0, facts: {} });
  expect(facts.series({ metric: COUNTER, labels: {} })?.map(({ value }) => value)).toEqual([7]);
});

it('after a filter fails, alert facts are partial only for selectors that include that filter', () => {
  const rounds = { full: { every: 600_000 } };
  const which = { account: 'a', collector: 'dlq' };
  const state = createCollectorState(which, rounds, stalenessOptions.parse({}), clock);
  const account = {
    name: 'a',
    state: (collector: string) => (collector === 'dlq' ? state : undefined),
    status: () => accountStatus('a', [state]),
    isTokenKnown: () => true,
  };
  const facts = createAlertFacts(account, []);
  const failed = { name: 'jobs', reason: 'refused', message: 'status 400', since: 0, isContradicted: false };
  state.observed('full', { at: 0, facts: {}, failedFilters: [failed] });
  state.succeeded('full', { durationSeconds: 1 });
  const ofFilter = (labels: Record<string, string[]>) =>
    facts.isPartial({ metric: 'delivery_dlq_filter_messages', labels });
  expect([ofFilter({ filter: ['jobs'] }), ofFilter({}), ofFilter({ filter: ['payments'] })]).toEqual([
    true,
    true,
    false,
  ]);
  expect(facts.isPartial({ metric: 'delivery_dlq_messages', labels: {} })).toBe(false);
  expect(account.status()).toMatchObject({ up: true, collectors: [{ rounds: [{ success: true, complete: false }] }] });
  state.observed('full', { at: 0, facts: {} });
  expect(ofFilter({ filter: ['jobs'] })).toBe(false);
});
