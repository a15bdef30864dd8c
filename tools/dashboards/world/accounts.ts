import { hungWorkflows } from '../../../src/cli/demo.ts';
import { type Scenario, scenarioNamed, scenarios } from '../../../src/emulator/scenarios.ts';
import type { FaultSeed } from '../../../src/emulator/server.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

/** The emulator's workload begins this long before the emulator, milliseconds. */
const HEAD_START_MS = HOUR_MS;

const isBetween = (ms: number, fromHours: number, toHours: number) =>
  ms <= fromHours * HOUR_MS && ms > toHours * HOUR_MS;

/**
 * The shipped scenarios, each in its hour: an account is fine for a day, and in the last six hours it has an incident.
 * The emulator knows scenarios by name, so these join its own. `pastMs`: how much of the past is played.
 */
export function addScenarios(pastMs: number): void {
  /** Milliseconds left until now. */
  const left = (elapsedMs: number) => pastMs + HEAD_START_MS - elapsedMs;
  const isSlow = (elapsedMs: number) => isBetween(left(elapsedMs), 4.5, 3.7);
  const { doomed: growing } = scenarioNamed('dlq-growth');
  Object.assign(scenarios, {
    'slow-afternoon': {
      description: 'steady; for 50 minutes more messages fail and deliveries take longer',
      doomed: (usual, elapsedMs) => (isSlow(elapsedMs) ? Math.min(0.12, usual * 15) : usual),
      takesMs: (usual, elapsedMs) => (isSlow(elapsedMs) ? 2 * usual : usual),
    },
    'late-growth': {
      description: 'steady, then dlq-growth',
      doomed(usual, elapsedMs) {
        const since = 5 * HOUR_MS - left(elapsedMs);
        return since > 0 ? (growing?.(usual, since) ?? usual) : usual;
      },
    },
  } satisfies Record<string, Scenario>);
}

/** Name and scenario of each account. */
export const accounts = { orders: 'slow-afternoon', billing: 'late-growth', workflows: 'stuck-callback' } as const;

/** A service that is some way off. */
const far: FaultSeed = { latencyMs: 30, jitterMs: 60 };

/** The service's own outage, as scenario `outage` has it, once and for all accounts. */
export function faultsAt(msLeft: number): readonly FaultSeed[] {
  return isBetween(msLeft, 2, 1.65) ? [{ ...far, kind: 'status', status: 503 }, far] : [far];
}

/** What is configured besides the accounts. */
export const settings = {
  // As often as it is scraped, and each event about once: more would only take longer to play.
  collect: {
    flowControl: { every: '30s' },
    events: { every: '30s', overlap: '20s', lateSweep: '20s', destination: 'host' },
    dlq: {
      every: '60s',
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
  autoCancel: {
    mode: 'enforce',
    breaker: { candidates: { max: 1000, percent: 100 } },
    limits: { perRun: 5, perHour: 20, perDay: 50 },
    rules: [hungWorkflows({ perRun: 5, perHour: 20 })],
  },
} as const;
