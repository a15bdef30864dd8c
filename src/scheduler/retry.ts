import { backoffDelay } from '../kit/backoff.ts';
import { MINUTE } from '../kit/duration.ts';
import { JITTER } from './loop.ts';

/** Delay before the first retry (ms). */
const FIRST = 2000;
/** Maximum delay after an attempt that read much, as a multiple of the time for which it read successfully. */
const REST = 10;
/** Maximum delay after an attempt that read little (ms), so that data is soon current again when the service recovers. */
const LONGEST = 2 * MINUTE;

/** A failed attempt of a round. */
export interface FailedRound {
  /** Interval of the round (ms). */
  readonly every: number;
  /** Shortest interval of the collector's rounds (ms). */
  readonly shortest: number;
  /** Consecutive failures, including this one. */
  readonly failures: number;
  readonly reason: string;
  /** Time from the start of the attempt to the end of its last successful step (ms). */
  readonly readFor: number;
}

/**
 * Creates the delays of an account's retries (ms). `pause`: returns the time for which no request may be sent (ms).
 *
 * A failed round is first repeated after a few seconds. Further delays increase to the collector's shortest interval, at most two
 * minutes. If the round is rate limited, or read much before it failed, they increase to its own interval, to spare the budget.
 */
export const createRetries =
  (pause: () => number, random: () => number) =>
  ({ every, shortest, failures, reason, readFor }: FailedRound): number => {
    const usual = Math.max(Math.min(shortest, LONGEST), REST * readFor);
    const longest = reason === 'rate_limited' ? every : Math.min(every, usual);
    const backoff = backoffDelay({ first: FIRST, longest: Number.POSITIVE_INFINITY }, failures, random);
    return Math.max(pause(), Math.min(longest * (1 - JITTER * random()), backoff));
  };
