import { expect } from 'vitest';
import type { EventsFacts } from '../../../src/collectors/events/families.ts';
import { BUCKET_BOUNDS } from '../../../src/collectors/events/tally.ts';
import type { HistogramState } from '../../../src/metrics/family.ts';
import { bucketsOf, type TrueEvent, truthOf } from '../../support/event-truth.ts';
import { answersOf } from './fake-log.ts';

const cumulate = ({ counts }: HistogramState) => {
  let below = 0;
  return counts.map(count => {
    below += count;
    return below;
  });
};

/**
 * Asserts counters and gauges for a log of complete life cycles. `until`: messages overdue by then count as overdue.
 */
export function expectTruth(facts: EventsFacts, all: readonly TrueEvent[], until: number): void {
  expectCounts(facts, all, until);
  expect(facts.gauges?.inFlight).toBe(truthOf(all, until).inFlight.length);
}

/** Asserts counters and histograms. */
export function expectCounts(facts: EventsFacts, all: readonly TrueEvent[], until: number): void {
  const truth = truthOf(all, until);
  const [tally] = facts.destinations.values();
  const counted = Object.fromEntries(Object.entries(tally?.events ?? {}).filter(([, count]) => count > 0));
  expect(counted).toEqual(truth.events);
  expect(tally?.finished).toEqual(truth.finished);
  expect(cumulate(facts.log.timeToDeliver)).toEqual(bucketsOf(truth.timeToDeliver, BUCKET_BOUNDS.timeToDeliver));
  expect(cumulate(facts.log.queueWait)).toEqual(bucketsOf(truth.queueWait, BUCKET_BOUNDS.queueWait));
  for (const result of ['success', 'error'] as const) {
    expect(cumulate(facts.log.attempt[result])).toEqual(bucketsOf(truth.attempt[result] ?? [], BUCKET_BOUNDS.attempt));
  }
  for (const outcome of ['delivered', 'failed', 'cancelled'] as const) {
    const expected = bucketsOf(truth.attempts[outcome] ?? [], BUCKET_BOUNDS.attempts, 1);
    expect(cumulate(facts.log.attempts[outcome])).toEqual(expected);
  }
  expect(answersOf(facts)).toEqual(truth.answers);
  expect([facts.log.overdue, facts.log.due, facts.log.onTime]).toEqual([truth.overdue, truth.due, truth.onTime]);
  expect(facts.log.gaps).toBe(0);
  expect(facts.log.untracked).toEqual({ unknown_start: 0, evicted: 0 });
}
