/**
 * From where on something is wrong: the shipped alerts and the page judge by the same. Shares are from 0 to 1, times in seconds.
 */

/** Fewer bad messages than these are not told, whatever share they are. */
export const FEWEST_BAD = 10;

/** How many times as fast as the error budget of 30 days would be spent in just that time. */
export const BURN_RATES = [14.4, 6, 3, 1] as const;
export type BurnRate = (typeof BURN_RATES)[number];
export const MONTH = 30 * 86_400;
/** However lax an objective is, it is missed where this share of its messages is bad. */
export const MOST_BAD = 0.9;

/** Lengths of the windows that rules judge, as Prometheus writes them, in seconds. */
export const WINDOW_SECONDS = {
  '5m': 300,
  '15m': 900,
  '30m': 1800,
  '1h': 3600,
  '2h': 7200,
  '6h': 21_600,
  '1d': 86_400,
  '3d': 259_200,
} as const;
export type Window = keyof typeof WINDOW_SECONDS;

/** Windows of counts of messages. The long ones are added up less often, every so many minutes: nothing changes so fast in them. */
export const COUNTED_WINDOWS = { short: ['5m', '30m', '1h'], long: ['2h', '6h', '1d', '3d'], longEvery: 3 } as const;

/** What is counted of messages. Finished: delivered or failed; cancelled ones say nothing of deliveries. */
export type Count = 'failed' | 'overdue' | 'finished';

/** The bad part of an objective's messages. Only a counter of those overdue knows of messages that never end. */
export const BAD = { delivered: 'failed', on_time: 'overdue' } as const;

/**
 * Two windows in which an error budget burns too fast: the long one says that it matters, the short one that it goes on.
 * `times`: as fast as the budget of 30 days would be spent in just that time.
 */
export interface Burn {
  readonly times: BurnRate;
  readonly long: Window;
  readonly short: Window;
}

/** An alert on an error budget that fires when one of its burns holds. Times as Prometheus writes durations. */
export interface BurnAlert {
  readonly objective: keyof typeof BAD;
  readonly burns: readonly Burn[];
  readonly for: string;
  readonly keepFiringFor: string;
}

const FAST: Omit<BurnAlert, 'objective'> = {
  burns: [
    { times: 14.4, long: '1h', short: '5m' },
    { times: 6, long: '6h', short: '30m' },
  ],
  for: '2m',
  keepFiringFor: '12m',
};
const SLOW: Omit<BurnAlert, 'objective'> = {
  burns: [
    { times: 3, long: '1d', short: '2h' },
    { times: 1, long: '3d', short: '6h' },
  ],
  for: '15m',
  keepFiringFor: '15m',
};

/** The shipped alerts on error budgets, by name. */
export const BURN_ALERTS = {
  DeliveryErrorBudgetFastBurn: { objective: 'delivered', ...FAST },
  DeliveryErrorBudgetSlowBurn: { objective: 'delivered', ...SLOW },
  DeliveryOnTimeBudgetFastBurn: { objective: 'on_time', ...FAST },
  DeliveryOnTimeBudgetSlowBurn: { objective: 'on_time', ...SLOW },
} as const satisfies Readonly<Record<string, BurnAlert>>;

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
/** Of the retention. */
export const DLQ_EXPIRING = 0.8;
/** Failure callbacks that failed for each that succeeded: more than a fifth of those that ended. A few fail where callbacks work. */
export const CALLBACKS_FAILED = 0.25;

/** Messages that wait on a flow-control key: queues that keep up build up and drain within minutes. */
export const BACKLOG = 100;
export const BACKLOG_GROWTH: Growth = { share: 0.5, fewest: 100, many: 500 };
/**
 * The same within an hour, where the shipped rule has two: from then on the page says that a waitlist grows all the time, as the
 * least of the last third exceeds the most of the first. Bursts that are worked off do not, however large they are.
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
/** Time after which the outcome of a cancel should be known, seconds. */
export const UNRESOLVED = 1800;

/** Of replicas that share a database. Seconds in which renewals of leases fail and none succeeds, before the database is called away. */
export const DATABASE_AWAY = 180;
/** Seconds for which no replica may hold an account: a takeover ends the lease time and a few rounds after the holder. */
export const UNCOLLECTED = 120;
/** Seconds for which two replicas may hold one account: as one goes over to the other, both are seen for a while. */
export const HELD_TWICE = 300;
