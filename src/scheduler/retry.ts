import { backoffDelay } from '../kit/backoff.ts';
import { MINUTE } from '../kit/duration.ts';
import { JITTER } from './loop.ts';

/** Delay before the first retry (ms). */
const FIRST = 2000;
/** Minimum interval between retries, as a multiple of the time for which an attempt has read successfully. */
const REST = 10;
/** Maximum delay after an attempt that read little (ms), so that data of a service that recovers is soon current again. */
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
 * A failed round is repeated after seconds. The delay grows up to the collector's shortest interval, at most two minutes. For a
 * round that is rate limited, or read much before it failed, it grows up to the round's own interval, to spare the budget.
 */
export const createRetries =
  (pause: () => number, random: () => number) =>
  ({ every, shortest, failures, reason, readFor }: FailedRound): number => {
    const usual = Math.max(Math.min(shortest, LONGEST), REST * readFor);
    const longest = reason === 'rate_limited' ? every : Math.min(every, usual);
    const backoff = backoffDelay({ first: FIRST, longest: Number.POSITIVE_INFINITY }, failures, random);
    return Math.max(pause(), Math.min(longest * (1 - JITTER * random()), backoff));
  };
