import { recordOf } from '../kit/record.ts';
import { type DlqSeed, type EventSeed, eventFrom, type FailedRunSeed, failedRunFrom, messageFrom } from './added.ts';
import type { Dialect } from './dialect.ts';
import type { FlowControl, KeyDetail } from './flow-control.ts';
import {
  type DlqRow,
  dlqIdOf,
  dlqRow,
  type EventRow,
  eventRow,
  type FailedMessage,
  type FailureCallback,
  positionOf,
  WIRE_CALLBACK_STATES,
  type WireCallbackState,
} from './message.ts';
import { messageId } from './random.ts';
import type { Position, RowTimeline } from './timeline.ts';
import type { EmulatedSchedules } from './workload.ts';
import {
  type CountRange,
  createWorld,
  type EmulatedRun,
  type EventLog,
  type LogView,
  type StateCounts,
  type World,
  type WorldOptions,
} from './world.ts';

export type CancelResult = 'done' | 'refused' | 'unknown';

export interface CancelCall {
  /** In emulated ms since the Unix epoch. */
  readonly at: number;
  readonly dlqId: string;
  /** Undefined if the request failed before it took effect. */
  verdict?: CancelResult;
}

/** Details of a key that only `setWaitlist` has added. */
const SET_KEY = { running: 0, paused: false, started: 0, periodStart: 0 };

/** Daily requests of the account's plan. The workload has about 150,000. */
export const MAX_REQUESTS_PER_DAY = 500_000;

type Place = readonly [entry: FailedMessage, position: Position];

/** State of one account, which advances on demand. Counts for tests do not use the routes' code. */
export class EmulatorState {
  readonly dialect: Dialect;
  /** Events that the API lists. `eventRows` and `countEvents` cover the complete log. */
  readonly logView: LogView;
  readonly cancelCalls: CancelCall[] = [];
  readonly #calls = new Map<string, number>();
  readonly #world: World;
  readonly #setWaitlists = new Map<string, number>();
  readonly #seed: number;
  #added = 0;

  constructor(options: WorldOptions) {
    this.#world = createWorld(options);
    this.#seed = options.seed;
    this.dialect = this.#world.dialect;
    this.logView = this.#world.logView;
  }

  advanceTo(now: number): void {
    this.#world.advanceTo(now);
  }

  /** Advances to the current time and returns the rows. `workflows`: dead letters of workflow runs. */
  current(): { now: number; dlq: RowTimeline<FailedMessage>; workflows: RowTimeline<FailedMessage>; log: EventLog } {
    const now = this.#world.clock.now();
    this.advanceTo(now);
    const { dlq, log, workflows } = this.#world;
    return { now, dlq, workflows: workflows.entries, log };
  }

  /** Returns flow-control keys by name, including those set by tests. */
  keys(): Map<string, KeyDetail> {
    const keys = this.flow.keys();
    for (const [key, waiting] of this.#setWaitlists) {
      keys.set(key, { ...SET_KEY, ...keys.get(key), waiting });
    }
    return keys;
  }

  waitlists(): Map<string, number> {
    return new Map([...this.keys()].map(([key, { waiting }]) => [key, waiting]));
  }

  countCall(endpoint: string): void {
    this.#calls.set(endpoint, (this.#calls.get(endpoint) ?? 0) + 1);
  }

  recordCancel(at: number, dlqId: string): CancelCall {
    const call: CancelCall = { at, dlqId };
    this.cancelCalls.push(call);
    return call;
  }

  /** Returns the number of requests by endpoint: for example `GET /v2/dlq`, or `other`. */
  calls(): Readonly<Record<string, number>> {
    return Object.fromEntries(this.#calls);
  }

  /** Returns the number of authenticated cancel requests by dlqId. */
  cancels(): Readonly<Record<string, number>> {
    const authenticated = this.cancelCalls.filter(({ verdict }) => verdict !== undefined);
    const byId = Map.groupBy(authenticated, ({ dlqId }) => dlqId);
    return Object.fromEntries([...byId].map(([dlqId, calls]) => [dlqId, calls.length]));
  }

  countDlq(match?: (row: DlqRow) => boolean): number {
    let matching = 0;
    this.#eachDeadLetter((entry, position) => {
      if (!match || match(dlqRow(entry, position))) matching++;
    });
    return matching;
  }

  countCallbacks(): Record<WireCallbackState, number> {
    const counts = recordOf(WIRE_CALLBACK_STATES, () => 0);
    this.current().workflows.forEach(entry => {
      const state = entry.run?.callback?.state;
      if (state) counts[state]++;
    });
    return counts;
  }

  countEvents(range?: CountRange): StateCounts {
    return this.current().log.count(range);
  }

  dlqRows(): DlqRow[] {
    const places: Place[] = [];
    this.#eachDeadLetter((...place) => {
      places.push(place);
    });
    if (this.#world.workflows.entries.size > 0) places.sort(([, a], [, b]) => a.time - b.time || a.seq - b.seq);
    return places.map(([entry, position]) => dlqRow(entry, position));
  }

  eventRows(): EventRow[] {
    const rows: EventRow[] = [];
    this.current().log.forEach((event, time) => {
      rows.push(eventRow(event, time));
    });
    return rows;
  }

  /** Adds a dead letter and returns its dlqId. Operators never remove it. */
  addDlqEntry({
    enteredAt = this.#world.clock.now(),
    responseStatus = 500,
    responseBody,
    ...row
  }: DlqSeed = {}): string {
    const message = messageFrom(row, this.#nextId(), enteredAt);
    return dlqIdOf(this.current().dlq.add(enteredAt, { message, responseStatus, responseBody }));
  }

  /**
   * Adds a dead letter of a workflow run and returns its dlqId. Its callback changes only through requests and `setCallback`.
   */
  addFailedRun(seed: FailedRunSeed = {}): string {
    this.current();
    const { workflows, clock } = this.#world;
    const enteredAt = seed.enteredAt ?? clock.now();
    const ids = { messageId: this.#nextId(), callbackId: workflows.nextMessageId() };
    return dlqIdOf(workflows.entries.add(enteredAt, failedRunFrom(seed, ids, enteredAt)));
  }

  /** Changes a failure callback's state. Throws a RangeError if there is no callback or the transition is not allowed. */
  setCallback(dlqId: string, state: WireCallbackState): void {
    const callback = this.#callbackOf(dlqId);
    if (!callback) throw new RangeError(`there is no failure callback of ${dlqId}`);
    callback.become(state);
  }

  addEvent(row: EventSeed = {}): void {
    const { now, log } = this.current();
    log.add(...eventFrom(row, this.#nextId(), now));
  }

  /** Adds events, which need not be in time order. Adding a million takes seconds. */
  addEvents(rows: Iterable<EventSeed>): void {
    const { now, log } = this.current();
    const shared = new Map();
    log.addAll(Array.from(rows, row => eventFrom(row, this.#nextId(), now, shared)));
  }

  /** Overrides the waitlist size of a key, or adds the key; undefined removes the override. */
  setWaitlist(key: string, size: number | undefined): void {
    if (size === undefined) this.#setWaitlists.delete(key);
    else this.#setWaitlists.set(key, size);
  }

  get flow(): FlowControl {
    this.current();
    return this.#world.workload.flow;
  }

  get queues(): FlowControl {
    this.current();
    return this.#world.workload.queues;
  }

  get schedules(): EmulatedSchedules {
    this.current();
    return this.#world.workload.schedules;
  }

  /** Start of the workload (ms since the Unix epoch). */
  get startedAt(): number {
    return this.#world.start;
  }

  runs(): EmulatedRun[] {
    return this.#world.runs(this.current().now);
  }

  /** Returns the number of requests on the current UTC day. Each message of the workload counts as one request. */
  requestsToday(): number {
    this.current();
    const { workload, usedByOthers } = this.#world;
    return workload.messagesToday() + Math.round(usedByOthers * MAX_REQUESTS_PER_DAY);
  }

  findDlqEntry(dlqId: string): Place | undefined {
    const position = positionOf(dlqId);
    const { dlq, workflows } = this.current();
    const entry = position && (dlq.get(position) ?? workflows.get(position));
    return entry && [entry, position];
  }

  removeDlqEntry(dlqId: string): boolean {
    const position = positionOf(dlqId);
    const { dlq, workflows } = this.current();
    return position !== undefined && (dlq.remove(position) || workflows.remove(position));
  }

  /** Removes a dead letter, publishes its message again and returns the new id. */
  republish([entry, position]: Place): string {
    this.removeDlqEntry(dlqIdOf(position));
    return this.#world.workload.publish(entry.message.fields);
  }

  /** Returns `refused` if the callback is not in progress, `unknown` if the dead letter does not exist. */
  cancelCallback(dlqId: string): CancelResult {
    if (!this.findDlqEntry(dlqId)) return 'unknown';
    return this.#world.workflows.cancel(this.#callbackOf(dlqId)) ? 'done' : 'refused';
  }

  /** Returns `refused` if the callback has not failed, `unknown` if the dead letter does not exist. */
  retryCallback(dlqId: string): CancelResult {
    if (!this.findDlqEntry(dlqId)) return 'unknown';
    return this.#world.workflows.retry(this.#callbackOf(dlqId)) ? 'done' : 'refused';
  }

  #callbackOf(dlqId: string): FailureCallback | undefined {
    const [entry] = this.findDlqEntry(dlqId) ?? [];
    return entry?.run?.callback;
  }

  #eachDeadLetter(visit: (...place: Place) => void): void {
    const { dlq, workflows } = this.current();
    for (const timeline of [dlq, workflows])
      timeline.forEach((entry, time, seq) => {
        visit(entry, { time, seq });
      });
  }

  #nextId(): string {
    return messageId(this.#seed, 't', this.#added++);
  }
}
