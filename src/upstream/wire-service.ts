import type {
  FailureFunction,
  GlobalParallelism,
  RunState,
  ScheduleRunState,
  ServiceQueue,
  ServiceSchedule,
  WorkflowRun,
} from '../model/service.ts';
import { UpstreamError } from './errors.ts';
import { MAX_DELAY, RowValues } from './row-values.ts';
import { isSaneId } from './send.ts';
import * as wire from './wire.ts';

/** Only this file contains the field names of schedules, queues, global parallelism and workflow runs. See wire.ts. */

/** Five cron fields, optionally preceded by a time zone. */
const CRON = /^\s*(?:CRON_TZ=(\S+)\s+)?(\S.*?)\s*$/;

function countStates(states: unknown, values: RowValues): ServiceSchedule['lastRunStates'] {
  if (states == null) return undefined;
  if (!wire.isObject(states)) return values.unreadable();
  const counts: Record<ScheduleRunState, number> = { in_progress: 0, success: 0, fail: 0, unknown: 0 };
  for (const state of Object.values(states)) {
    const word = wire.text(state)?.toLowerCase() ?? '';
    counts[Object.hasOwn(counts, word) ? (word as ScheduleRunState) : 'unknown'] += 1;
  }
  return counts;
}

/** `redact` bounds the service's error text and removes secrets. */
export function toServiceSchedule(
  row: unknown,
  now: number,
  redact: (text: string) => string,
): ServiceSchedule | undefined {
  const scheduleId = wire.isObject(row) ? wire.boundedName(wire.idOf(row.scheduleId)) : undefined;
  if (scheduleId === undefined || !wire.isObject(row)) return undefined;
  const values = new RowValues(now);
  const [, tz, cron] = CRON.exec(wire.boundedName(row.cron) ?? '') ?? [];
  return {
    scheduleId,
    cron,
    tz,
    destination: wire.text(row.destination),
    createdAt: values.time(row.createdAt),
    paused: values.flag(row.isPaused),
    lastRunAt: values.time(row.lastScheduleTime),
    nextRunAt: values.time(row.nextScheduleTime, MAX_DELAY),
    lastRunStates: countStates(row.lastScheduleStates, values),
    queue: wire.text(row.queueName),
    flowControlKey: wire.boundedName(row.flowControlKey),
    labels: wire.labelsIn(row),
    error: wire.redactedText(row.error, redact),
    isIncomplete: values.isIncomplete,
  };
}

export function toServiceQueue(row: unknown, now: number): ServiceQueue | undefined {
  const queue = wire.isObject(row) ? wire.boundedName(row.name) : undefined;
  if (queue === undefined || !wire.isObject(row)) return undefined;
  const values = new RowValues(now);
  return {
    name: queue,
    createdAt: values.time(row.createdAt),
    updatedAt: values.time(row.updatedAt),
    parallelismLimit: wire.limit(values.count(row.parallelism)),
    lag: values.count(row.lag),
    paused: values.flag(row.paused),
    isIncomplete: values.isIncomplete,
  };
}

/** Returns undefined if a number is unreadable, or if both are missing. The service omits a number that is zero. */
export function toGlobalParallelism(body: unknown, now: number): GlobalParallelism | undefined {
  if (!wire.isObject(body) || wire.isError(body.error)) return undefined;
  const values = new RowValues(now);
  const [max, inUse] = [values.count(body.parallelismMax), values.count(body.parallelismCount)];
  if (values.isIncomplete || (max === undefined && inUse === undefined)) return undefined;
  return { limit: wire.limit(max), inUse: inUse ?? (body.parallelismCount === undefined ? 0 : undefined) };
}

const STATES: ReadonlyMap<string, RunState> = new Map([
  ['started', 'started'],
  ['success', 'success'],
  ['failed', 'failed'],
  ['canceled', 'canceled'],
  ['cancelled', 'canceled'],
]);

function toFailureFunction(value: unknown, values: RowValues): FailureFunction | undefined {
  if (value == null) return undefined;
  if (!wire.isObject(value)) return values.unreadable();
  const state = wire.text(value.state)?.toLowerCase();
  return {
    state: state === undefined ? undefined : (wire.CALLBACK_STATE_WORDS.get(state) ?? 'unknown'),
    nextDeliveryAt: values.time(value.nextDeliveryTime, MAX_DELAY),
  };
}

export function toWorkflowRun(row: unknown, now: number): WorkflowRun | undefined {
  if (!wire.isObject(row)) return undefined;
  const runId = wire.idOf(row.workflowRunId);
  const state = wire.text(row.workflowState)?.toLowerCase().replace(/^run_/, '');
  if (runId === undefined || state === undefined) return undefined;
  const values = new RowValues(now);
  return {
    runId,
    url: wire.text(row.workflowUrl),
    state: STATES.get(state) ?? 'unknown',
    createdAt: values.time(row.workflowRunCreatedAt),
    completedAt: values.time(row.workflowRunCompletedAt),
    dlqId: wire.idOf(row.dlqId),
    labels: wire.labelsIn(row),
    flowControlKey: wire.text(row.flowControlKey),
    failureFunction: toFailureFunction(row.failureFunction, values),
    isIncomplete: values.isIncomplete,
  };
}

export interface RunQuery {
  readonly state?: Exclude<RunState, 'unknown'>;
  /** `fromDate` and `toDate` are inclusive (ms since the Unix epoch). The API does not define which time of a run they filter. */
  readonly fromDate?: number;
  readonly toDate?: number;
  readonly url?: string;
  /** Selects these runs. The creation time (ms) lets the service find a run without a search. */
  readonly runs?: readonly { readonly runId: string; readonly createdAt: number }[];
}

/** Converts the query to the service's parameters. Bodies of steps are not requested. */
export function runParameters({
  state,
  fromDate,
  toDate,
  url,
  runs = [],
}: RunQuery): Readonly<Record<string, string | number>> {
  const invalid = runs.find(({ runId }) => !isSaneId(runId));
  if (invalid) throw new UpstreamError('refused', 'the id of a run must be 1 to 200 of A-Z a-z 0-9 _ -');
  return {
    trimBody: -1,
    ...(state && { state: `RUN_${state.toUpperCase()}` }),
    ...(fromDate !== undefined && { fromDate }),
    ...(toDate !== undefined && { toDate }),
    ...(url !== undefined && { workflowUrl: url }),
    ...(runs.length > 0 && { workflowRuns: runs.map(({ runId, createdAt }) => `${runId}@${createdAt}`).join(',') }),
  };
}
