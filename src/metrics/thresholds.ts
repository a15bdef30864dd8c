/**
 * Limits that the shipped alerts and the page share; those of shipped rules only are in `mixin/thresholds.ts`. Shares are from 0
 * to 1, times in seconds.
 */

/** Fewer bad messages than these are not told, whatever share they are. */
export const FEWEST_BAD = 10;

/** How many times as fast as the error budget of 30 days would be spent in just that time. */
export const BURN_RATES = [14.4, 6, 3, 1] as const;
export type BurnRate = (typeof BURN_RATES)[number];
export const MONTH = 30 * 86_400;
/** However lax an objective is, it is missed where this share of its messages is bad. */
export const MOST_BAD = 0.9;

/** Share of attempts that lead to another one, of at least so many. */
export const RETRIES = { share: 0.25, fewest: 40 } as const;

/** By how much a number must exceed one of before: by more than a share of that, which counts as `fewest` to `many`. */
export interface Growth {
  readonly share: number;
  readonly fewest: number;
  readonly many: number;
}

/**
 * Growth of the dead-letter queue: at once, and by the hour. Less than that comes and goes in a healthy queue: one of a few dozen
 * doubles within a day, and is worked down again.
 */
export const DLQ_AT_ONCE: Growth = { share: 0.2, fewest: 20, many: 50 };
export const DLQ_BY_THE_HOUR: readonly Growth[] = [
  { share: 1, fewest: 4, many: 100 },
  { share: 0.35, fewest: 25, many: 100 },
];
/** Of what the plan allows. */
export const DLQ_FULL = 0.8;
export const DLQ_EXPIRING = 0.8;
/** Failure callbacks that failed for each that succeeded: more than a fifth of those that ended. A few fail where callbacks work. */
export const CALLBACKS_FAILED = 0.25;

/**
 * Growth of a waitlist within an hour, from which the page calls it growing: the minimum of the last third exceeds the maximum of
 * the first third. A burst that drains again does not count. The shipped rule compares two hours.
 */
export const BACKLOG_TREND = { fewest: 50, growth: { share: 0.5, fewest: 25, many: 100 } satisfies Growth } as const;

/** Requests of a quarter of an hour that got 429: more than this share, and at least so many. */
export const RATE_LIMITED = { share: 0.1, fewest: 5 } as const;
/** Answers without a list in a quarter of an hour. One or two are a page that something on the way has answered with. */
export const LISTS_MISSING = 3;
/** Share of the day's requests that is kept for auto-cancel; and of the time left of the day, for which the rest must last. */
export const REQUESTS_KEPT = 0.1;
export const REQUESTS_LAST = 0.25;
/** Age of the newest event, seconds, from which the log lags where messages move. */
export const LOG_BEHIND = 900;
/** Time without data, seconds, before an account counts as blind: before the first data is withdrawn, with the usual intervals. */
export const BLIND_FOR = 120;
export const UNRESOLVED = 1800;

/** Seconds for which no replica may hold an account: a takeover ends the lease time and a few rounds after the holder. */
export const UNCOLLECTED = 120;
