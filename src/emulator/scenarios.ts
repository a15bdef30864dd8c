import type { Dialect } from './dialect.ts';
import type { FaultSeed } from './faults.ts';

/** A scenario. Times in milliseconds; `elapsedMs` counts from the start of the workload and is negative before it. */
export interface Scenario {
  readonly description: string;
  /** Shipped alerts of all sets that fire within eight hours (stuck callbacks: two days), except those of severity `info`. */
  readonly fires: readonly string[];
  /** Share (0 to 1) of messages to a destination that fail for good, from its usual share; default the usual share. */
  doomed?(usual: number, elapsedMs: number): number;
  /** What becomes of the messages of a schedule: as usual when undefined; none is created, or each fails for good. */
  schedule?(scheduleId: string, elapsedMs: number): 'stops' | 'fails' | undefined;
  /** No operator retries or removes dead letters. */
  readonly unattended?: boolean;
  /** Operators leave no dead letter for a day, and failure callbacks seldom fail for good. */
  readonly isTidy?: boolean;
  takesMs?(usual: number, elapsedMs: number): number;
  /** Share (0 to 1) of deliveries whose slot is never given back, while their flow-control key has more than one left. */
  leaks?(elapsedMs: number): number;
  stuck?(elapsedMs: number): number;
  /** Mean time between failed workflow runs; default 12 minutes. */
  readonly runFailsEveryMs?: number;
  /** The time up to which events are listed when it is `now`; both count from the emulator's start. Never goes back. */
  listedUntil?(now: number): number;
  readonly dialect?: Partial<Dialect>;
  /** The fault of every request now; `now` counts from the emulator's start. */
  fault?(now: number): FaultSeed | undefined;
}

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

/** With more failures than this, retries would overload some flow-control keys, and their waitlists would never shrink. */
const MOST_DOOMED = 0.12;

/** Well within the usual objectives: 99 % delivered, 99 % within five minutes, and no dead letter older than a day. */
const HEALTHY: Pick<Scenario, 'doomed' | 'takesMs' | 'isTidy'> = {
  doomed: usual => usual / 4,
  takesMs: usual => usual / 2,
  isTidy: true,
};

/** What fires where more and more messages fail, are late because of their retries, and stay dead letters. */
const DLQ_GROWTH = [
  'DeliveryDestinationFailing',
  'DeliveryDlqAgeHigh',
  'DeliveryDlqGrowing',
  'DeliveryErrorBudgetFastBurn',
  'DeliveryFlowControlBacklogGrowing',
  'DeliveryOnTimeBudgetFastBurn',
  'DeliveryScheduleLate',
];

export const scenarios: Readonly<Record<string, Scenario>> = {
  steady: {
    description: 'a service in good health: few messages fail, and operators clear the dead letters now and then',
    fires: [],
    ...HEALTHY,
  },
  neglected: {
    description:
      'a service that works: one message in a hundred fails, some dead letters are left to expire, failure callbacks fail',
    fires: ['DeliveryDlqAgeHigh', 'DeliveryOnTimeBudgetFastBurn', 'DeliveryScheduleLate'],
  },
  'dlq-growth': {
    description: 'more and more messages fail, and no operator clears the dead letters',
    // The usual share is added once more every ten minutes.
    doomed: (usual, elapsedMs) => Math.min(MOST_DOOMED, usual * (1 + elapsedMs / (10 * MINUTE_MS))),
    fires: DLQ_GROWTH,
    unattended: true,
  },
  'stuck-callback': {
    description:
      'more workflow runs fail, and one failure callback in eight gets stuck for days, and its dead letter with it',
    // After a day, and after two.
    fires: ['DeliveryDlqAgeHigh', 'DeliveryFailureCallbackStuck'],
    ...HEALTHY,
    runFailsEveryMs: 4 * MINUTE_MS,
    stuck: elapsedMs => (elapsedMs < -12 * HOUR_MS ? 0 : 0.125),
  },
  'flow-control-pileup': {
    description:
      'for two of every four hours, the first two included, deliveries take twice as long, and messages pile up behind flow-control keys',
    fires: ['DeliveryFlowControlBacklogGrowing', 'DeliveryOnTimeBudgetFastBurn', 'DeliveryScheduleLate'],
    ...HEALTHY,
    // The bad hours begin with the emulator, an hour after the workload.
    takesMs: (usual, elapsedMs) => ((elapsedMs + HOUR_MS) % (4 * HOUR_MS) >= 2 * HOUR_MS ? 2 * usual : usual),
  },
  'ghost-slots': {
    description:
      'from a minute after the start on, flow-control keys lose all their slots but one: they stay in use, and nothing runs in them',
    fires: ['DeliveryFlowControlGhostSlots', 'DeliveryScheduleLate'],
    ...HEALTHY,
    dialect: { flowControlFields: 'all' },
    leaks: elapsedMs => (elapsedMs < HOUR_MS + MINUTE_MS ? 0 : 0.1),
  },
  'log-lag': {
    description:
      'events are listed 20 s late, and for 5 of every 15 minutes new ones are held back; every message is on time',
    fires: [],
    ...HEALTHY,
    listedUntil: now => now - Math.max(0, (now % (15 * MINUTE_MS)) - 10 * MINUTE_MS) - 20_000,
  },
  'rate-limited': {
    description: 'other clients of the account use up the requests that it may send: four in ten get 429',
    fires: ['DeliveryRateLimited'],
    ...HEALTHY,
    fault: () => ({ kind: 'status', status: 429, retryAfter: 1, share: 0.4 }),
  },
  'schedule-missed': {
    description:
      'a schedule of every minute (scd_7minutely) does not fire in 5 of every 20 minutes, in 5 others all its deliveries fail, and no operator clears the dead letters',
    fires: ['DeliveryDestinationFailing', 'DeliveryDlqAgeHigh', 'DeliveryScheduleLate', 'DeliveryScheduleMissed'],
    ...HEALTHY,
    // An operator would publish its dead letters again.
    unattended: true,
    schedule(scheduleId, elapsedMs) {
      const minute = (elapsedMs / MINUTE_MS) % 20;
      if (scheduleId !== 'scd_7minutely' || minute < 5 || (minute >= 10 && minute < 15)) return undefined;
      return minute < 10 ? 'stops' : 'fails';
    },
  },
  outage: {
    description: 'for 5 of every 15 minutes the service answers every request with 503; deliveries go on',
    fires: ['DeliveryBlind'],
    ...HEALTHY,
    fault: now => (now % (15 * MINUTE_MS) >= 10 * MINUTE_MS ? { kind: 'status', status: 503 } : undefined),
  },
};

export function scenarioNamed(name: string): Scenario {
  const scenario = Object.hasOwn(scenarios, name) ? scenarios[name] : undefined;
  if (!scenario) throw new RangeError(`no scenario "${name}"; there are: ${Object.keys(scenarios).join(', ')}`);
  return scenario;
}
