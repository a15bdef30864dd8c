import type { EmulatedClock } from './clock.ts';
import { CALLERS, type Destination, destinations } from './destinations.ts';
import { type Dialect, dialectWith } from './dialect.ts';
import { createLogView, EventLog } from './event-log.ts';
import type { FailedMessage } from './message.ts';
import { createRandom, messageId } from './random.ts';
import { runsBetween } from './runs.ts';
import { scenarioNamed } from './scenarios.ts';
import { RowTimeline } from './timeline.ts';
import { Workflows } from './workflows.ts';
import { createWorkload, MAX_CATCH_UP_MS } from './workload.ts';

export interface WorldOptions {
  readonly clock: EmulatedClock;
  readonly seed: number;
  readonly scenario: string;
  /** Duration of the workload simulated before the start (ms), at most the retention of the event log; 0 for no past at all. */
  readonly history: number;
  readonly dlqEntries: number;
  readonly workload?: boolean;
  /** Default: a million. */
  readonly maxEvents?: number | undefined;
  readonly destinations?: readonly Destination[] | undefined;
  readonly dialect?: Dialect;
}

/** Retention of events (ms). There are about 20,000 events an hour. */
export const LOG_RETENTION_MS = MAX_CATCH_UP_MS;

/** Retention of dead letters (ms): three days, as in the free plan. */
export const DLQ_RETENTION_MS = 72 * 3_600_000;

/** Maximum numbers of rows, to limit memory. */
const MAX_DEAD_LETTERS = 200_000;
const MAX_EVENTS = 1_000_000;

/** Retention of workflow runs (ms). */
const RUN_RETENTION_MS = 24 * 3_600_000;

const RUN_FAILS_EVERY_MS = 12 * 60_000;

export type World = ReturnType<typeof createWorld>;

/** Creates the lists and the workload. Time advances on demand. */
export function createWorld(options: WorldOptions) {
  const { clock, seed, scenario: name, history, dlqEntries, maxEvents = MAX_EVENTS } = options;
  const now = clock.now();
  const start = now - Math.min(Math.max(0, history), LOG_RETENTION_MS);
  const scenario = scenarioNamed(name);
  const { dialect = dialectWith({}) } = options;
  const dlq = new RowTimeline<FailedMessage>();
  const log = new EventLog();
  const logView = createLogView(seed, dialect, time => now + (scenario.listedUntil?.(time - now) ?? time - now));
  const expire = (time: number) => {
    log.dropEarliest(time - LOG_RETENTION_MS, maxEvents);
    dlq.dropEarliest(time - DLQ_RETENTION_MS, MAX_DEAD_LETTERS + dlqEntries);
  };
  const oldest = scenario.isTidy ? start - TIDY_WITHIN_MS : now - DLQ_RETENTION_MS;
  fillPast(dlq, seed, dlqEntries, oldest, start);
  const isIdle = options.workload === false;
  const workload = createWorkload({
    start,
    seed,
    scenario,
    log,
    dlq,
    expire,
    isIdle,
    destinations: options.destinations,
  });
  const workflows = new Workflows({
    // Runs fail rarely and callbacks take hours, so their history covers the retention of dead letters.
    start: history > 0 ? now - DLQ_RETENTION_MS : now,
    seed,
    everyMs: isIdle ? Number.MAX_SAFE_INTEGER : (scenario.runFailsEveryMs ?? RUN_FAILS_EVERY_MS),
    stuck: time => scenario.stuck?.(time - start) ?? 0,
    attended: !scenario.unattended,
    isTidy: scenario.isTidy ?? false,
    retentionMs: DLQ_RETENTION_MS,
  });
  const advanceTo = (time: number) => {
    workload.advanceTo(time);
    workflows.advanceTo(time);
  };
  advanceTo(now);
  const runsSince = isIdle || history === 0 ? now : now - RUN_RETENTION_MS;
  /** Returns the workflow runs that have not failed, earliest first. */
  const runs = (time: number) => {
    if (isIdle) return [];
    const stuck = (createdAt: number) => scenario.stuckRuns?.(createdAt - start) ?? 0;
    return runsBetween(Math.max(runsSince, time - RUN_RETENTION_MS), time, { seed, stuck });
  };
  const { usedByOthers = 0 } = scenario;
  return { dialect, clock, dlq, log, logView, workload, workflows, runs, usedByOthers, start, advanceTo };
}

/** Maximum age of dead letters with tidy operators (ms). */
const TIDY_WITHIN_MS = 6 * 3_600_000;

/** Age (ms) above which dead letters belong only to neglected destinations. */
const NEGLECTED_AFTER_MS = 12 * 3_600_000;

/** Adds dead letters with times in [from, to), most of them recent. */
function fillPast(dlq: RowTimeline<FailedMessage>, seed: number, entries: number, from: number, to: number): void {
  const random = createRandom(seed + 1);
  const templates = (neglected: boolean) =>
    destinations
      .filter(each => (each.neglected ?? false) === neglected && each.doomed > 0)
      .flatMap(({ fields, statuses }) => statuses.map(responseStatus => ({ fields, responseStatus })))
      .flatMap(each => CALLERS.map(callerIP => ({ ...each, callerIP, lifetimeMs: random.between(5000, 2_000_000) })));
  const recent = templates(false);
  const old = templates(true);
  for (let index = 0; index < entries; index++) {
    // Ages decrease cubically with the index, so that rows are in time order.
    const age = (to - from) * (1 - (index + random.fraction()) / entries) ** 3;
    const time = Math.min(to - 1, Math.floor(to - age));
    const { responseStatus, lifetimeMs, ...template } = random.pick(age > NEGLECTED_AFTER_MS ? old : recent);
    const createdAt = time - lifetimeMs;
    const message = { ...template, createdAt, notBefore: createdAt, messageId: messageId(seed, 'p', index) };
    dlq.add(time, { message, responseStatus });
  }
}
