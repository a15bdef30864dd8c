import { z } from 'zod';
import { boundText } from '../kit/text.ts';
import {
  type CallbackState,
  type DeliveryEvent,
  type DlqEntry,
  EVENT_STATES,
  type EventState,
  type FlowControlEntry,
  PINNABLE,
} from '../model/message.ts';
import { classOfError } from './error-class.ts';

/** Version 00 of W3C trace context; all-zero ids are invalid. */
const TRACEPARENT = /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/;
/** Matches the header's name in any case, with or without the prefix of forwarded publisher headers. */
const TRACE_HEADER = /^(?:upstash-forward-)?traceparent$/i;
/** Maximum number of headers that are searched. */
const MAX_HEADERS = 200;

/** Returns the publisher's trace context from the headers of a message. */
function traceparentIn(header: unknown): string | undefined {
  if (typeof header !== 'object' || header === null) return undefined;
  for (const [name, value] of Object.entries(header).slice(0, MAX_HEADERS)) {
    if (!TRACE_HEADER.test(name)) continue;
    const first: unknown = Array.isArray(value) ? value[0] : value;
    if (typeof first === 'string' && TRACEPARENT.test(first)) return first;
  }
  return undefined;
}

/**
 * Only this file contains the field names of lists. It tolerates different spellings and types, because real responses
 * differ from the documentation. Unusable rows become undefined and are counted by the caller.
 */

const Text = z.union([z.string(), z.number()]);
const Maybe = <T extends z.ZodType>(type: T) => type.nullish();

/** Schema of an optional field: null and values of an unexpected type count as absent. */
const Loose = <T extends z.ZodType>(type: T) => Maybe(type).catch(undefined);

const DlqRow = z.object({ dlqId: Maybe(Text), messageId: Maybe(Text) });
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
  isPinnedParallelism: Loose(z.boolean()),
  isPinnedRate: Loose(z.boolean()),
});

/** Maximum length of a key (characters). Longer keys are truncated, so that a hostile row cannot inflate every scrape. */
const MAX_KEY_LENGTH = 512;

/** The service's value for "no limit". */
const UNLIMITED = 2 ** 31 - 1;

const PageEnvelope = z.object({ cursor: z.union([z.string(), z.number()]).nullish(), error: z.unknown().optional() });

/** Maximum time value of a Date (ms). Later times are rejected, so that conversions cannot fail. */
const LATEST = 8.64e15;

/** Converts a number, decimal text or ISO 8601 text to whole milliseconds since the Unix epoch. */
function toMillis(value: unknown): number | undefined {
  if ((typeof value !== 'string' && typeof value !== 'number') || value === '') return undefined;
  const number = Number(value);
  const ms = Number.isFinite(number) ? number : Date.parse(String(value));
  return ms >= 0 && ms <= LATEST ? Math.floor(ms) : undefined;
}

const MAX_ENCODED_LENGTH = 4096;

/** Fields of a row that passed its schema; optional fields are unchecked. */
type Fields = Readonly<Record<string, unknown>>;

/** Returns a text; undefined for other types and for "", which the service writes for unset fields. */
const text = (value: unknown) => (typeof value === 'string' && value !== '' ? value : undefined);

function number(value: unknown): number | undefined {
  const number = typeof value === 'number' ? value : Number(text(value) ?? Number.NaN);
  return Number.isFinite(number) ? number : undefined;
}

/** Returns all labels of a message, which a service reports as one field, as a list, or as both. */
const labelsOf = ({ label, labels }: Fields): readonly string[] => [
  ...new Set([label, ...(Array.isArray(labels) ? labels : [])].flatMap(each => text(each) ?? [])),
];

/** Returns the time of entry into the queue (ms) from an id such as `<Unix milliseconds>-<number>`. */
function enteredAt(dlqId: string): number | undefined {
  return toMillis(/^(\d{13})-\d+$/.exec(dlqId)?.[1]);
}

/** A Map, because a lookup in a plain object would also find inherited properties such as `constructor`. */
const CALLBACK_STATES: ReadonlyMap<string, CallbackState> = new Map([
  ['callback_inprogress', 'in_progress'],
  ['callback_in_progress', 'in_progress'],
  ['callback_success', 'success'],
  ['callback_fail', 'fail'],
  ['callback_failed', 'fail'],
  ['callback_canceled', 'canceled'],
  ['callback_cancelled', 'canceled'],
]);

/** Returns the text of an id; undefined for "" and for numbers that have lost precision, which may not be unique. */
function idOf(value: unknown): string | undefined {
  if (typeof value === 'number') return Number.isSafeInteger(value) ? String(value) : undefined;
  return text(value);
}

const callbackInfo = ({ failureCallbackInfo: info }: Fields) => (info ?? {}) as Fields;

/** Reads either field name; if both are set and contradict each other, the state is unknown. */
function callbackState(row: Fields): CallbackState | undefined {
  const states = [text(callbackInfo(row).state), text(row.failureFunctionState)]
    .filter(state => state !== undefined)
    .map(state => CALLBACK_STATES.get(state.toLowerCase()) ?? 'unknown');
  return new Set(states).size > 1 ? 'unknown' : states[0];
}

/** Returns the error class of a row. The service encodes responses that are not UTF-8 as Base64. */
function errorClassOf({ responseBody, responseBodyBase64, error }: Fields): string | undefined {
  const response = text(responseBody) ?? text(error);
  if (response !== undefined) return classOfError(response);
  const packed = text(responseBodyBase64)?.slice(0, MAX_ENCODED_LENGTH);
  return packed === undefined ? undefined : classOfError(Buffer.from(packed, 'base64').toString('latin1'));
}

export function toDlqEntry(row: unknown): DlqEntry | undefined {
  const parsed = DlqRow.safeParse(row);
  if (!parsed.success) return undefined;
  const dlqId = idOf(parsed.data.dlqId);
  const messageId = idOf(parsed.data.messageId);
  const id = dlqId ?? messageId;
  if (id === undefined) return undefined;
  const fields = row as Fields;
  return {
    id,
    dlqId,
    messageId,
    createdAt: toMillis(fields.createdAt),
    enteredAt: dlqId === undefined ? undefined : enteredAt(dlqId),
    url: text(fields.url),
    method: text(fields.method),
    state: text(fields.state),
    topic: text(fields.topicName) ?? text(fields.topicId),
    topicName: text(fields.topicName),
    queue: text(fields.queueName),
    schedule: text(fields.scheduleId),
    callerIp: text(fields.callerIP) ?? text(fields.callerIp),
    flowControlKey: text(fields.flowControlKey),
    api: text(fields.api),
    labels: labelsOf(fields),
    responseStatus: number(fields.responseStatus),
    errorClass: errorClassOf(fields),
    workflowRunId: text(fields.workflowRunId),
    workflowUrl: text(fields.workflowUrl),
    failureCallbackUrl: text(fields.failureCallback),
    callbackState: callbackState(fields),
    callbackMessageId: text(callbackInfo(fields).messageId),
    maxRetries: number(fields.maxRetries),
  };
}

const STATE_WORDS: ReadonlyMap<string, EventState> = new Map([
  ...EVENT_STATES.flatMap((state): [string, EventState][] => [
    [state.toUpperCase(), state],
    [state, state],
  ]),
  ['CANCELED', 'cancelled'],
  ['canceled', 'cancelled'],
]);

const toEventState = (state: string): EventState =>
  STATE_WORDS.get(state) ?? STATE_WORDS.get(state.toLowerCase()) ?? 'unknown';

/** Parses an event without zod, because a page has a thousand rows. */
export function toDeliveryEvent(row: unknown): DeliveryEvent | undefined {
  if (!isObject(row)) return undefined;
  const fields: Fields = row;
  const time = toMillis(fields.time);
  const messageId = idOf(fields.messageId);
  if (time === undefined || messageId === undefined || typeof fields.state !== 'string') return undefined;
  return {
    messageId,
    state: toEventState(fields.state),
    time,
    dueAt: toMillis(fields.nextDeliveryTime) ?? toMillis(fields.notBefore),
    url: text(fields.url),
    topic: text(fields.topicName),
    queue: text(fields.queueName),
    schedule: text(fields.scheduleId),
    labels: fields.label === undefined && fields.labels === undefined ? undefined : labelsOf(fields),
    workflowUrl: text(fields.workflowUrl),
    flowControlKey: text(fields.flowControlKey),
    status: number(fields.responseStatus),
  };
}

export function toDetailedEvent(row: unknown): DeliveryEvent | undefined {
  const event = toDeliveryEvent(row);
  if (!event) return undefined;
  const { method, flowControlKey, header } = row as Fields;
  const detail = {
    method: text(method),
    hasFlowControlKey: text(flowControlKey) !== undefined,
    traceparent: traceparentIn(header),
  };
  return { ...event, detail };
}

/** Adds the explanation of a failed attempt. `redact` bounds it and removes secrets. */
export function toExplainedEvent(row: unknown, redact: (text: string) => string): DeliveryEvent | undefined {
  const event = toDeliveryEvent(row);
  if (!event) return undefined;
  const error = text((row as Fields).error);
  // A copy, because a part of a long text would keep all of it in memory.
  return error === undefined ? event : { ...event, error: text(Buffer.from(redact(error)).toString()) };
}

export function toFlowControlEntry(row: unknown): FlowControlEntry | undefined {
  const parsed = FlowControlRow.safeParse(row);
  if (!parsed.success) return undefined;
  const { flowControlKey, waitListSize, waitlistSize, ...limits } = parsed.data;
  // The service may omit a size of zero.
  const size = Number(waitListSize ?? waitlistSize ?? 0);
  if (!Number.isFinite(size) || size < 0) return undefined;
  const entry = { key: boundText(flowControlKey, MAX_KEY_LENGTH), waitlistSize: size };
  // A service that reports any of these fields omits zero and false. An omitted limit means no limit.
  if (Object.values(limits).every(value => value == null)) return entry;
  const { parallelismMax, parallelismCount, rateMax, rateCount, ratePeriod } = limits;
  const { isPaused, isPinnedParallelism, isPinnedRate } = limits;
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
    pinned: PINNABLE.filter(limit => (limit === 'rate' ? isPinnedRate : isPinnedParallelism)),
  };
}

export interface RawPage {
  readonly rows: readonly unknown[];
  readonly cursor: string | undefined;
  /** Whether the response contains no list, not even an empty one. */
  readonly isMissing: boolean;
}

type Body = Readonly<Record<string, unknown>>;

const isObject = (value: unknown): value is Body =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const isError = (error: unknown) => error !== undefined && error !== null && error !== '';

/** Field names of lists. The event log is being renamed, and its events may be grouped by message. */
const LIST_NAMES = { messages: ['messages'], events: ['events', 'logs', 'messages'], flowControls: ['flowControls'] };
type ListName = keyof typeof LIST_NAMES;

function eventsOfGroup(group: unknown): readonly unknown[] {
  // An invalid group is kept as one invalid row.
  if (!isObject(group) || !Array.isArray(group.events)) return [group];
  const { messageId } = group;
  return group.events.map(event => (isObject(event) ? { messageId, ...event } : event));
}

/** Whether a response without a list may stand for an empty list: it contains only a cursor and null lists. */
function isEmpty(body: Body, names: readonly string[]): boolean {
  for (const name in body) if (name !== 'cursor' && !(names.includes(name) && body[name] === null)) return false;
  return true;
}

/** Returns a response's rows and cursor; undefined for an error, for other content and for a list of another type. */
export function toPage(body: unknown, list: ListName): RawPage | undefined {
  if (body === null) return { rows: [], cursor: undefined, isMissing: true };
  const envelope = PageEnvelope.safeParse(body);
  if (!envelope.success || !isObject(body) || isError(envelope.data.error)) return undefined;
  const names = LIST_NAMES[list];
  const name = names.find(name => Object.hasOwn(body, name) && body[name] !== null);
  if (name === undefined && !isEmpty(body, names)) return undefined;
  const found = name === undefined ? [] : body[name];
  if (!Array.isArray(found)) return undefined;
  const rows = list === 'events' && name === 'messages' ? found.flatMap(eventsOfGroup) : found;
  const cursor = envelope.data.cursor ?? '';
  return { rows, cursor: cursor === '' ? undefined : String(cursor), isMissing: name === undefined };
}

/** Returns the flow-control list, which may be a bare array or wrapped in an object. */
export function toFlowControlPage(body: unknown): RawPage | undefined {
  return Array.isArray(body) ? { rows: body, cursor: undefined, isMissing: false } : toPage(body, 'flowControls');
}

/** Returns a single flow-control key as a row of the list; undefined if the response is for another key or for none. */
export function withKey(body: unknown, key: string): unknown {
  if (!isObject(body) || isError(body.error)) return undefined;
  const name = body.flowControlKey ?? undefined;
  // The service may omit a size of zero, or the name of the requested key, but not both.
  if (name === undefined && (body.waitListSize ?? body.waitlistSize ?? undefined) === undefined) return undefined;
  return (name ?? key) === key ? { ...body, flowControlKey: key } : undefined;
}
