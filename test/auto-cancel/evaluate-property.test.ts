import fc from 'fast-check';
import { expect, it } from 'vitest';
import { type CallbackEvidence, evaluate, NOT_STUCK } from '../../src/auto-cancel/evaluate.ts';
import { type AutoCancelRule, autoCancelRule } from '../../src/auto-cancel/options.ts';
import { retryDelays, retryWindow } from '../../src/model/callback.ts';
import type { CallbackState, DlqEntry } from '../../src/model/message.ts';

const HOUR = 3_600_000;
const maybe = <T>(values: fc.Arbitrary<T>) => fc.option(values, { nil: undefined, freq: 9 });
const word = fc.constantFrom('a', 'b', 'ab');

const entry = fc.record({
  url: maybe(word),
  labels: fc.array(word, { maxLength: 2 }),
  queue: maybe(word),
  callbackState: fc.constantFrom<(CallbackState | undefined)[]>(
    'in_progress',
    'in_progress',
    'success',
    'unknown',
    undefined,
    undefined,
  ),
  maxRetries: fc.oneof(fc.constantFrom(undefined, 3), fc.integer({ min: -1, max: 8 }), fc.double()),
}) as fc.Arbitrary<unknown> as fc.Arbitrary<DlqEntry>;

const ways = fc.record(
  { in: fc.array(word, { minLength: 1 }), prefix: fc.array(word, { minLength: 1 }) },
  { requiredKeys: ['in'] },
);
const match = fc.oneof(
  fc.constantFrom('url', 'label', 'queue').chain(key => ways.map(ways => ({ [key]: ways }))),
  fc.record({ url: ways, label: ways, queue: ways }),
);
const except = fc.oneof({ arbitrary: fc.constant({}), weight: 3 }, { arbitrary: match, weight: 1 });
const hours = (min: number, max: number) => fc.integer({ min, max }).map(hours => `${hours}h`);

const rule: fc.Arbitrary<AutoCancelRule> = fc
  .record({
    match,
    except,
    span: hours(33, 200),
    isBlind: fc.boolean(),
    stuckWhen: fc.record(
      { snapshots: fc.integer({ min: 1, max: 9 }), maxGap: hours(1, 9), idleFor: hours(1, 100) },
      { requiredKeys: [] },
    ),
  })
  .map(({ match, except, span, isBlind, stuckWhen }) =>
    autoCancelRule.parse({
      name: 'r',
      match,
      except,
      evidence: isBlind ? 'blind' : 'reported',
      stuckWhen: { ...stuckWhen, [isBlind ? 'seenFor' : 'inProgressFor']: span },
    }),
  );

const seen: fc.Arbitrary<CallbackEvidence> = fc
  .record({
    entry,
    seenFor: fc.integer({ min: 24 * HOUR, max: 600 * HOUR }),
    snapshots: fc.integer({ min: 1, max: 9 }),
    sinceEvent: fc.oneof(fc.integer({ min: -HOUR, max: 400 * HOUR }), fc.constantFrom('none' as const, undefined)),
    id: maybe(fc.constant('1-0')),
  })
  .map(({ entry, seenFor, snapshots, sinceEvent, id }) => ({
    sighting: { entry, firstSeenAt: 1e12, lastSeenAt: 1e12 + seenFor, snapshots, episode: 'e' },
    id,
    lastEventAt: typeof sinceEvent === 'number' ? 1e12 + seenFor - sinceEvent : sinceEvent,
    askedAt: 1e12 + seenFor,
  }));

it('a callback is stuck if and only if every predicate holds', () => {
  let stuck = 0;
  fc.assert(
    fc.property(rule, seen, (rule, seen) => {
      const { verdict, reason, predicates } = evaluate(rule, seen);
      expect(['stuck', ...NOT_STUCK]).toContain(reason);
      const holds = predicates.map(({ holds }) => holds);
      expect(verdict === 'stuck').toBe(holds.every(each => each === true));
      expect(reason === 'stuck').toBe(verdict === 'stuck');
      if (verdict === 'unknown') expect(holds).toContain('unknown');
      if (verdict === 'not_stuck' || verdict === 'no_match') expect(holds).toContain(false);
      stuck += Number(verdict === 'stuck');
    }),
    { numRuns: 3000, seed: 1 },
  );
  expect(stuck).toBeGreaterThan(50);
});

it('a stuck callback stays stuck in later walks if no event occurs', () => {
  let stuck = 0;
  fc.assert(
    fc.property(rule, seen, fc.nat(500 * HOUR), fc.nat(9), (rule, seen, later, walks) => {
      if (evaluate(rule, seen).verdict !== 'stuck') return;
      stuck++;
      const { sighting } = seen;
      const on = {
        ...seen,
        sighting: { ...sighting, lastSeenAt: sighting.lastSeenAt + later, snapshots: sighting.snapshots + walks },
        askedAt: seen.askedAt + later,
      };
      expect(evaluate(rule, on).verdict).toBe('stuck');
    }),
    { numRuns: 3000, seed: 2 },
  );
  expect(stuck).toBeGreaterThan(50);
});

it('removing evidence never makes a callback stuck', () => {
  const keys = fc.constantFrom('url', 'queue', 'callbackState', 'labels', 'id', 'lastEventAt');
  let becameUnknown = 0;
  fc.assert(
    fc.property(rule, seen, keys, (rule, seen, key) => {
      // For blind rules, a missing state is the evidence.
      if (rule.evidence === 'blind' && key === 'callbackState') return;
      const gone = { [key]: key === 'labels' ? [] : undefined };
      const { sighting } = seen;
      const less =
        key in seen
          ? { ...seen, ...gone }
          : { ...seen, sighting: { ...sighting, entry: { ...sighting.entry, ...gone } } };
      const before = evaluate(rule, seen).verdict;
      const after = evaluate(rule, less).verdict;
      if (before === 'stuck') expect(['stuck', 'unknown']).toContain(after);
      else expect(after).not.toBe('stuck');
      becameUnknown += Number(before === 'stuck' && after === 'unknown');
    }),
    { numRuns: 3000, seed: 3 },
  );
  expect(becameUnknown).toBeGreaterThan(10);
});

it('the retry window is the sum of all retry delays and attempt timeouts', () => {
  const naive = (retries: number, timeout: number) => {
    let sum = (retries + 1) * timeout;
    for (let n = 1; n <= retries; n++) sum += Math.min(86_400, Math.exp(2.5 * n)) * 1000;
    return sum;
  };
  fc.assert(
    fc.property(fc.nat(300), fc.nat(10 * HOUR), (retries, timeout) => {
      expect(retryWindow(retries, timeout)).toBeCloseTo(naive(retries, timeout), 3);
    }),
  );
  const hours = [1, 2, 3, 4, 5, 6].map(retries => Math.round((retryDelays(retries) / HOUR) * 1000) / 1000);
  expect(hours).toEqual([0.003, 0.045, 0.547, 6.665, 30.665, 54.665]);
  expect(retryDelays(0)).toBe(0);
  expect(retryDelays(1e9)).toBeGreaterThan(8e16);
});
