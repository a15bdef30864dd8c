import { DAY, HOUR, MINUTE } from '../kit/duration.ts';

/**
 * Thresholds of the checks. Shares are from 0 to 1, times in milliseconds. The conditions in docs/alerts.md and in the runbooks
 * contain the same values, as do Prometheus rules and dashboards.
 */

/** Minimum number of bad messages that are reported, regardless of their share. */
export const MIN_BAD = 10;

/** Burn rates: multiples of the rate that would spend the error budget in exactly 30 days. */
export const BURN_RATES = [14.4, 6, 3, 1] as const;
export type BurnRate = (typeof BURN_RATES)[number];
export const MONTH = 30 * DAY;
/**
 * Burn rate that is too high if both windows exceed it. The long window shows that the burn is significant, and the short
 * window shows that it continues.
 */
export interface BurnWindows {
  readonly times: BurnRate;
  readonly long: number;
  readonly short: number;
}
export const BURN_WINDOWS = {
  fast: [
    { times: 14.4, long: HOUR, short: 5 * MINUTE },
    { times: 6, long: 6 * HOUR, short: 30 * MINUTE },
  ],
  slow: [
    { times: 3, long: DAY, short: 2 * HOUR },
    { times: 1, long: 3 * DAY, short: 6 * HOUR },
  ],
} as const satisfies Readonly<Record<string, readonly BurnWindows[]>>;
/** Share of bad messages at which an objective counts as missed, however lax the objective is. */
export const MAX_BAD_RATIO = 0.9;

/** Window in which at least `MIN_BAD` messages become overdue, but no message ends. */
export const NOTHING_ENDED = 30 * MINUTE;

/** Limits for a destination. `attempts`: failed attempts, if fewer succeed. `messages`: failed messages, if none is delivered. */
export const DESTINATION = {
  attempts: { more: 10, over: 15 * MINUTE },
  messages: { fewest: 5, over: DAY },
} as const;

/** Limit for the share of attempts that are redeliveries. The service delivers at least once, so some redeliveries are normal. */
export const REDELIVERED = 0.001;

/** An increase must exceed `share` times the earlier number; this limit is at least `fewest` and at most `many`. */
export interface Growth {
  readonly share: number;
  readonly fewest: number;
  readonly many: number;
}

/** Limits for sudden DLQ growth, and for growth within one and six hours. A queue of a few dozen may double within a day. */
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

/**
 * Growth of a waitlist within an hour: the minimum of the last third exceeds the maximum of the first third, so that a burst
 * that drains again does not count.
 */
export const BACKLOG_TREND = { fewest: 50, growth: { share: 0.5, fewest: 25, many: 100 } satisfies Growth } as const;

/** Time after which the unchanged waitlist of an unpaused key is reported. */
export const WAITLIST_UNCHANGED = 30 * MINUTE;

/** Window of the checks of requests and notifications. */
export const RECENT_REQUESTS = 15 * MINUTE;
/** Limits for requests that got 429: more than `share` of all requests, and at least `fewest`. */
export const RATE_LIMITED = { share: 0.1, fewest: 5 } as const;
/** Share of the pro-rata budget (for the rest of the day) that must remain. */
export const REQUESTS_LAST = 0.25;
/** Time for which a temporary error of a filter is not reported (multiple of the interval of walks). */
export const FILTER_WALKS = 1.5;
/** Age of the newest event at which the log counts as lagging while messages are moving. */
export const LOG_BEHIND = 15 * MINUTE;
/** Clock difference between the service and the agent above which the difference is reported. */
export const CLOCK_SKEW = 10_000;
/** Time for which data is stale before an account counts as blind. With default intervals this precedes any withdrawal of data. */
export const BLIND_FOR = 2 * MINUTE;
/** Maximum number of alerts per rule or kind and account, including recently resolved ones. Limits memory use and stored rows. */
export const MAX_ALERTS = 100;
/** Time for which an ended problem is exposed as 0, so that `last_over_time` contains the end. */
export const ENDED_FOR = 10 * MINUTE;

/** Time after which observation of a planned callback ends. */
export const OBSERVED_FOR = 2 * DAY;
/** Age at which a cancel without a known outcome is reported. */
export const UNRESOLVED = 30 * MINUTE;

/** Time without a delivery after which a queue with waiting messages counts as blocked. */
export const QUEUE_BLOCKED = 30 * MINUTE;
/** Used share of the plan's daily quota at which the agent begins to forecast when the quota ends. */
export const QUOTA_USED = 0.5;
/** Limits for the difference between two counts of the dead-letter queue. A reported difference exceeds both. */
export const DLQ_DIFFERENCE = { share: 0.1, fewest: 10 } as const;
