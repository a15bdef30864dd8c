import { hungWorkflows } from '../../../src/cli/demo-settings.ts';
import type { FaultSeed } from '../../../src/emulator/faults.ts';
import { type Scenario, scenarioNamed, scenarios } from '../../../src/emulator/scenarios.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

/** Time between the start of the emulator's workload and the start of the emulator (ms). */
const HEAD_START_MS = HOUR_MS;

const isBetween = (ms: number, fromHours: number, toHours: number) =>
  ms <= fromHours * HOUR_MS && ms > toHours * HOUR_MS;

/**
 * Adds two variants of the shipped scenarios to the emulator, which selects scenarios by name. Both variants start healthy. In
 * the last hours, one is slow for about 50 minutes, and the other has a growing dead-letter queue. `pastMs`: duration of the
 * simulated past.
 */
export function addScenarios(pastMs: number): void {
  /** Returns the remaining time until the end of the past (ms). */
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

/** Fault that simulates the network latency of the service. */
const far: FaultSeed = { latencyMs: 60 };

/** Returns the service's faults: latency and, during one outage of all accounts, errors as in the scenario `outage`. */
export function faultsAt(msLeft: number): readonly FaultSeed[] {
  return isBetween(msLeft, 2, 1.65) ? [{ ...far, kind: 'status', status: 503 }, far] : [far];
}

/** The configuration except for accounts and notifiers. */
export const settings = {
  // No interval is shorter than the scrape interval, and each event is read about once, because more reads only slow down the
  // replay.
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
    // The times are shorter than in practice, so that callbacks count as stuck within the recorded past.
    rules: [
      {
        ...hungWorkflows({ perRun: 5, perHour: 20 }),
        stuckWhen: { inProgressFor: '3h', assumeMaxRetries: 3, snapshots: 8 },
      },
    ],
  },
} as const;
