/**
 * Limits of the checks. Shares are from 0 to 1, times in seconds.
 */

/** Minimum number of bad messages that are reported, regardless of their share. */
export const MIN_BAD = 10;

/** Burn rates: multiples of the rate that would spend the error budget in exactly 30 days. */
export const BURN_RATES = [14.4, 6, 3, 1] as const;
export type BurnRate = (typeof BURN_RATES)[number];
export const MONTH = 30 * 86_400;
/**
 * Burn rate at which an error budget burns too fast in both of two windows (s). The long window shows that the burn is significant,
 * the short one that it continues.
 */
export interface BurnWindows {
  readonly times: BurnRate;
  readonly long: number;
  readonly short: number;
}
export const BURN_WINDOWS = {
  fast: [
    { times: 14.4, long: 3600, short: 300 },
    { times: 6, long: 21_600, short: 1800 },
  ],
  slow: [
    { times: 3, long: 86_400, short: 7200 },
    { times: 1, long: 259_200, short: 21_600 },
  ],
} as const satisfies Readonly<Record<string, readonly BurnWindows[]>>;
/** Share of bad messages at which an objective counts as missed, however lax the objective is. */
export const MAX_BAD_RATIO = 0.9;

/** Limit for the share of attempts that lead to a retry. It applies only if there are more than `fewest` attempts. */
export const RETRIES = { share: 0.25, fewest: 40 } as const;

/**
 * Limits for a destination: failed attempts within 15 minutes that must be exceeded, if fewer succeeded, and failed messages within
 * a day, if none was delivered.
 */
export const DESTINATION = { attempts: 10, messages: 5 } as const;

/** An increase must exceed `share` times the earlier number; this limit is at least `fewest` and at most `many`. */
export interface Growth {
  readonly share: number;
  readonly fewest: number;
  readonly many: number;
}

/** Limits for DLQ growth at once, within an hour and within six hours. A queue of a few dozen normally doubles within a day and shrinks again. */
export const DLQ_AT_ONCE: Growth = { share: 0.2, fewest: 20, many: 50 };
export const DLQ_BY_THE_HOUR: readonly Growth[] = [
  { share: 1, fewest: 4, many: 100 },
  { share: 0.35, fewest: 25, many: 100 },
];
export const DLQ_BY_SIX_HOURS: Growth = { share: 1, fewest: 10, many: 200 };
/** Limits for the queue's size (share of the plan's limit) and for the age of its oldest entry (share of the retention). */
export const DLQ_FULL = 0.8;
export const DLQ_EXPIRING = 0.8;
/** Age of an entry, in multiples of the retention, that shows that the configured retention is too short. */
export const RETENTION_EXCEEDED = 1.1;
/** Limit for failed failure callbacks per successful one: a fifth of all finished callbacks. A few failures are normal. */
export const CALLBACKS_FAILED = 0.25;

/**
 * Growth of a waitlist within an hour: the minimum of the last third exceeds the maximum of the first third, so that a burst
 * that drains again does not count.
 */
export const BACKLOG_TREND = { fewest: 50, growth: { share: 0.5, fewest: 25, many: 100 } satisfies Growth } as const;

/** Limits for requests that got 429 within 15 minutes: more than `share` of all requests, and at least `fewest`. */
export const RATE_LIMITED = { share: 0.1, fewest: 5 } as const;
/** Minimum number of responses without a list in 15 minutes that is reported. One or two may come from an intermediary. */
export const LISTS_MISSING = 3;
/** Share of the day's requests reserved for auto-cancel, and share of the remaining day for which the other requests must suffice. */
export const REQUESTS_KEPT = 0.1;
export const REQUESTS_LAST = 0.25;
/** Age of the newest event at which the log counts as lagging while messages are moving (s). */
export const LOG_BEHIND = 900;
/** Difference between the clocks of the service and the agent that is reported (s). */
export const CLOCK_SKEW = 10;
/** Time without data after which an account counts as blind (s). With default intervals this precedes any withdrawal of data. */
export const BLIND_FOR = 120;
/** Age at which a cancel without a known outcome is reported (s). */
export const UNRESOLVED = 1800;
