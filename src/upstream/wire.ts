import { z } from 'zod';
import { boundText } from '../kit/bounded-text.ts';
import {
  type CallbackState,
  type DeliveryEvent,
  type DlqEntry,
  EVENT_STATES,
  type EventState,
  type FlowControlEntry,
} from '../model/message.ts';
import { Rows, type RowsOf } from './json-reader.ts';

/**
 * The only file that knows the service's field names. Liberal in spelling and type, because documented and real answers
 * differ; a row it can't use is undefined, which the caller counts.
 */

const Text = z.union([z.string(), z.number()]);
const Maybe = <T extends z.ZodType>(type: T) => type.nullish();

/** A field that may be absent, null or of a type that nobody expects; it then counts as absent, and the row stays. */
const Loose = <T extends z.ZodType>(type: T) => Maybe(type).catch(undefined);

const DlqRow = z.object({ dlqId: Maybe(Text), messageId: Maybe(Text) });
const EventRow = z.object({ messageId: Text, state: z.string(), time: Text });
const FlowControlRow = z.object({
  flowControlKey: z.string(),
  waitListSize: Maybe(Text),
  waitlistSize: Maybe(Text),
  parallelismMax: Loose(z.number()),
  parallelismCount: Loose(z.number()),
  rateMax: Loose(z.number()),
  rateCount: Loose(z.number()),
  ratePeriod: Loose(z.number()),
  isPaused: Loose(z.boolean()),
});

/** Longer keys are shortened, so that one hostile row can't make every scrape huge. */
const LONGEST_KEY = 512;

/** What the service writes for "no limit". */
const UNLIMITED = 2 ** 31 - 1;

const PageEnvelope = z.object({ cursor: z.union([z.string(), z.number()]).nullish(), error: z.unknown().optional() });

/** The latest time that a Date can hold, so that nothing later in the way fails at one. */
const LATEST = 8.64e15;

/** Whole milliseconds since the Unix epoch from a number, decimal text or ISO 8601 text; undefined for anything else. */
function toMillis(value: unknown): number | undefined {
  if ((typeof value !== 'string' && typeof value !== 'number') || value === '') return undefined;
  const number = Number(value);
  const ms = Number.isFinite(number) ? number : Date.parse(String(value));
  return ms >= 0 && ms <= LATEST ? Math.floor(ms) : undefined;
}

/** The fields of a row that its schema has let pass. Those that a row can do without are read as they come. */
type Fields = Readonly<Record<string, unknown>>;

/** Text that says something: the service writes "" for what is not set. */
const text = (value: unknown) => (typeof value === 'string' && value !== '' ? value : undefined);

function number(value: unknown): number | undefined {
  const number = typeof value === 'number' ? value : Number(text(value) ?? Number.NaN);
  return Number.isFinite(number) ? number : undefined;
}

function labelsOf({ label, labels }: Fields): readonly string[] {
  const all = Array.isArray(labels) ? labels.filter(each => text(each) !== undefined) : [];
  const first = text(label);
  return all.length > 0 || first === undefined ? all : [first];
}

/** Milliseconds in an id that looks like `<Unix milliseconds>-<number>`: when the entry came into the queue. */
function enteredAt(dlqId: string): number | undefined {
  return toMillis(/^(\d{12,14})-\d+$/.exec(dlqId)?.[1]);
}

const CALLBACK_STATES: Readonly<Record<string, CallbackState>> = {
  callback_inprogress: 'in_progress',
  callback_in_progress: 'in_progress',
  callback_success: 'success',
  callback_fail: 'fail',
  callback_failed: 'fail',
  callback_canceled: 'canceled',
  callback_cancelled: 'canceled',
};

/** What an entry says of its failure callback, as the message that it is. */
const callbackInfo = ({ failureCallbackInfo: info }: Fields) => (info ?? {}) as Fields;

/** Under either of its names; an entry that has both and contradicts itself tells nothing. */
function callbackState(row: Fields): CallbackState | undefined {
  const states = [text(callbackInfo(row).state), text(row.failureFunctionState)]
    .filter(state => state !== undefined)
    .map(state => CALLBACK_STATES[state.toLowerCase()] ?? 'unknown');
  return new Set(states).size > 1 ? 'unknown' : states[0];
}

export function toDlqEntry(row: unknown): DlqEntry | undefined {
  const parsed = DlqRow.safeParse(row);
  if (!parsed.success) return undefined;
  const { dlqId, messageId } = parsed.data;
  const id = dlqId ?? messageId;
  if (id === null || id === undefined) return undefined;
  const fields = row as Fields;
  return {
    id: String(id),
    dlqId: dlqId == null ? undefined : String(dlqId),
    messageId: messageId == null ? undefined : String(messageId),
    createdAt: toMillis(fields.createdAt),
    enteredAt: dlqId == null ? undefined : enteredAt(String(dlqId)),
    url: text(fields.url),
    method: text(fields.method),
    state: text(fields.state),
    topic: text(fields.topicName) ?? text(fields.topicId),
    queue: text(fields.queueName),
    schedule: text(fields.scheduleId),
    flowControlKey: text(fields.flowControlKey),
    api: text(fields.api),
    labels: labelsOf(fields),
    responseStatus: number(fields.responseStatus),
    workflowRunId: text(fields.workflowRunId),
    workflowUrl: text(fields.workflowUrl),
    callbackState: callbackState(fields),
    callbackMessageId: text(callbackInfo(fields).messageId),
    maxRetries: number(fields.maxRetries),
  };
}

const KNOWN_STATES: ReadonlySet<string> = new Set(EVENT_STATES);

function toEventState(state: string): EventState {
  const lower = state.toLowerCase();
  if (lower === 'canceled') return 'cancelled';
  return KNOWN_STATES.has(lower) ? (lower as EventState) : 'unknown';
}

export function toDeliveryEvent(row: unknown): DeliveryEvent | undefined {
  const parsed = EventRow.safeParse(row);
  const time = parsed.success ? toMillis(parsed.data.time) : undefined;
  if (!parsed.success || time === undefined) return undefined;
  const { messageId, state } = parsed.data;
  const fields = row as Fields;
  return {
    messageId: String(messageId),
    state: toEventState(state),
    time,
    dueAt: toMillis(fields.nextDeliveryTime) ?? toMillis(fields.notBefore),
    url: text(fields.url),
    topic: text(fields.topicName),
    queue: text(fields.queueName),
    label: labelsOf(fields)[0],
  };
}

/** Version 00 of W3C trace context; ids of zeros alone are none. */
const TRACEPARENT = /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/;
/** Under which the publisher's own comes through, whatever its letters' case. */
const TRACE_HEADER = /^(?:upstash-forward-)?traceparent$/i;
/** Headers of a message that are looked through. */
const MOST_HEADERS = 200;

function traceparentIn(header: unknown): string | undefined {
  if (typeof header !== 'object' || header === null) return undefined;
  for (const [name, value] of Object.entries(header).slice(0, MOST_HEADERS)) {
    if (!TRACE_HEADER.test(name)) continue;
    const first = text(Array.isArray(value) ? value[0] : value);
    if (first !== undefined && TRACEPARENT.test(first)) return first;
  }
  return undefined;
}

/** An event with what traces need. */
export function toDetailedEvent(row: unknown): DeliveryEvent | undefined {
  const event = toDeliveryEvent(row);
  if (!event) return undefined;
  const { responseStatus, method, scheduleId, flowControlKey, header } = row as Fields;
  const detail = {
    status: number(responseStatus),
    method: text(method),
    schedule: text(scheduleId),
    hasFlowControlKey: text(flowControlKey) !== undefined,
    traceparent: traceparentIn(header),
  };
  return { ...event, detail };
}

export function toFlowControlEntry(row: unknown): FlowControlEntry | undefined {
  const parsed = FlowControlRow.safeParse(row);
  if (!parsed.success) return undefined;
  const { flowControlKey, waitListSize, waitlistSize, isPaused, ...numbers } = parsed.data;
  // A size of zero may be left out.
  const size = Number(waitListSize ?? waitlistSize ?? 0);
  if (!Number.isFinite(size) || size < 0) return undefined;
  const entry = { key: boundText(flowControlKey, LONGEST_KEY), waitlistSize: size };
  // A service that reports any of these leaves out what is zero or false; a limit that it leaves out is none.
  if (isPaused == null && Object.values(numbers).every(number => number == null)) return entry;
  const { parallelismMax, parallelismCount, rateMax, rateCount, ratePeriod } = numbers;
  const limit = (max: number | null | undefined) => (max == null || max <= 0 || max >= UNLIMITED ? undefined : max);
  const hasRate = limit(rateMax) !== undefined;
  return {
    ...entry,
    parallelismLimit: limit(parallelismMax),
    parallelismInUse: parallelismCount ?? 0,
    rateLimit: limit(rateMax),
    rateUsed: hasRate ? (rateCount ?? 0) : undefined,
    ratePeriodSeconds: hasRate ? (ratePeriod ?? undefined) : undefined,
    paused: isPaused ?? false,
  };
}

/** The rows of a list answer, as they came, and where it goes on. */
export interface RawPage {
  readonly rows: readonly unknown[];
  readonly cursor: string | undefined;
  /** The answer has no list, or null for one, and is taken for an empty page. */
  readonly missing: boolean;
}

/** The list as it stands in an answer, by whichever of its names. */
function listIn(body: Record<string, unknown>, list: string): unknown {
  if (list !== 'events' || body.events !== undefined) return body[list];
  // The event log is being renamed, and may come grouped by message.
  if (body.logs !== undefined || !Array.isArray(body.messages)) return body.logs;
  return body.messages instanceof Rows ? body.messages : body.messages.flatMap(eventsOfGroup);
}

const EventGroup = z.object({ messageId: Maybe(Text), events: Maybe(z.array(z.unknown())) });

function eventsOfGroup(group: unknown): readonly unknown[] {
  const parsed = EventGroup.safeParse(group);
  // A group that is none stands for one row that is none.
  if (!parsed.success) return [group];
  const { messageId, events } = parsed.data;
  const isRow = (event: unknown) => typeof event === 'object' && event !== null;
  return (events ?? []).map(event => (isRow(event) ? { messageId, ...(event as object) } : event));
}

/** How a long answer's rows are made while it is read. */
export function rowsOf(list: string, toRow: (row: unknown) => unknown): RowsOf {
  const names = [list, ...(list === 'events' ? ['logs'] : []), ...(list === 'flowControls' ? [undefined] : [])];
  return name => {
    if (names.includes(name)) return (row, put) => put(toRow(row));
    // That an error is not empty is all that is asked of it.
    if (name === 'error') return (_element, put) => put(true);
    if (list !== 'events' || name !== 'messages') return undefined;
    return (group, put) => {
      for (const row of eventsOfGroup(group)) put(toRow(row));
    };
  };
}

/** Undefined when the answer can't be that list: no object, an error, or a list that is none. */
export function toPage(body: unknown, list: string): RawPage | undefined {
  const envelope = PageEnvelope.safeParse(body);
  if (!envelope.success) return undefined;
  const rows = listIn(body as Record<string, unknown>, list) ?? null;
  const missing = rows === null;
  if (missing ? envelope.data.error !== undefined : !Array.isArray(rows)) return undefined;
  const cursor = envelope.data.cursor ?? '';
  return { rows: (rows ?? []) as unknown[], cursor: cursor === '' ? undefined : String(cursor), missing };
}

/** The flow-control list, which comes bare or wrapped. */
export function toFlowControlPage(body: unknown): RawPage | undefined {
  return Array.isArray(body) ? { rows: body, cursor: undefined, missing: false } : toPage(body, 'flowControls');
}

/** A single flow-control key as a row of the list; undefined when the answer is of another key. */
export function withKey(body: unknown, key: string): unknown {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) return undefined;
  const { flowControlKey = key } = body as { flowControlKey?: unknown };
  return flowControlKey === key ? { ...body, flowControlKey } : undefined;
}
