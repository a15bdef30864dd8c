import type { BurnRate, Growth } from '../src/metrics/thresholds.ts';

/** Durations of the windows in rules (s), by Prometheus duration. */
export const WINDOW_SECONDS = {
  '5m': 300,
  '30m': 1800,
  '1h': 3600,
  '6h': 21_600,
  '1d': 86_400,
  '3d': 259_200,
} as const;
export type Window = keyof typeof WINDOW_SECONDS;

/** Windows of message counts. `longEvery`: evaluation interval (minutes) of the long windows, which change slowly. */
export const COUNTED_WINDOWS = { short: ['5m', '30m', '1h'], long: ['6h', '1d', '3d'], longEvery: 3 } as const;

/**
 * Burn rate at which an error budget burns too fast, and the two windows over which it is measured. The long window shows that
 * the burn is significant, the short one that it continues. `times`: burn rate; at 1, a 30-day budget is spent in 30 days.
 */
export interface Burn {
  readonly times: BurnRate;
  readonly long: Window;
  readonly short: Window;
}

/** Pairs of windows by alert. An alert on an error budget fires if the budget burns too fast in both windows of a pair. */
export const BURNS = {
  fast: [
    { times: 14.4, long: '1h', short: '5m' },
    { times: 6, long: '6h', short: '30m' },
  ],
  slow: [
    { times: 3, long: '1d', short: '1h' },
    { times: 1, long: '3d', short: '6h' },
  ],
} as const satisfies Readonly<Record<string, readonly Burn[]>>;
export type Pace = keyof typeof BURNS;

/**
 * Number of waiting messages above which the waitlist of a flow-control key may be a backlog. Shorter waitlists drain within
 * minutes.
 */
export const BACKLOG = 100;
export const BACKLOG_GROWTH: Growth = { share: 0.5, fewest: 100, many: 500 };
/** Time after which the database counts as unavailable if requests for the lease fail and none succeeds (s). */
export const DATABASE_AWAY = 180;
/** Maximum time without a leader (s). A takeover takes a lease time and a few seconds. */
export const NO_LEADER = 60;
/** Time for which two processes may seem to lead (s), because Prometheus has samples of both during a takeover. */
export const TWO_LEADERS = 300;
/** Number of failed attempts in 15 minutes above which a destination may be failing. */
export const FAILING = 10;
