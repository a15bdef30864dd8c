import { MAX_CLOCK_SKEW } from '../kit/clock.ts';
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
import type { SpanContext } from '../model/message-span.ts';
import { classOfError } from './error-class.ts';
import { isUnset, MAX_DELAY, RowValues } from './row-values.ts';

/** Version 00 of W3C trace context with the flag `sampled`; all-zero ids are invalid. */
const SAMPLED = /^00-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f][13579bdf]$/;
/** Matches the header's name in any case, with or without the prefix of forwarded publisher headers. */
const TRACE_HEADER = /^(?:upstash-forward-)?traceparent$/i;
/** Maximum number of headers that are searched. */
const MAX_HEADERS = 200;

/** Returns the publisher's span from the headers of a message, if its trace is sampled. */
function publisherIn(header: unknown): SpanContext | undefined {
  if (typeof header !== 'object' || header === null) return undefined;
  for (const [name, value] of Object.entries(header).slice(0, MAX_HEADERS)) {
    if (!TRACE_HEADER.test(name)) continue;
    const first: unknown = Array.isArray(value) ? value[0] : value;
    const [, traceId, spanId] = SAMPLED.exec(typeof first === 'string' ? first : '') ?? [];
    if (traceId !== undefined && spanId !== undefined) return { traceId, spanId };
  }
  return undefined;
}

/**
 * Only this file contains the field names of lists. It tolerates different spellings and types, because real responses
 * differ from the documentation. Unusable rows become undefined and are counted by the caller.
 */

/** Maximum length of a key (characters). */
const MAX_KEY_LENGTH = 512;
/** Maximum length of other texts (characters). Auto-cancel ignores texts longer than 2,048: a rule must not match a truncated one. */
const MAX_TEXT_LENGTH = 4096;

/** The service's value for "no limit". */
export const UNLIMITED = 2 ** 31 - 1;

const MAX_ENCODED_LENGTH = 4096;

/** Unchecked fields of a row or response. */
export type RawFields = Readonly<Record<string, unknown>>;

export const isObject = (value: unknown): value is RawFields =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

/** Whether a value may be an id or a cursor, or is not set. */
const isWord = (value: unknown) => value == null || typeof value === 'string' || Number.isFinite(value);

/**
 * Returns a text; undefined for other types and for "", which the service writes for unset fields. Replaces lone surrogates, which
 * have no UTF-8 encoding.
 */
const wholeText = (value: unknown) => (typeof value === 'string' && value !== '' ? value.toWellFormed() : undefined);

/** Like `wholeText`, but truncates long texts, so that a hostile row cannot inflate memory. */
export function text(value: unknown): string | undefined {
  const found = wholeText(value);
  return found && boundText(found, MAX_TEXT_LENGTH);
}

/** Like `text`, with a lower limit. */
export function boundedText(value: unknown, limit: number): string | undefined {
  const found = text(value);
  return found && boundText(found, limit);
}

/** Returns a name or an id that several lists contain. */
export const boundedName = (value: unknown) => boundedText(value, MAX_KEY_LENGTH);

/** Reads an error text of the service. `redact` bounds it and removes secrets. */
export const redactedText = (value: unknown, redact: (text: string) => string) => {
  const error = wholeText(value);
  // A copy, because a part of a long text would keep all of it in memory.
  return error && text(Buffer.from(redact(error)).toString());
};

/** Returns all labels of a message, which a service reports as one field, as a list, or as both. */
export const labelsIn = ({ label, labels }: RawFields): readonly string[] => [
  ...new Set([label, ...(Array.isArray(labels) ? labels : [])].flatMap(each => text(each) ?? [])),
];

/**
 * Returns the time of entry into the queue (ms) from an id such as `<Unix milliseconds>-<number>`. Other ids are valid, too: the
 * API does not define that an id contains a time.
 */
const enteredAt = (dlqId: string | undefined, now: number) =>
  new RowValues(now).time(/^(\d{12,14})-\d+$/.exec(dlqId ?? '')?.[1]);

/** A Map, because a lookup in a plain object would also find inherited properties such as `constructor`. */
export const CALLBACK_STATE_WORDS: ReadonlyMap<string, CallbackState> = new Map([
  ['callback_inprogress', 'in_progress'],
  ['callback_in_progress', 'in_progress'],
  ['callback_success', 'success'],
  ['callback_fail', 'fail'],
  ['callback_failed', 'fail'],
  ['callback_canceled', 'canceled'],
  ['callback_cancelled', 'canceled'],
]);

/** Returns an id as text; undefined for "", numbers other than safe integers, and lone surrogates: they may not be unique. */
export function idOf(value: unknown): string | undefined {
  if (typeof value === 'number') return Number.isSafeInteger(value) ? String(value) : undefined;
  return typeof value === 'string' && value.isWellFormed() ? text(value) : undefined;
}

const callbackInfo = ({ failureCallbackInfo: info }: RawFields) => (info ?? {}) as RawFields;

/** Reads either field name; if both are set and contradict each other, the state is unknown. */
function callbackState(row: RawFields): CallbackState | undefined {
  const states = [text(callbackInfo(row).state), text(row.failureFunctionState)]
    .filter(state => state !== undefined)
    .map(state => CALLBACK_STATE_WORDS.get(state.toLowerCase()) ?? 'unknown');
  return new Set(states).size > 1 ? 'unknown' : states[0];
}

/** Returns the error class of a row. The service encodes responses that are not UTF-8 as Base64. */
function errorClassOf({ responseBody, responseBodyBase64, error }: RawFields): string | undefined {
  const response = wholeText(responseBody) ?? wholeText(error);
  if (response !== undefined) return classOfError(response);
  const packed = wholeText(responseBodyBase64)?.slice(0, MAX_ENCODED_LENGTH);
  return packed === undefined ? undefined : classOfError(Buffer.from(packed, 'base64').toString('latin1'));
}

/** `now`: the current time (ms since the Unix epoch), also in the functions below. Later times are unreadable. */
export function toDlqEntry(row: unknown, now: number): DlqEntry | undefined {
  if (!isObject(row) || !isWord(row.dlqId) || !isWord(row.messageId)) return undefined;
  const [dlqId, messageId] = [idOf(row.dlqId), idOf(row.messageId)];
  const id = dlqId ?? messageId;
  if (id === undefined) return undefined;
  const values = new RowValues(now);
  return {
    id,
    dlqId,
    messageId,
    createdAt: values.time(row.createdAt),
    enteredAt: enteredAt(dlqId, now),
    url: text(row.url),
    method: text(row.method),
    state: text(row.state),
    topic: text(row.topicName) ?? text(row.topicId),
    topicName: text(row.topicName),
    queue: text(row.queueName),
    schedule: text(row.scheduleId),
    callerIp: text(row.callerIP) ?? text(row.callerIp),
    flowControlKey: text(row.flowControlKey),
    api: text(row.api),
    labels: labelsIn(row),
    responseStatus: values.status(row.responseStatus),
    errorClass: errorClassOf(row),
    workflowRunId: text(row.workflowRunId),
    workflowUrl: text(row.workflowUrl),
    workflowCreatedAt: values.time(row.workflowCreatedAt),
    failureCallbackUrl: text(row.failureCallback),
    callbackState: callbackState(row),
    callbackMessageId: text(callbackInfo(row).messageId),
    maxRetries: values.count(row.maxRetries),
    isIncomplete: values.isIncomplete,
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

/** Parses an event without zod, because a page has a thousand rows. */
export function toDeliveryEvent(row: unknown, now: number): DeliveryEvent | undefined {
  if (!isObject(row)) return undefined;
  const values = new RowValues(now);
  const time = values.time(row.time);
  const messageId = idOf(row.messageId);
  if (time === undefined || messageId === undefined || typeof row.state !== 'string') return undefined;
  return {
    messageId,
    state: STATE_WORDS.get(row.state) ?? STATE_WORDS.get(row.state.toLowerCase()) ?? 'unknown',
    time,
    dueAt: values.time(row.nextDeliveryTime, MAX_DELAY) ?? values.time(row.notBefore, MAX_DELAY),
    url: text(row.url),
    topic: text(row.topicName),
    queue: boundedName(row.queueName),
    schedule: boundedName(row.scheduleId),
    labels: row.label === undefined && row.labels === undefined ? undefined : labelsIn(row),
    workflowUrl: text(row.workflowUrl),
    flowControlKey: boundedName(row.flowControlKey),
    status: values.status(row.responseStatus),
    isIncomplete: values.isIncomplete,
  };
}

/** Adds optional fields. `redact` bounds the explanation of a failed attempt and removes secrets; without it, none is added. */
export function toDetailedEvent(
  row: unknown,
  now: number,
  redact?: (text: string) => string,
): DeliveryEvent | undefined {
  const event = toDeliveryEvent(row, now);
  if (!event) return undefined;
  const { method, header, error } = row as RawFields;
  const details = { ...event, method: text(method), publisher: publisherIn(header) };
  return redact ? { ...details, error: redactedText(error, redact) } : details;
}

export const limit = (max: number | undefined) =>
  max === undefined || max === 0 || max >= UNLIMITED ? undefined : max;

function waitlistSizeOf({ waitListSize, waitlistSize }: RawFields, values: RowValues): number | undefined {
  // The service may omit a size of zero.
  if (waitListSize === undefined && waitlistSize === undefined) return 0;
  const [size, ...others] = new Set(
    [waitListSize, waitlistSize].flatMap(each => (each == null ? [] : values.count(each))),
  );
  return others.length > 0 ? values.unreadable() : (size ?? values.unreadable());
}

/** Whether the count of a rate limit belongs to a period that has not ended. */
function isCurrent(
  { ratePeriodStart }: RawFields,
  period: number | undefined,
  values: RowValues,
  now: number,
): boolean {
  if (isUnset(ratePeriodStart)) return true;
  const seconds = values.count(ratePeriodStart);
  const start = seconds === undefined ? undefined : values.time(1000 * seconds);
  return start !== undefined && period !== undefined && now <= start + 1000 * period + MAX_CLOCK_SKEW;
}

export function toFlowControlEntry(row: unknown, now: number): FlowControlEntry | undefined {
  if (!isObject(row) || typeof row.flowControlKey !== 'string') return undefined;
  const values = new RowValues(now);
  const entry = {
    key: boundedName(row.flowControlKey) ?? '',
    waitlistSize: waitlistSizeOf(row, values),
  };
  const [parallelism, inUse, rate, used, period] = [
    row.parallelismMax,
    row.parallelismCount,
    row.rateMax,
    row.rateCount,
    row.ratePeriod,
  ].map(each => values.count(each));
  const paused = values.flag(row.isPaused);
  const pins = PINNABLE.map(name => {
    const field = name === 'rate' ? row.isPinnedRate : row.isPinnedParallelism;
    const isPinned = values.flag(field);
    return { name, isPinned, isUnreadable: field != null && isPinned === undefined };
  });
  const reported = [parallelism, inUse, rate, used, period, paused, ...pins.map(({ isPinned }) => isPinned)];
  const isReported = reported.some(value => value !== undefined);
  if (!isReported) return { ...entry, isIncomplete: values.isIncomplete };
  // A service that reports any of these fields omits zero and false, but does not write null. An omitted limit means no limit.
  const orOmitted = <T>(value: T | undefined, field: unknown, omitted: T) =>
    value ?? (field === undefined ? omitted : values.unreadable());
  const rateLimit = limit(rate);
  const hasCount = rateLimit !== undefined && isCurrent(row, period, values, now);
  return {
    ...entry,
    parallelismLimit: limit(parallelism),
    parallelismInUse: orOmitted(inUse, row.parallelismCount, 0),
    rateLimit,
    rateUsed: hasCount ? orOmitted(used, row.rateCount, 0) : undefined,
    ratePeriodSeconds: rateLimit === undefined ? undefined : period,
    paused: orOmitted(paused, row.isPaused, false),
    // With an unreadable pin, the list would be incomplete.
    pinned: pins.some(({ isUnreadable }) => isUnreadable)
      ? undefined
      : pins.flatMap(({ name, isPinned }) => (isPinned ? name : [])),
    isIncomplete: values.isIncomplete,
  };
}

export interface RawPage {
  readonly rows: readonly unknown[];
  readonly cursor: string | undefined;
  /** Whether the response contains no list, not even an empty one. */
  readonly isMissing: boolean;
}

export const isError = (error: unknown) => error !== undefined && error !== null && error !== '';

/** Field names of lists. The event log is being renamed, and its events may be grouped by message. */
const LIST_NAMES = {
  messages: ['messages'],
  events: ['events', 'logs', 'messages'],
  flowControls: ['flowControls'],
  schedules: ['schedules'],
  queues: ['queues'],
  runs: ['runs'],
};
type ListName = keyof typeof LIST_NAMES;

function eventsOfGroup(group: unknown): readonly unknown[] {
  // An invalid group is kept as one invalid row.
  if (!isObject(group) || !Array.isArray(group.events)) return [group];
  const { messageId } = group;
  return group.events.map(event => (isObject(event) ? { messageId, ...event } : event));
}

/** Whether a response without a list may stand for an empty list: it contains only a cursor and null lists. */
function isEmpty(body: RawFields, names: readonly string[]): boolean {
  for (const name in body) if (name !== 'cursor' && !(names.includes(name) && body[name] === null)) return false;
  return true;
}

/** Returns a response's rows and cursor; undefined for an error, for other content and for a list of another type. */
export function toPage(body: unknown, list: ListName): RawPage | undefined {
  if (body === null) return { rows: [], cursor: undefined, isMissing: true };
  if (!isObject(body) || !isWord(body.cursor) || isError(body.error)) return undefined;
  const names = LIST_NAMES[list];
  const name = names.find(name => Object.hasOwn(body, name) && body[name] !== null);
  if (name === undefined && !isEmpty(body, names)) return undefined;
  const found = name === undefined ? [] : body[name];
  if (!Array.isArray(found)) return undefined;
  const rows = list === 'events' && name === 'messages' ? found.flatMap(eventsOfGroup) : found;
  const cursor = body.cursor ?? '';
  return { rows, cursor: cursor === '' ? undefined : String(cursor), isMissing: name === undefined };
}

/** Returns a list without pages, which may be a bare array or wrapped in an object. */
export function toUnpagedList(body: unknown, list: ListName): RawPage | undefined {
  return Array.isArray(body) ? { rows: body, cursor: undefined, isMissing: false } : toPage(body, list);
}

/** Returns a single flow-control key as a row of the list; undefined if the response is for another key or for none. */
export function withKey(body: unknown, key: string): unknown {
  if (!isObject(body) || isError(body.error)) return undefined;
  const name = body.flowControlKey ?? undefined;
  // The service may omit a size of zero, or the name of the requested key, but not both.
  if (name === undefined && (body.waitListSize ?? body.waitlistSize ?? undefined) === undefined) return undefined;
  return (name ?? key) === key ? { ...body, flowControlKey: key } : undefined;
}
