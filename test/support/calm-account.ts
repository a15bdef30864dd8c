import type { AccountViewBase } from '../../src/status/account.ts';

/** Noon (ms since the Unix epoch). */
export const NOON = Date.UTC(2026, 2, 14, 12);

const ago = (seconds: number) => new Date(NOON - seconds * 1000).toISOString();

const round = (collector: string, name: string, everySeconds: number): AccountViewBase['rounds'][number] => ({
  collector,
  round: name,
  everySeconds,
  state: 'ok',
  dataAt: ago(10),
  tookSeconds: 0.1,
  consecutiveFailures: 0,
  failure: null,
});

/** Creates a complete account view at `NOON`, without problems, for tests to modify. */
export function calmAccount(): AccountViewBase {
  return {
    now: ago(0),
    account: 'acme',
    up: true,
    baseUrl: 'https://delivery.example.com',
    region: null,
    plan: null,
    labels: {},
    rounds: [
      round('flow_control', 'list', 15),
      round('dlq', 'new', 30),
      round('dlq', 'full', 600),
      round('events', 'tail', 15),
      round('events', 'sweep', 300),
      round('account', 'record', 15),
    ],
    deadLetters: {
      enabled: true,
      data: 'fresh',
      messages: 100,
      change: null,
      most: 10_000,
      entered: 500,
      left: { expired: 0, removed: 400, unknown: 0 },
      oldest: ago(7200),
      newest: ago(60),
      oldestEntered: ago(3600),
      retentionSeconds: 604_800,
      nextExpiry: ago(3600 - 604_800),
      filters: [],
      breakdowns: [],
      kinds: {
        count: 1,
        appeared: 0,
        returned: 0,
        others: 0,
        largest: [
          { id: 'a', urlHost: 'api.example.com', route: '/orders', responseStatus: '503', messages: 71, sample: null },
        ],
      },
      newestEntries: [],
      longestEntries: [],
      callbacks: { in_progress: 3, success: 90, fail: 2, canceled: 0, unknown: 0 },
      suspected: 0,
      oldestInProgress: ago(600),
    },
    events: {
      enabled: true,
      data: 'fresh',
      windowSeconds: 300,
      recent: { delivered: 100 },
      total: { created: 10_000, active: 10_500, delivered: 9990, retry: 300, failed: 10 },
      since: ago(86_400),
      finished: { delivered: 9990, failed: 10, cancelled: 0 },
      lastHour: null,
      objectives: { delivered: 0.99, onTime: 0.99, onTimeWithinSeconds: 300 },
      overdue: 5,
      inFlight: 12,
      oldestInFlight: ago(30),
      newest: ago(15),
      attempts: [],
      destinations: [],
      gaps: 0,
      late: 0,
      duplicates: 0,
    },
    flowControl: {
      enabled: true,
      data: 'fresh',
      keys: 1,
      waiting: 10,
      beyondCap: 0,
      beyondCapWaiting: 0,
      rows: [
        {
          key: 'tenant-7',
          waiting: 10,
          change: null,
          drainSeconds: null,
          state: 'moving',
          stateSince: ago(1),
          parallelismLimit: 10,
          parallelismInUse: 3,
          rateLimit: null,
          rateUsed: null,
          ratePeriodSeconds: null,
          saturation: 0.3,
          paused: false,
          pinned: [],
        },
      ],
    },
    schedules: [
      {
        name: 'reports',
        state: 'ok',
        lastStarted: ago(40),
        lastDelivered: ago(39),
        lastFailed: null,
        next: ago(-20),
        missed: 0,
        late: 0,
      },
    ],
    calls: {
      requests: [],
      bytes: 0,
      waitedSeconds: 0,
      budgetRemaining: 150_000,
      budgetPerDay: 200_000,
      tokenRejected: false,
    },
  };
}
