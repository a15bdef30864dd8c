import type { BurnRate, Growth } from '../src/metrics/thresholds.ts';

/** Lengths of the windows in rules in seconds, by Prometheus duration. */
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

/** Windows of counts of messages. `longEvery`: minutes between evaluations of the long ones, which change slowly. */
export const COUNTED_WINDOWS = { short: ['5m', '30m', '1h'], long: ['2h', '6h', '1d', '3d'], longEvery: 3 } as const;

/** Counts of messages. Finished: delivered or failed; cancelled messages are not deliveries. */
export type Count = 'failed' | 'overdue' | 'finished';

/** Bad messages of an objective. Overdue messages include messages that never end. */
export const BAD = { delivered: 'failed', on_time: 'overdue' } as const;

/**
 * Two windows in which an error budget burns too fast: the long one shows that it is significant, the short one that it
 * continues. `times`: burn rate relative to one that spends the budget of 30 days in 30 days.
 */
export interface Burn {
  readonly times: BurnRate;
  readonly long: Window;
  readonly short: Window;
}

/** An alert on an error budget that fires while one of its burns is true. Times are Prometheus durations. */
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
  // Outlasts the alert on late messages, so that one notification resolves both.
  DeliveryErrorBudgetFastBurn: { objective: 'delivered', ...FAST, keepFiringFor: '20m' },
  DeliveryErrorBudgetSlowBurn: { objective: 'delivered', ...SLOW },
  DeliveryOnTimeBudgetFastBurn: { objective: 'on_time', ...FAST },
  DeliveryOnTimeBudgetSlowBurn: { objective: 'on_time', ...SLOW },
} as const satisfies Readonly<Record<string, BurnAlert>>;

/** Messages waiting on a flow-control key. Smaller queues build up and drain within minutes. */
export const BACKLOG = 100;
export const BACKLOG_GROWTH: Growth = { share: 0.5, fewest: 100, many: 500 };
/** Time (seconds) in which renewals of leases fail and none succeeds, after which the database is unavailable. */
export const DATABASE_AWAY = 180;
/** Time (seconds) for which two replicas may hold one account: during a takeover Prometheus has samples of both. */
export const HELD_TWICE = 300;
