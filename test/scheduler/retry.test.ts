import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createRetries, type FailedRound } from '../../src/scheduler/retry.ts';

const SECOND = 1000;
const MINUTE = 60 * SECOND;

const WALK: FailedRound = { every: 60 * MINUTE, shortest: 30 * SECOND, failures: 1, reason: 'server', readFor: 0 };

/** Returns the delays after 1, 2, … failures (s), without jitter upwards. */
const delays = (of: Partial<FailedRound>, count: number, pause = 0) => {
  const retry = createRetries(
    () => pause,
    () => 0,
  );
  return Array.from({ length: count }, (_, index) => retry({ ...WALK, ...of, failures: index + 1 }) / SECOND);
};

describe('retries', () => {
  it('the delay doubles from a second to the shortest interval of the collector', () => {
    expect(delays({}, 7)).toEqual([1, 2, 4, 8, 16, 30, 30]);
    expect(delays({ failures: 5000 }, 1)).toEqual([1]);
  });

  it('the delay never exceeds the interval of the round', () => {
    expect(delays({ every: 5 * SECOND, shortest: 5 * SECOND }, 5)).toEqual([1, 2, 4, 5, 5]);
    expect(delays({ every: SECOND, shortest: SECOND }, 2)).toEqual([1, 1]);
  });

  it('the delay never exceeds two minutes if all intervals of the collector are longer', () => {
    expect(delays({ shortest: 30 * MINUTE }, 12).at(-1)).toBe(120);
  });

  it('a rate-limited round backs off up to its own interval', () => {
    expect(delays({ reason: 'rate_limited' }, 13).at(-1)).toBe(3600);
  });

  it('an attempt that read for long before it failed is repeated rarely', () => {
    expect(delays({ readFor: MINUTE }, 12).at(-1)).toBe(600);
  });

  it('no retry starts during a pause that the service asks for', () => {
    expect(delays({}, 2, 5 * MINUTE)).toEqual([300, 300]);
  });

  it('a round that keeps failing spends at most about a tenth of the time reading, unless its interval is too short for that', () => {
    const duration = fc.integer({ min: 10, max: 24 * 60 * MINUTE });
    fc.assert(
      fc.property(
        fc.record({
          every: duration,
          shortest: duration,
          readFor: duration,
          random: fc.double({ min: 0, max: 0.999, noNaN: true }),
        }),
        ({ every, shortest, readFor, random }) => {
          const retry = createRetries(
            () => 0,
            () => random,
          );
          const round = { ...WALK, every, shortest: Math.min(every, shortest), readFor };
          const late = retry({ ...round, failures: 60 });
          expect(late).toBeLessThanOrEqual(every);
          expect(late).toBeGreaterThanOrEqual(
            0.9 * Math.min(every, Math.max(Math.min(round.shortest, 2 * MINUTE), 10 * readFor)) - 1,
          );
          expect(retry(round)).toBeLessThanOrEqual(2 * SECOND);
        },
      ),
    );
  });
});
