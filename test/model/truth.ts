/**
 * The true history of the simulated service: its lists and their entries at any time. Times are in milliseconds since the
 * world's start.
 */
import { CANARY, MAX_HEALTHY, MINUTE, START } from './settings.ts';

/** One run of a failure callback. Each run is a separate message. */
export interface Run {
  readonly messageId: string;
  readonly from: number;
  /** When the run ends on its own; undefined if it hangs. */
  readonly to: number | undefined;
  readonly end: 'SUCCESS' | 'FAIL';
  /** Due time of the next delivery; undefined without one. */
  readonly nextAt: number | undefined;
  cancelledAt: number | undefined;
}

export interface Entry {
  readonly dlqId: string;
  readonly messageId: string;
  readonly createdAt: number;
  readonly enteredAt: number;
  leftAt: number | undefined;
  readonly host: string;
  readonly label: string | undefined;
  readonly status: number;
  readonly maxRetries: number;
  /** Runs of the failure callback, in order. Empty without a failure callback. */
  readonly runs: Run[];
}

export interface LoggedEvent {
  readonly messageId: string;
  readonly state: string;
  readonly time: number;
  readonly listedAt: number;
  /** Run to which the event belongs. If the run ends before the event's time, the event does not happen. */
  readonly of?: Run;
}

/** Sizes of a waitlist over time. Each applies from `from`; -1 means that the key is not listed. */
export type Sizes = { readonly from: number; readonly size: number }[];

export interface Truth {
  readonly entries: Entry[];
  readonly events: LoggedEvent[];
  readonly keys: Map<string, Sizes>;
}

export const createTruth = (): Truth => ({ entries: [], events: [], keys: new Map() });

export const endOf = ({ to, cancelledAt }: Run) =>
  Math.min(to ?? Number.POSITIVE_INFINITY, cancelledAt ?? Number.POSITIVE_INFINITY);

export const runAt = ({ runs }: Entry, at: number) => runs.findLast(({ from }) => from <= at);

/** Returns the state of the failure callback as the service names it; undefined without a failure callback. */
export function stateAt(entry: Entry, at: number): string | undefined {
  const run = runAt(entry, at);
  if (!run) return undefined;
  if (at < endOf(run)) return 'INPROGRESS';
  return run.cancelledAt !== undefined && run.cancelledAt <= (run.to ?? Number.POSITIVE_INFINITY)
    ? 'CANCELED'
    : run.end;
}

export const runIdOf = ({ messageId }: Entry) => `wfr_${messageId}`;

export const isListed = ({ enteredAt, leftAt }: Entry, at: number) =>
  enteredAt <= at && (leftAt === undefined || at < leftAt);

export interface Arrival {
  readonly kind: 'plain' | 'healthy' | 'hangs' | 'restless';
  readonly label: string | undefined;
  readonly host: number;
  readonly status: number;
  readonly maxRetries: number;
  readonly length: number;
}

const HORIZON = 150 * MINUTE;

function log(truth: Truth, messageId: string, state: string, time: number, late = 0, of?: Run): void {
  truth.events.push({ messageId, state, time, listedAt: time + late, ...(of && { of }) });
}

/** Starts a run of a callback. `restless`: it never ends, but the log keeps adding events about it. */
export function beginRun(truth: Truth, entry: Entry, kind: Arrival['kind'], length: number, now: number): void {
  const run: Run = {
    messageId: `cb_${entry.messageId}_${entry.runs.length}`,
    from: now,
    to: kind === 'healthy' ? now + Math.max(1, Math.floor(length * MAX_HEALTHY)) : undefined,
    end: length > 0.5 ? 'SUCCESS' : 'FAIL',
    nextAt: kind !== 'healthy' && length > 0.6 ? now + Math.floor(length * 40 * MINUTE) : undefined,
    cancelledAt: undefined,
  };
  entry.runs.push(run);
  log(truth, run.messageId, 'CREATED', now, 0, run);
  log(truth, run.messageId, 'ACTIVE', now + 1, 0, run);
  if (kind !== 'restless') return;
  // Add events to the failed message, too. If the service does not report the callback's message ID, the agent finds only
  // these events.
  for (let at = now + 170_000; at < now + HORIZON; at += 170_000) {
    log(truth, run.messageId, 'RETRY', at, 0, run);
    log(truth, entry.messageId, 'ERROR', at, 0, run);
  }
}

export function arrive(truth: Truth, arrival: Arrival, now: number): Entry {
  const number = truth.entries.length;
  const entry: Entry = {
    dlqId: `${START + now}-${number}`,
    messageId: `msg_${number}`,
    createdAt: now - 60_000 - number,
    enteredAt: now,
    leftAt: undefined,
    host: `h${arrival.host}.example.com`,
    label: arrival.label,
    status: arrival.status,
    maxRetries: arrival.maxRetries,
    runs: [],
  };
  truth.entries.push(entry);
  log(truth, entry.messageId, 'FAILED', now);
  if (arrival.kind !== 'plain') beginRun(truth, entry, arrival.kind, arrival.length, now);
  return entry;
}

export function happened({ of, time }: LoggedEvent): boolean {
  return of === undefined || time < endOf(of);
}

/** Adds the events of an ordinary message. `late`: delay until the log lists them (ms). */
export function traffic(truth: Truth, late: number, now: number): void {
  const number = truth.events.length;
  const messageId = `t_${number}`;
  log(truth, messageId, 'CREATED', now, late);
  log(truth, messageId, 'ACTIVE', now + 50, late);
  log(truth, messageId, number % 3 === 0 ? 'FAILED' : 'DELIVERED', now + 400, late);
}

export function setSize(truth: Truth, key: string, size: number, now: number): void {
  const sizes = truth.keys.get(key) ?? [];
  truth.keys.set(key, sizes);
  sizes.push({ from: now, size });
}

export const sizeAt = (sizes: Sizes, at: number) => sizes.findLast(({ from }) => from <= at)?.size ?? -1;

export interface Shape {
  readonly field: 'failureCallbackInfo' | 'failureFunctionState';
  readonly reportsMessage: boolean;
  /**
   * How the service handles `source=workflow`. `apart`: it lists states only with this parameter. `unknown`: it rejects the
   * parameter.
   */
  readonly source: 'ignored' | 'apart' | 'unknown';
  /** Whether the service lists no states at all. */
  readonly hidesStates: boolean;
  /** Whether the service has a list of workflow runs. */
  readonly hasRuns: boolean;
  readonly page: number;
}

/** Returns the row of an entry as listed at `at`. `hasState`: whether the list contains callback states. */
export function rowOf(
  entry: Entry,
  at: number,
  { field, reportsMessage, hidesStates }: Shape,
  hasState: boolean,
): object {
  const { dlqId, messageId, createdAt, host, label, status, maxRetries } = entry;
  const run = runAt(entry, at);
  const state = `CALLBACK_${stateAt(entry, at)}`;
  const callback =
    field === 'failureFunctionState'
      ? { failureFunctionState: state }
      : { failureCallbackInfo: { state, ...(reportsMessage && { messageId: run?.messageId }) } };
  return {
    dlqId,
    messageId,
    url: `https://${CANARY}-user@${host}/path?token=${CANARY}-query`,
    method: 'POST',
    header: { 'x-secret': [`${CANARY}-header`] },
    body: `${CANARY}-body`,
    createdAt: START + createdAt,
    responseStatus: status,
    maxRetries,
    ...(label && { label }),
    ...(run && {
      workflowRunId: runIdOf(entry),
      workflowUrl: `https://${host}/jobs/${label}`,
      workflowCreatedAt: START + createdAt,
    }),
    ...(run && hasState && !hidesStates && callback),
  };
}

/** Returns the row of an entry's workflow run. `offset`: the service's clock relative to the world's time (ms). */
export function runRowOf(entry: Entry, at: number, { hidesStates }: Shape, offset: number): object {
  const { messageId, nextAt } = runAt(entry, at) ?? {};
  const nextDeliveryTime = nextAt === undefined ? undefined : START + nextAt + offset;
  return {
    workflowRunId: runIdOf(entry),
    workflowState: 'RUN_FAILED',
    workflowRunCreatedAt: START + entry.createdAt,
    dlqId: entry.dlqId,
    steps: [{ steps: [{ out: `${CANARY}-out` }] }],
    ...(!hidesStates && {
      failureFunction: { messageId, state: `CALLBACK_${stateAt(entry, at)}`, nextDeliveryTime, failResponse: CANARY },
    }),
  };
}
