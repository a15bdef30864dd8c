import { z } from 'zod';
import { boundText } from '../kit/text.ts';
import {
  type CallbackState,
  type DeliveryEvent,
  type DlqEntry,
  EVENT_STATES,
  type EventState,
  type FlowControlEntry,
} from '../model/message.ts';
import { classOfError } from './error-class.ts';

/** Version 00 of W3C trace context; ids of zeros alone are none. */
const TRACEPARENT = /^00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/;
/** Prefix under which the publisher's own headers are forwarded, in any case. */
const TRACE_HEADER = /^(?:upstash-forward-)?traceparent$/i;
/** Headers of a message that are looked through. */
const MOST_HEADERS = 200;

/** The publisher's trace context among the headers of a message, where it is a valid one. */
function traceparentIn(header: unknown): string | undefined {
  if (typeof header !== 'object' || header === null) return undefined;
  for (const [name, value] of Object.entries(header).slice(0, MOST_HEADERS)) {
    if (!TRACE_HEADER.test(name)) continue;
    const first: unknown = Array.isArray(value) ? value[0] : value;
    if (typeof first === 'string' && TRACEPARENT.test(first)) return first;
  }
  return undefined;
}

/**
 * The only file that knows the field names of what is read; account-record.ts knows those of a token reset. Liberal in spelling and type, because documented and real answers
 * differ; a row it can't use is undefined, which the caller counts.
 */

const Text = z.union([z.string(), z.number()]);
const Maybe = <T extends z.ZodType>(type: T) => type.nullish();

/** A field that may be absent, null or of an unexpected type; it then counts as absent, and the row stays. */
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

/** Characters of Base64 that are unpacked. */
const LONGEST_PACKED = 4096;

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

/** No object: the service's words would find what every object has. */
const CALLBACK_STATES: ReadonlyMap<string, CallbackState> = new Map([
  ['callback_inprogress', 'in_progress'],
  ['callback_in_progress', 'in_progress'],
  ['callback_success', 'success'],
  ['callback_fail', 'fail'],
  ['callback_failed', 'fail'],
  ['callback_canceled', 'canceled'],
  ['callback_cancelled', 'canceled'],
]);

/** An id that tells one thing from every other: not "", nor a number that has lost its last digits. */
function idOf(value: unknown): string | undefined {
  if (typeof value === 'number') return Number.isSafeInteger(value) ? String(value) : undefined;
  return text(value);
}

/** What an entry says of its failure callback, as the message that it is. */
const callbackInfo = ({ failureCallbackInfo: info }: Fields) => (info ?? {}) as Fields;

/** Under either of its names; an entry that has both and contradicts itself tells nothing. */
function callbackState(row: Fields): CallbackState | undefined {
  const states = [text(callbackInfo(row).state), text(row.failureFunctionState)]
    .filter(state => state !== undefined)
    .map(state => CALLBACK_STATES.get(state.toLowerCase()) ?? 'unknown');
  return new Set(states).size > 1 ? 'unknown' : states[0];
}

/** What the last answer said, as far as a class needs it. What is no UTF-8 comes in Base64. */
function errorClassOf({ responseBody, responseBodyBase64, error }: Fields): string | undefined {
  const said = text(responseBody) ?? text(error);
  if (said !== undefined) return classOfError(said);
  const packed = text(responseBodyBase64)?.slice(0, LONGEST_PACKED);
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

/** As it is documented, and in lower case. */
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

/** By hand: there are a thousand in a page, each with three fields to look at. */
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
    label: fields.label === undefined && fields.labels === undefined ? undefined : labelsOf(fields)[0],
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

export interface RawPage {
  readonly rows: readonly unknown[];
  readonly cursor: string | undefined;
}

type Body = Readonly<Record<string, unknown>>;

const isObject = (value: unknown): value is Body =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** What stands where an error would: the answer may be complete without it, and is no answer with it. */
const isError = (error: unknown) => error !== undefined && error !== null && error !== '';

/** Under these names a list may stand in its answer. The event log is being renamed, and may come grouped by message. */
const LIST_NAMES = { messages: ['messages'], events: ['events', 'logs', 'messages'], flowControls: ['flowControls'] };
type ListName = keyof typeof LIST_NAMES;

function eventsOfGroup(group: unknown): readonly unknown[] {
  // What is no group, or has no list of its own, stands for one row that is none.
  if (!isObject(group) || !Array.isArray(group.events)) return [group];
  const { messageId } = group;
  return group.events.map(event => (isObject(event) ? { messageId, ...event } : event));
}

/** A list that is null or not there is empty where nothing else stands beside it; else it is another answer. */
function isEmpty(body: Body, names: readonly string[]): boolean {
  for (const name in body) if (name !== 'cursor' && !(names.includes(name) && body[name] === null)) return false;
  return true;
}

/** Undefined when the answer is not that list, read whole: an error, another answer, or a list of another type. */
export function toPage(body: unknown, list: ListName): RawPage | undefined {
  if (body === null) return { rows: [], cursor: undefined };
  const envelope = PageEnvelope.safeParse(body);
  if (!envelope.success || !isObject(body) || isError(envelope.data.error)) return undefined;
  const names = LIST_NAMES[list];
  const name = names.find(name => Object.hasOwn(body, name) && body[name] !== null);
  if (name === undefined && !isEmpty(body, names)) return undefined;
  const found = name === undefined ? [] : body[name];
  if (!Array.isArray(found)) return undefined;
  const rows = list === 'events' && name === 'messages' ? found.flatMap(eventsOfGroup) : found;
  const cursor = envelope.data.cursor ?? '';
  return { rows, cursor: cursor === '' ? undefined : String(cursor) };
}

/** The flow-control list, which comes bare or wrapped. */
export function toFlowControlPage(body: unknown): RawPage | undefined {
  return Array.isArray(body) ? { rows: body, cursor: undefined } : toPage(body, 'flowControls');
}

/** A single flow-control key as a row of the list; undefined when the answer is of another key, or of none. */
export function withKey(body: unknown, key: string): unknown {
  if (!isObject(body) || isError(body.error)) return undefined;
  const name = body.flowControlKey ?? undefined;
  // Either may be left out: a size of zero, and the name that was asked for. An answer with neither says nothing of a key.
  if (name === undefined && (body.waitListSize ?? body.waitlistSize ?? undefined) === undefined) return undefined;
  return (name ?? key) === key ? { ...body, flowControlKey: key } : undefined;
}
