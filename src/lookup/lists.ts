import { bareAddress, parseUrl } from '../kit/text.ts';
import { flowStateOf } from '../model/flow-state.ts';
import {
  CALLBACK_STATES,
  type DeliveryEvent,
  type DlqEntry,
  type FlowControlEntry,
  type ListedRow,
} from '../model/message.ts';
import type { ServiceQueue, ServiceSchedule, WorkflowRun } from '../model/service.ts';
import {
  type DlqListQuery,
  type DlqQuery,
  type EventQuery,
  filterValueError,
  type ListPage,
  type Reader,
  type RunQuery,
} from '../upstream/api.ts';
import { NO_PROOF, type Proof, proveEntries, proveEvents, proveRuns } from './proof.ts';

export type ListName = 'dlq' | 'events' | 'keys' | 'schedules' | 'queues' | 'runs';

export interface Filter {
  /** The service's query parameter. Absent if the agent applies the filter. */
  readonly parameter?: Parameters<typeof filterValueError>[0] | 'state';
  readonly lists: readonly ListName[];
  readonly help: string;
  readonly helpOfRuns?: string;
}

const BOTH: readonly ListName[] = ['dlq', 'events'];
const TIMED: readonly ListName[] = ['dlq', 'events', 'runs'];

/** Filters of the lists, by the names that users enter. */
export const FILTERS = {
  message: { parameter: 'messageId', lists: BOTH, help: 'message id' },
  url: { parameter: 'url', lists: TIMED, help: 'URL of the destination', helpOfRuns: 'URL of the workflow' },
  topic: { parameter: 'topicName', lists: BOTH, help: 'URL group' },
  schedule: { parameter: 'scheduleId', lists: BOTH, help: 'schedule id' },
  queue: { parameter: 'queueName', lists: BOTH, help: 'queue' },
  api: { parameter: 'api', lists: ['dlq'], help: 'API that published the message' },
  status: { parameter: 'responseStatus', lists: ['dlq'], help: 'HTTP status of the last attempt; 0: no response' },
  callerIp: { parameter: 'callerIp', lists: ['dlq'], help: 'IP address of the publisher' },
  label: { parameter: 'label', lists: ['dlq'], help: 'label of the message' },
  kind: { lists: ['dlq'], help: 'kind of dead letters, as in the label group of delivery_dlq_group_messages' },
  host: { lists: ['dlq'], help: 'host of the destination, with the port if it is not the default port' },
  callbackState: { lists: ['dlq'], help: `state of the failure callback: ${CALLBACK_STATES.join(', ')}` },
  state: {
    parameter: 'state',
    lists: ['events', 'runs'],
    help: 'state of the message, such as FAILED or IN_PROGRESS',
    helpOfRuns: 'state of the run: STARTED, SUCCESS, FAILED or CANCELED',
  },
  since: { parameter: 'fromDate', lists: TIMED, help: 'earliest time, inclusive' },
  until: { parameter: 'toDate', lists: TIMED, help: 'latest time, inclusive' },
} as const satisfies Readonly<Record<string, Filter>>;

export type FilterName = keyof typeof FILTERS;

const EVENT_WORDS = 'CREATED ACTIVE RETRY ERROR IN_PROGRESS DELIVERED FAILED CANCEL_REQUESTED CANCELLED'.split(' ');
const RUN_WORDS = 'STARTED SUCCESS FAILED CANCELED'.split(' ');

/** Returns why a list does not support a filter or its value; undefined if it does. Times are in ms since the Unix epoch. */
export function filterError(list: ListName, name: FilterName, value: string | number): string | undefined {
  const { parameter, lists }: Filter = FILTERS[name];
  if (!lists.includes(list)) return `is a filter of ${lists.join(' and ')}`;
  if (parameter === 'url' && !/^https?:\/\//i.test(String(value)))
    return 'must be a complete URL such as https://app.example.com/api/onboarding';
  if (name === 'host' && !/^[^\s/?#@]+$/.test(String(value)))
    return 'must be a host such as app.example.com or app.example.com:8080';
  if (parameter !== undefined && parameter !== 'state') return filterValueError(parameter, value);
  if (name !== 'state' && name !== 'callbackState') return undefined;
  const states = name === 'callbackState' ? CALLBACK_STATES : list === 'runs' ? RUN_WORDS : EVENT_WORDS;
  const isState = states.some(state => state.toUpperCase() === String(value).toUpperCase());
  return isState ? undefined : `must be one of ${states.join(', ')}`;
}

/** Converts valid filters to the service's query parameters. */
export function queryOf(
  filters: Readonly<Partial<Record<FilterName, string | number | undefined>>>,
): DlqQuery & EventQuery {
  const parameters = (Object.keys(FILTERS) as FilterName[]).flatMap((name): [string, string | number][] => {
    const { parameter }: Filter = FILTERS[name];
    const value = filters[name];
    if (value === undefined || parameter === undefined) return [];
    return [[parameter, name === 'state' ? String(value).toUpperCase() : value]];
  });
  return Object.fromEntries(parameters);
}

/** One of the service's lists, narrowed by filters. */
export interface List<Row> {
  /** Requests the newest rows first. The service may ignore the order. */
  pages(reader: Reader, signal: AbortSignal): AsyncGenerator<ListPage<Row>>;
  createProof(): Proof<Row>;
  /** Whether a row meets conditions that the service cannot filter by. */
  isWanted(row: Row): boolean;
  /** Returns the sort key, highest first: a time (0: unknown), or the length of a waitlist. */
  rank(row: Row): number;
  id(row: Row): string | undefined;
  /** Returns the JSON form: no bodies and headers, and URLs without user and query. */
  json(row: Row): object;
}

export const toIsoTime = (time: number | undefined) => (time === undefined ? undefined : new Date(time).toISOString());
export const bareUrl = (url: string | undefined) => (url === undefined ? undefined : bareAddress(url));

const NEWEST_FIRST = { order: 'latestFirst' } as const;

export const entryJson = (row: DlqEntry) => ({
  dlqId: row.dlqId,
  messageId: row.messageId,
  enteredAt: toIsoTime(row.enteredAt),
  createdAt: toIsoTime(row.createdAt),
  url: bareUrl(row.url),
  method: row.method,
  responseStatus: row.responseStatus,
  state: row.state,
  topic: row.topic,
  queue: row.queue,
  schedule: row.schedule,
  api: row.api,
  callerIp: row.callerIp,
  labels: row.labels,
  flowControlKey: row.flowControlKey,
  workflowRunId: row.workflowRunId,
  workflowUrl: bareUrl(row.workflowUrl),
  failureCallbackUrl: bareUrl(row.failureCallbackUrl),
  callbackState: row.callbackState,
  maxRetries: row.maxRetries,
});

/** Values of the filters that the agent applies. */
type OwnFilters = Readonly<Partial<Record<'kind' | 'host' | 'callbackState', string | number | undefined>>>;

/** `kindOf`: returns the kind of a dead letter, which is a group of the DLQ collector. */
export const dlqList = (
  { source, ...match }: DlqListQuery,
  kindOf?: (entry: DlqEntry) => string,
  { kind, host, callbackState }: OwnFilters = {},
): List<DlqEntry> => ({
  pages: (reader, signal) => reader.dlqPages({ ...match, ...(source && { source }), ...NEWEST_FIRST }, signal),
  createProof: () => proveEntries(match),
  isWanted: row =>
    (kind === undefined || kindOf?.(row) === kind) &&
    (host === undefined || parseUrl(row.url ?? '')?.host === String(host).toLowerCase()) &&
    (callbackState === undefined || row.callbackState === String(callbackState).toLowerCase()),
  rank: ({ enteredAt, createdAt }) => enteredAt ?? createdAt ?? 0,
  id: ({ dlqId }) => dlqId,
  json: row => ({ ...entryJson(row), kind: kindOf?.(row) }),
});

export const eventList = (query: EventQuery): List<DeliveryEvent> => ({
  pages: (reader, signal) => reader.eventPages({ ...query, ...NEWEST_FIRST }, signal, 'error'),
  createProof: () => proveEvents(query),
  isWanted: () => true,
  rank: ({ time }) => time,
  id: ({ messageId }) => messageId,
  json: row => ({
    time: toIsoTime(row.time),
    messageId: row.messageId,
    state: row.state,
    responseStatus: row.status,
    error: row.error,
    url: bareUrl(row.url),
    topic: row.topic,
    queue: row.queue,
    schedule: row.schedule,
    label: row.labels?.[0],
    labels: row.labels ?? [],
    flowControlKey: row.flowControlKey,
    workflowUrl: bareUrl(row.workflowUrl),
    nextDeliveryAt: toIsoTime(row.dueAt),
  }),
});

export const runQueryOf = (filters: Parameters<typeof queryOf>[0]): RunQuery => {
  const { state, ...query } = queryOf(filters);
  return { ...query, ...(state !== undefined && { state: state.toLowerCase() as NonNullable<RunQuery['state']> }) };
};

/** Workflow runs. Their order is not documented. */
export const runList = (query: RunQuery): List<WorkflowRun> => ({
  pages: (reader, signal) => reader.runPages(query, signal),
  createProof: () => proveRuns(query),
  isWanted: () => true,
  rank: ({ createdAt = 0 }) => createdAt,
  id: ({ runId }) => runId,
  json: ({ failureFunction, ...row }) => ({
    runId: row.runId,
    state: row.state,
    createdAt: toIsoTime(row.createdAt),
    completedAt: toIsoTime(row.completedAt),
    url: bareUrl(row.url),
    dlqId: row.dlqId,
    flowControlKey: row.flowControlKey,
    labels: row.labels,
    callbackState: failureFunction?.state,
    nextDeliveryAt: toIsoTime(failureFunction?.nextDeliveryAt),
  }),
});

/** Creates a list that the service neither filters nor splits into pages. */
const unpagedList = <Row extends ListedRow>(
  read: (reader: Reader, signal: AbortSignal, take: (row: Row) => void) => Promise<number>,
  own: Pick<List<Row>, 'rank' | 'id' | 'json'>,
): List<Row> => ({
  async *pages(reader, signal) {
    const rows: Row[] = [];
    const rejected = await read(reader, signal, row => rows.push(row));
    const incomplete = rows.filter(({ isIncomplete }) => isIncomplete).length;
    yield { rows: rows.sort((a, b) => own.rank(b) - own.rank(a)), rejected, incomplete, isLast: true };
  },
  createProof: () => NO_PROOF,
  isWanted: () => true,
  ...own,
});

/** Flow-control keys, the longest waitlist first. A single read cannot distinguish the states `moving` and `waiting`. */
export const KEY_LIST = unpagedList<FlowControlEntry>((reader, ...of) => reader.flowControl(...of), {
  rank: ({ waitlistSize = 0 }) => waitlistSize,
  id: ({ key }) => key,
  json: ({ isIncomplete: _, ...row }) => ({ ...row, state: flowStateOf(row, undefined) }),
});

/** Queues, the longest first. */
export const QUEUE_LIST = unpagedList<ServiceQueue>((reader, ...of) => reader.queues(...of), {
  rank: ({ lag = 0 }) => lag,
  id: ({ name }) => name,
  json: ({ isIncomplete: _, createdAt, updatedAt, ...row }) => ({
    ...row,
    createdAt: toIsoTime(createdAt),
    updatedAt: toIsoTime(updatedAt),
  }),
});

/** Schedules in descending order of their last start. */
export const SCHEDULE_LIST = unpagedList<ServiceSchedule>((reader, ...of) => reader.schedules(...of), {
  rank: ({ lastRunAt = 0 }) => lastRunAt,
  id: ({ scheduleId }) => scheduleId,
  json: ({ isIncomplete: _, tz, destination, createdAt, lastRunAt, nextRunAt, lastRunStates, ...row }) => ({
    ...row,
    timeZone: tz,
    url: parseUrl(destination ?? '') ? bareUrl(destination) : undefined,
    topic: parseUrl(destination ?? '') ? undefined : bareUrl(destination),
    createdAt: toIsoTime(createdAt),
    lastRunAt: toIsoTime(lastRunAt),
    nextRunAt: toIsoTime(nextRunAt),
    lastRun: lastRunStates,
    state: row.paused === undefined ? undefined : row.paused ? 'paused' : 'active',
  }),
});
