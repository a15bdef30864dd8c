import { recordOf } from '../kit/record.ts';
import { Agenda } from './agenda.ts';
import type { EmulatedClock } from './clock.ts';
import { CALLERS, type Destination, destinations, type Workflow, workflows } from './destinations.ts';
import type { Dialect } from './dialect.ts';
import {
  type EmulatedMessage,
  type FailedMessage,
  FailureCallback,
  LOG_STATES,
  type LoggedEvent,
  type LogState,
} from './message.ts';
import { createRandom, fractionOf, messageId, type Random } from './random.ts';
import { scenarioNamed } from './scenarios.ts';
import { type Position, RowTimeline } from './timeline.ts';
import { createWorkload, MAX_CATCH_UP_MS, retryDelay } from './workload.ts';

/** A workflow run that has not failed. Failed runs are dead letters. Times in ms since the Unix epoch. */
export interface EmulatedRun {
  readonly workflowRunId: string;
  readonly workflowUrl: string;
  readonly createdAt: number;
  readonly completedAt?: number | undefined;
  readonly state?: 'RUN_SUCCESS';
}

const RUN_EVERY_MS = 90_000;
const TAKES_MS = 20_000;
/** Share of runs that sleep or wait for an event, and their maximum duration (ms). */
const LONG_SHARE = 0.05;
const LONG_MS = 45 * 60_000;

const URLS = ['signup', 'invoice', 'digest'].map(name => `https://app.example.com/api/workflows/${name}`);

/** Returns the runs created after `from` up to `now`, which depend only on the seed and the time. */
function runsBetween(from: number, now: number, seed: number, stuck: (time: number) => number): EmulatedRun[] {
  const runs: EmulatedRun[] = [];
  for (let number = Math.floor(from / RUN_EVERY_MS) + 1; number * RUN_EVERY_MS <= now; number++) {
    const draw = (what: string) => fractionOf(seed, `${what} of run ${number}`);
    const createdAt = number * RUN_EVERY_MS;
    const takes = draw('kind') < LONG_SHARE ? LONG_MS * draw('time') : TAKES_MS * (0.1 + draw('time'));
    const completedAt = Math.ceil(createdAt + takes);
    const hasEnded = completedAt <= now && draw('end') >= stuck(createdAt);
    runs.push({
      workflowRunId: `wfr_${messageId(seed, 'r', number).slice(4)}`,
      workflowUrl: URLS[number % URLS.length] as string,
      createdAt,
      ...(hasEnded && { completedAt, state: 'RUN_SUCCESS' }),
    });
  }
  return runs;
}

interface WorkflowParts {
  readonly start: number;
  readonly seed: number;
  readonly everyMs: number;
  readonly stuck: (now: number) => number;
  readonly attended: boolean;
  /** Whether operators clear dead letters within hours and callbacks rarely fail. */
  readonly isTidy: boolean;
  readonly retentionMs: number;
}

/** First row number. It is so high that ids differ from the ids of other dead letters. */
const FIRST_SEQ = 1_000_000_000;

const VISIT_AFTER_MS = 10 * 3_600_000;
const TIDY_AFTER_MS = 2 * 3_600_000;

interface Course {
  readonly random: Random;
  readonly workflow: Workflow;
  /** Number of the attempt that gets stuck, counted from 0. Earlier attempts fail. Undefined if no attempt gets stuck. */
  readonly stuckAt: number | undefined;
}

/** Failed workflow runs and their failure callbacks, with separate random draws. */
class Workflows {
  readonly entries = new RowTimeline<FailedMessage>(FIRST_SEQ);
  readonly #agenda: Agenda;
  readonly #parts: WorkflowParts;
  readonly #random: Random;
  readonly #courses = new WeakMap<FailureCallback, Course>();
  #failed = 0;
  #issuedIds = 0;

  constructor(parts: WorkflowParts) {
    this.#parts = parts;
    this.#agenda = new Agenda(parts.start);
    this.#random = createRandom(parts.seed + 2);
    this.#planFailure();
  }

  advanceTo(now: number): void {
    const expiry = now - this.#parts.retentionMs;
    if (this.#agenda.now < expiry) {
      this.#agenda.restart(expiry);
      this.#planFailure();
    }
    this.#agenda.runUntil(now);
    this.entries.dropEarliest(expiry, Number.POSITIVE_INFINITY);
  }

  cancel(callback: FailureCallback | undefined): boolean {
    if (!callback?.inProgress) return false;
    callback.become('CALLBACK_CANCELED');
    return true;
  }

  retry(callback: FailureCallback | undefined): boolean {
    if (callback?.state !== 'CALLBACK_FAIL') return false;
    callback.become('CALLBACK_INPROGRESS');
    callback.messageId = this.nextMessageId();
    callback.retried = 0;
    this.#attempt(callback);
    return true;
  }

  nextMessageId(): string {
    return messageId(this.#parts.seed, 'c', FIRST_SEQ + this.#issuedIds++);
  }

  #planFailure(): void {
    this.#agenda.at(this.#agenda.now + this.#random.exponential(this.#parts.everyMs), () => {
      this.#fail();
      this.#planFailure();
    });
  }

  #fail(): void {
    const { seed, stuck, attended } = this.#parts;
    const now = this.#agenda.now;
    const number = this.#failed++;
    // Separate draws: changes to this run do not affect later runs.
    const random = createRandom(seed + 1_000_003 * (number + 1));
    const workflow = random.pick(workflows);
    const { fields, callback: sends } = workflow;
    const workflowCreatedAt = now - random.between(10_000, 3_000_000);
    const id = messageId(seed, 'f', number);
    const callback = sends && new FailureCallback({ ...sends, messageId: messageId(seed, 'c', number) });
    const message = {
      fields: callback ? { ...fields, failureCallback: callback.url } : fields,
      messageId: id,
      createdAt: workflowCreatedAt + random.between(0, 5000),
      notBefore: workflowCreatedAt,
      callerIP: random.pick(CALLERS),
    };
    const run = { workflowRunId: `wfr_${id.slice(4)}`, workflowUrl: fields.url, workflowCreatedAt, callback };
    const position = this.entries.add(now, { message, responseStatus: random.pick(workflow.statuses), run });
    if (callback) {
      const isStuck = random.chance(stuck(now));
      this.#courses.set(callback, { random, workflow, stuckAt: isStuck ? random.between(0, 1) : undefined });
      this.#attempt(callback);
    }
    if (attended) this.#planVisit(position, random);
  }

  #attempt(callback: FailureCallback): void {
    const course = this.#courses.get(callback);
    if (!course || course.stuckAt === callback.retried) return;
    const { random, workflow } = course;
    callback.nextDeliveryTime = undefined;
    const respondsAt = this.#agenda.now + random.exponential(workflow.callbackTakesMs);
    this.#whileInProgress(callback, respondsAt, () => this.#handleResponse(callback, course));
  }

  #handleResponse(callback: FailureCallback, { random, workflow, stuckAt }: Course): void {
    if (
      stuckAt === undefined &&
      !random.chance(this.#parts.isTidy ? workflow.callbackFails / 3 : workflow.callbackFails)
    ) {
      callback.responseStatus = 200;
      callback.become('CALLBACK_SUCCESS');
      return;
    }
    callback.responseStatus = random.pick(workflow.statuses);
    if (callback.retried >= callback.maxRetries) {
      callback.become('CALLBACK_FAIL');
      return;
    }
    callback.retried++;
    callback.nextDeliveryTime = this.#agenda.now + retryDelay(callback.retried);
    this.#whileInProgress(callback, callback.nextDeliveryTime, () => this.#attempt(callback));
  }

  /** Runs `then` at `due`, unless the callback has ended or been resent. */
  #whileInProgress(callback: FailureCallback, due: number, then: () => void): void {
    const { messageId } = callback;
    this.#agenda.at(due, () => {
      if (callback.inProgress && callback.messageId === messageId) then();
    });
  }

  #planVisit(position: Position, random: Random): void {
    this.#agenda.at(this.#agenda.now + random.exponential(this.#parts.isTidy ? TIDY_AFTER_MS : VISIT_AFTER_MS), () => {
      const entry = this.entries.get(position);
      if (!entry) return;
      if (entry.run?.callback?.inProgress) this.#planVisit(position, random);
      else this.entries.remove(position);
    });
  }
}

export type StateCounts = Record<LogState, number>;

/** Times of the events to count (ms since the Unix epoch). `from` and `to` are inclusive. */
export interface CountRange {
  readonly from?: number;
  readonly to?: number;
}

export class EventLog extends RowTimeline<LoggedEvent> {
  count({ from = 0, to = Number.POSITIVE_INFINITY }: CountRange = {}): StateCounts {
    const counts = recordOf(LOG_STATES, () => 0);
    this.forEach(({ state }, time) => {
      if (time >= from && time <= to) counts[state]++;
    });
    return counts;
  }
}

/** Returns the delay of an event, from 0 to `logLateMs`. Deterministic. */
export function lateBy(
  seed: number,
  { message, state }: { readonly message: Pick<EmulatedMessage, 'messageId'>; readonly state: LogState },
  time: number,
  { logLateShare, logLateMs }: Pick<Dialect, 'logLateShare' | 'logLateMs'>,
): number {
  const event = `${message.messageId} ${state} ${time}`;
  if (fractionOf(seed, `late ${event}`) >= logLateShare) return 0;
  return Math.ceil((1 - fractionOf(seed, `delay ${event}`)) * logLateMs);
}

/** The log as the API lists it: events may be delayed, unordered or duplicated. Times in ms since the Unix epoch. */
export type LogView = ReturnType<typeof createLogView>;

/** `until`: returns the time up to which events may be listed. Individual events may be delayed further. Never decreases. */
const createLogView = (seed: number, dialect: Dialect, until: (now: number) => number) => ({
  until,
  /** Returns a predicate that matches events up to `until(now)` that are not listed; undefined if all are listed. */
  unlisted(now: number): ((event: LoggedEvent, time: number) => boolean) | undefined {
    const { logLateShare, logLateMs } = dialect;
    if (logLateShare === 0 || logLateMs === 0) return undefined;
    const last = until(now);
    // Fast path: most events are older than any delay.
    return (event, time) =>
      time + logLateMs > last && time + lateBy(seed, event, time, { logLateShare, logLateMs }) > last;
  },
  /** Returns a function that returns how often an event is listed; undefined if every event is listed once. */
  get copies(): ((event: LoggedEvent, time: number) => number) | undefined {
    const { logDuplicates } = dialect;
    if (logDuplicates === 0) return undefined;
    return ({ message, state }, time) =>
      fractionOf(seed, `twice ${message.messageId} ${state} ${time}`) < logDuplicates ? 2 : 1;
  },
});

export interface WorldOptions {
  readonly clock: EmulatedClock;
  readonly seed: number;
  readonly scenario: string;
  /** Duration of the workload simulated before the start (ms), at most the retention of the event log; 0 for no past at all. */
  readonly history: number;
  readonly dlqEntries: number;
  readonly workload?: boolean;
  readonly maxEvents: number;
  readonly destinations?: readonly Destination[] | undefined;
  readonly dialect: Dialect;
}

/** Retention of events (ms). There are about 20,000 events an hour. */
export const LOG_RETENTION_MS = MAX_CATCH_UP_MS;

/** Retention of dead letters (ms): three days, as in the free plan. */
export const DLQ_RETENTION_MS = 72 * 3_600_000;

/** Maximum number of dead letters, to limit memory. */
const MAX_DEAD_LETTERS = 200_000;

/** Retention of workflow runs (ms). */
const RUN_RETENTION_MS = 24 * 3_600_000;

const RUN_FAILS_EVERY_MS = 12 * 60_000;

export type World = ReturnType<typeof createWorld>;

/** Creates the lists and the workload. Time advances on demand. */
export function createWorld(options: WorldOptions) {
  const { clock, seed, scenario: name, history, dlqEntries, maxEvents, dialect } = options;
  const now = clock.now();
  const start = now - Math.min(Math.max(0, history), LOG_RETENTION_MS);
  const scenario = scenarioNamed(name);
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
  const runs = (time: number) => {
    if (isIdle) return [];
    const stuck = (createdAt: number) => scenario.stuckRuns?.(createdAt - start) ?? 0;
    return runsBetween(Math.max(runsSince, time - RUN_RETENTION_MS), time, seed, stuck);
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
