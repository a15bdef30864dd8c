import type { Dialect } from './dialect.ts';
import type { FaultSeed } from './faults.ts';
import type { PlannedLimits } from './flow-control.ts';

/** Times in ms. `elapsedMs` counts from the start of the workload and is negative before it. */
export interface Scenario {
  readonly description: string;
  /** Returns the share (0 to 1) of messages to a destination that fail permanently. */
  doomed?(usual: number, elapsedMs: number): number;
  /**
   * Returns `stops` if a schedule creates no messages although it is not paused, `fails` if all its messages fail, `twice` if it
   * creates them twice for each time; undefined if it behaves as usual.
   */
  schedule?(scheduleId: string, elapsedMs: number): 'stops' | 'fails' | 'paused' | 'deleted' | 'twice' | undefined;
  /** Returns limits of a flow-control key that were set independently of the messages. */
  limits?(key: string, elapsedMs: number): PlannedLimits | undefined;
  /** Returns the share (0 to 1) of workflow runs that never end. */
  stuckRuns?(elapsedMs: number): number;
  /** Share of the daily requests that other clients of the account have used. */
  readonly usedByOthers?: number;
  readonly unattended?: boolean;
  /** Whether operators clear dead letters within a day and failure callbacks rarely fail. */
  readonly isTidy?: boolean;
  takesMs?(usual: number, elapsedMs: number): number;
  stuck?(elapsedMs: number): number;
  /** Share of attempts with a lost result, so that the message is delivered again. */
  readonly redelivered?: number;
  /** Mean time between failed workflow runs; default 12 minutes. */
  readonly runFailsEveryMs?: number;
  /** Returns the time up to which events are listed at `now`. Both times count from the emulator's start. Never decreases. */
  listedUntil?(now: number): number;
  readonly dialect?: Partial<Dialect>;
  /** Returns the fault that affects all requests at `now` (since the emulator's start). */
  fault?(now: number): FaultSeed | undefined;
}

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

/** Maximum share of doomed messages. With more, retries overload some flow-control keys forever. */
const MAX_DOOMED = 0.12;

/** Behaviour well within the default objectives: 99 % delivered, 99 % within five minutes, no dead letter older than a day. */
const HEALTHY: Pick<Scenario, 'doomed' | 'takesMs' | 'isTidy'> = {
  doomed: usual => usual / 4,
  takesMs: usual => usual / 2,
  isTidy: true,
};

/** Returns the behaviour of the schedule `scd_7minutely`, which changes `minutes` after the end of the default history. */
const minutelyAfter =
  <F extends 'paused' | 'deleted' | 'twice'>(minutes: number, fate: F) =>
  (scheduleId: string, elapsedMs: number): F | undefined =>
    scheduleId === 'scd_7minutely' && elapsedMs >= HOUR_MS + minutes * MINUTE_MS ? fate : undefined;

export const scenarios: Readonly<Record<string, Scenario>> = {
  steady: {
    description: 'a healthy service: few messages fail, and operators regularly clear dead letters',
    ...HEALTHY,
  },
  neglected: {
    description: 'a working service: one message in a hundred fails, some dead letters expire, failure callbacks fail',
  },
  'dlq-growth': {
    description: 'more and more messages fail, and no operator clears the dead letters',
    // Grows by the usual share every ten minutes.
    doomed: (usual, elapsedMs) => Math.min(MAX_DOOMED, usual * (1 + elapsedMs / (10 * MINUTE_MS))),
    unattended: true,
  },
  'stuck-callback': {
    description: 'more workflow runs fail, and one failure callback in eight is stuck for days; its dead letter stays',
    ...HEALTHY,
    runFailsEveryMs: 4 * MINUTE_MS,
    stuck: elapsedMs => (elapsedMs < -12 * HOUR_MS ? 0 : 0.125),
  },
  'flow-control-pileup': {
    description:
      'for two of every four hours, starting with the first two, deliveries take twice as long and messages pile up behind flow-control keys',
    ...HEALTHY,
    // The emulator starts an hour after the workload, at the start of the slow hours.
    dialect: { flowControlFields: 'all' },
    takesMs: (usual, elapsedMs) => ((elapsedMs + HOUR_MS) % (4 * HOUR_MS) >= 2 * HOUR_MS ? 2 * usual : usual),
  },
  redeliveries: {
    description: 'the results of two attempts in a hundred are lost, and the messages are delivered again',
    ...HEALTHY,
    redelivered: 0.02,
  },
  'log-lag': {
    description:
      'events are listed 20 s late, and for 5 of every 15 minutes no new ones are listed; every message is on time',
    ...HEALTHY,
    listedUntil: now => now - Math.max(0, (now % (15 * MINUTE_MS)) - 10 * MINUTE_MS) - 20_000,
  },
  'rate-limited': {
    description: 'other clients of the account use up its request limit: four in ten requests get 429',
    ...HEALTHY,
    fault: () => ({ kind: 'status', status: 429, retryAfter: 1, share: 0.4 }),
  },
  'schedule-missed': {
    description:
      'in every 20 minutes, a schedule that runs every minute (scd_7minutely) does not fire for 5 minutes, and all its deliveries fail for 5 other minutes; no operator clears dead letters',
    ...HEALTHY,
    // An operator would republish the schedule's dead letters.
    unattended: true,
    schedule(scheduleId, elapsedMs) {
      const minute = (elapsedMs / MINUTE_MS) % 20;
      if (scheduleId !== 'scd_7minutely' || minute < 5 || (minute >= 10 && minute < 15)) return undefined;
      return minute < 10 ? 'stops' : 'fails';
    },
  },
  'schedule-paused': {
    description:
      'a schedule that runs every minute (scd_7minutely) is paused after ten minutes, which becomes a problem after a day; the service still announces its next starts',
    ...HEALTHY,
    schedule: minutelyAfter(10, 'paused'),
  },
  'schedule-deleted': {
    description: 'a schedule that runs every minute (scd_7minutely) is deleted after ten minutes',
    ...HEALTHY,
    schedule: minutelyAfter(10, 'deleted'),
  },
  'schedule-twice': {
    description: 'after ten minutes, a schedule that runs every minute (scd_7minutely) starts twice each time',
    ...HEALTHY,
    schedule: minutelyAfter(10, 'twice'),
  },
  'stuck-run': {
    description: 'one workflow run in twenty never ends',
    ...HEALTHY,
    stuckRuns: () => 0.05,
  },
  'quota-nearly-used': {
    description: 'other clients of the account have used 92 % of the requests of the day',
    ...HEALTHY,
    usedByOthers: 0.92,
  },
  'limit-overwritten': {
    description:
      'the flow-control key llm is pinned to a parallelism of 4; ten minutes after the start and every hour after that, the pin is removed and the parallelism is 40, both for 20 minutes',
    ...HEALTHY,
    dialect: { flowControlFields: 'all' },
    limits(key, elapsedMs) {
      if (key !== 'llm') return undefined;
      const isOverwritten =
        elapsedMs > HOUR_MS && elapsedMs % HOUR_MS >= 10 * MINUTE_MS && elapsedMs % HOUR_MS < 30 * MINUTE_MS;
      return isOverwritten ? { parallelism: 40, isPinned: false } : { parallelism: 4, isPinned: true };
    },
  },
  outage: {
    description: 'for 5 of every 15 minutes the service answers every request with 503; deliveries continue',
    ...HEALTHY,
    fault: now => (now % (15 * MINUTE_MS) >= 10 * MINUTE_MS ? { kind: 'status', status: 503 } : undefined),
  },
};

export function scenarioNamed(name: string): Scenario {
  const scenario = Object.hasOwn(scenarios, name) ? scenarios[name] : undefined;
  if (!scenario) throw new RangeError(`no scenario "${name}"; there are: ${Object.keys(scenarios).join(', ')}`);
  return scenario;
}
