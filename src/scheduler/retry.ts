import { backoffDelay } from '../kit/backoff.ts';
import { JITTER, type RetryPlan } from './loop.ts';

/** Delay before the first retry (ms). */
const FIRST = 2000;
/** Minimum interval between retries, as a multiple of the time for which an attempt has read successfully. */
const REST = 10;

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
 * Creates the retries of an account. `pause`: returns the time for which no request may be sent (ms).
 *
 * A failed round is repeated after seconds, then up to the collector's shortest interval. A round that read much before
 * it failed, or is rate limited, backs off up to its own interval, to spare the request budget.
 */
export const createRetries =
  (pause: () => number, random: () => number) =>
  ({ every, shortest, failures, reason, readFor }: FailedRound): RetryPlan => {
    const rest = REST * readFor;
    const longest = reason === 'rate_limited' ? every : Math.min(every, Math.max(shortest, rest));
    const backoff = backoffDelay({ first: FIRST, longest: Number.POSITIVE_INFINITY }, failures, random);
    const delay = Math.min(longest * (1 - JITTER * random()), backoff);
    return { delay: Math.max(pause(), delay), mayStartEarlier: rest <= shortest };
  };
