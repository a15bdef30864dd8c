import { hungWorkflows } from '../../../src/cli/demo-settings.ts';
import { type Scenario, scenarioNamed, scenarios } from '../../../src/emulator/scenarios.ts';
import type { FaultSeed } from '../../../src/emulator/server.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

/** The emulator's workload starts this long before the emulator (ms). */
const HEAD_START_MS = HOUR_MS;

const isBetween = (ms: number, fromHours: number, toHours: number) =>
  ms <= fromHours * HOUR_MS && ms > toHours * HOUR_MS;

/**
 * Adds variants of the shipped scenarios. Each account is healthy for a day; in the last six hours, one has a slow hour that is
 * over, one has a growing dead-letter queue, and one has stuck callbacks. They are added to the emulator's scenarios, because
 * it selects scenarios by name. `pastMs`: duration of the simulated past.
 */
export function addScenarios(pastMs: number): void {
  /** Returns the time left until now (ms). */
  const left = (elapsedMs: number) => pastMs + HEAD_START_MS - elapsedMs;
  const isSlow = (elapsedMs: number) => isBetween(left(elapsedMs), 4.5, 3.7);
  const steady = scenarioNamed('steady');
  const { doomed: growing } = scenarioNamed('dlq-growth');
  Object.assign(scenarios, {
    'slow-afternoon': {
      ...steady,
      description: 'steady; for 50 minutes more messages fail and deliveries take longer, and a schedule misses starts',
      doomed: (usual, elapsedMs) => (isSlow(elapsedMs) ? Math.min(0.12, usual * 15) : usual / 4),
      takesMs: (usual, elapsedMs) => (isSlow(elapsedMs) ? 2 * usual : usual / 2),
      schedule: (id, elapsedMs) => (id === 'scd_7minutely' && isBetween(left(elapsedMs), 4, 3.9) ? 'stops' : undefined),
    },
    'late-growth': {
      ...steady,
      description: 'steady, then dlq-growth',
      doomed(usual, elapsedMs) {
        const since = 2.5 * HOUR_MS - left(elapsedMs);
        return since > 0 ? (growing?.(usual, since) ?? usual) : usual / 4;
      },
    },
  } satisfies Record<string, Scenario>);
}

/** Scenario of each account. */
export const accounts = { orders: 'slow-afternoon', billing: 'late-growth', workflows: 'stuck-callback' } as const;

/** A service with network latency. */
const far: FaultSeed = { latencyMs: 30, jitterMs: 60 };

/** Returns the faults of one outage of the service for all accounts, like in the scenario `outage`. */
export function faultsAt(msLeft: number): readonly FaultSeed[] {
  return isBetween(msLeft, 2, 1.65) ? [{ ...far, kind: 'status', status: 503 }, far] : [far];
}

/** The configuration without accounts, notifiers and push. */
export const settings = {
  // Intervals equal those of scrapes, and each event is read about once: more reads would only slow down the replay.
  collect: {
    flowControl: { every: '30s' },
    events: { every: '30s', overlap: '20s', lateSweep: '20s', destination: 'host' },
    routes: ['/jobs/:name', '/hooks/:name', '/v1/*path', '/api/*path'],
    dlq: {
      every: '60s',
      breakdowns: ['urlHost', 'route', 'responseStatus'],
      filters: [
        { name: 'emails', match: { queueName: 'emails' } },
        { name: 'status-500', match: { responseStatus: 500 } },
      ],
    },
  },
  alerts: {
    enabled: true,
    rules: [
      {
        name: 'DlqGrowing',
        when: { growth: { metric: 'delivery_dlq_messages', over: '1h', atLeast: 10 } },
        for: '30m',
        labels: { severity: 'warning' },
      },
      { name: 'Stale', when: { stale: { collector: 'events' } }, for: '5m', labels: { severity: 'warning' } },
    ],
  },
  schedules: [{ name: 'reports', match: { scheduleId: 'scd_7minutely' }, cron: '* * * * *', tz: 'UTC', grace: '2m' }],
  autoCancel: {
    mode: 'enforce',
    breaker: { candidates: { max: 1000, percent: 100 } },
    limits: { perRun: 5, perHour: 20, perDay: 50 },
    // Shorter than in practice, so that callbacks are stuck within the recorded past.
    rules: [
      {
        ...hungWorkflows({ perRun: 5, perHour: 20 }),
        stuckWhen: { inProgressFor: '3h', assumeMaxRetries: 3, snapshots: 8 },
      },
    ],
  },
} as const;
