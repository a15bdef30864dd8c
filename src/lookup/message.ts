import { durationText } from '../kit/duration.ts';
import { plural, printable } from '../kit/text.ts';
import { type DeliveryEvent, type DlqEntry, EVENT_SEQUENCE, type EventState, isEnd } from '../model/message.ts';
import { isUnanswerable, type Reader } from '../upstream/api.ts';
import { bareUrl, dlqList, entryJson, eventList, type List, toIsoTime } from './lists.ts';
import { readNewest } from './read.ts';

/** Maximum numbers of rows and pages per list. Only a hostile service lists more for one message. */
const BOUNDS = { limit: 10_000, maxPages: 20 };

export interface Message {
  readonly account: string;
  readonly messageId: string;
  readonly events: readonly DeliveryEvent[];
  readonly entry: DlqEntry | undefined;
  /** Whether the service lists more events than were read. */
  readonly hasMore: boolean;
}

/**
 * Reads one message, which may be a failed workflow run. Returns undefined if neither list contains it. Throws UpstreamError,
 * and FilterContradiction if the service ignores the message id.
 */
export async function readMessage(
  { account, reader, bounds = BOUNDS }: { account: string; reader: Reader; bounds?: typeof BOUNDS },
  messageId: string,
  signal: AbortSignal,
): Promise<Message | undefined> {
  const read = <Row>(list: List<Row>) => readNewest(list, reader, { ...bounds, signal });
  const entryOf = async (query: { readonly source?: 'workflow' }) => {
    const { rows } = await read(dlqList({ messageId, ...query }));
    return rows.find(row => row.messageId === messageId);
  };
  const events = await read(eventList({ messageId }));
  const entry =
    (await entryOf({})) ??
    (await entryOf({ source: 'workflow' }).catch(error => {
      if (!isUnanswerable(error)) throw error;
      return undefined;
    }));
  if (events.rows.length === 0 && !entry) return undefined;
  return { account, messageId, events: events.rows, entry, hasMore: events.hasMore };
}

/** A value that may be unknown: null in the API, omitted by the command line. */
export type Optional<T> = T | null | undefined;

/** One event of a timeline, in its JSON form. Times are ISO 8601, UTC. */
export interface Step {
  readonly time: string;
  readonly state: string;
  /** Number of the attempt that this event starts or ends; unknown if earlier attempts may be missing. */
  readonly attempt?: Optional<number>;
  /** Duration of the attempt that this event ends; unknown if its start is not listed. */
  readonly tookSeconds?: Optional<number>;
  /** HTTP status from the destination; 0 if it did not respond. */
  readonly responseStatus?: Optional<number>;
  /** The service's explanation of a failed attempt. */
  readonly error?: Optional<string>;
  readonly nextDeliveryAt?: Optional<string>;
}

/**
 * Missing parts of a timeline. `all`, `creation`, `end`: not in the event log, which keeps events for a limited time.
 * `unread`: too many events.
 */
export type Missing = 'all' | 'creation' | 'end' | 'unread';

export interface Timeline {
  /** The final state; null while the message is in flight, or if its end is not listed. */
  readonly outcome: Optional<string>;
  /** Number of listed attempts; there may be more if the creation is not listed. */
  readonly attempts: number;
  /** Time from the creation to the end; null if one of them is not listed. */
  readonly durationSeconds: Optional<number>;
  readonly missing: readonly Missing[];
  /** The oldest first. */
  readonly events: readonly Step[];
}

/** Sorts the events and removes duplicates: the log may list an event twice. */
function distinct(events: readonly DeliveryEvent[]): DeliveryEvent[] {
  const byContent = new Map(events.map(event => [`${event.time} ${event.state}`, event]));
  const rank = ({ state }: DeliveryEvent) => EVENT_SEQUENCE.indexOf(state);
  return [...byContent.values()].sort((a, b) => a.time - b.time || rank(a) - rank(b));
}

const ENDS_ATTEMPT: ReadonlySet<EventState> = new Set(['error', 'delivered', 'failed', 'cancelled']);

function stepsOf(sorted: readonly DeliveryEvent[], hasCreation: boolean) {
  let attempts = 0;
  let startedAt: number | undefined;
  const events = sorted.map(({ time, state, status, error, dueAt }, index): Step => {
    const isRepeated = state === 'error' && sorted[index + 1]?.state === 'retry';
    const isStart = state === 'active';
    const start = ENDS_ATTEMPT.has(state) ? startedAt : undefined;
    // The log does not contain the start of this attempt.
    const isUnstarted = startedAt === undefined && (state === 'error' || state === 'delivered');
    if (isStart || isUnstarted) attempts += 1;
    if (isStart) startedAt = time;
    else if (start !== undefined) startedAt = undefined;
    return {
      time: new Date(time).toISOString(),
      state,
      attempt: hasCreation && (isStart || isUnstarted || start !== undefined) ? attempts : undefined,
      tookSeconds: start === undefined ? undefined : (time - start) / 1000,
      responseStatus: status,
      error,
      nextDeliveryAt: toIsoTime(dueAt !== undefined && dueAt > time && !isRepeated ? dueAt : undefined),
    };
  });
  return { attempts, events };
}

/** `isDead`: the message is in the dead-letter queue, so it has ended. */
export function timelineOf(events: readonly DeliveryEvent[], isDead: boolean, hasMore: boolean): Timeline {
  const sorted = distinct(events);
  const created = sorted.find(({ state }) => state === 'created');
  const end = sorted.findLast(({ state }) => isEnd(state));
  const missing: Missing[] = [];
  if (sorted.length === 0) missing.push('all');
  else {
    if (hasMore) missing.push('unread');
    else if (!created) missing.push('creation');
    if (!end && isDead) missing.push('end');
  }
  const { attempts, events: steps } = stepsOf(sorted, created !== undefined);
  return {
    outcome: end?.state ?? null,
    attempts,
    durationSeconds: created && end ? (end.time - created.time) / 1000 : null,
    missing,
    events: steps,
  };
}

/** Returns a message's properties: each from the events or, if they lack it, from the dead letter. */
function messageFields({ messageId, account, events, entry }: Message) {
  const labels = [...new Set([...events.flatMap(event => event.labels ?? []), ...(entry?.labels ?? [])])];
  const first = <K extends keyof DeliveryEvent>(key: K) => events.find(event => event[key] !== undefined)?.[key];
  const schedule = first('schedule') ?? entry?.schedule;
  return {
    messageId,
    account,
    url: bareUrl(first('url') ?? entry?.url),
    queue: first('queue') ?? entry?.queue,
    topic: first('topic') ?? entry?.topic,
    schedule,
    label: labels[0],
    labels,
    flowControlKey: first('flowControlKey') ?? entry?.flowControlKey,
    workflowRunId: entry?.workflowRunId,
    workflowUrl: bareUrl(first('workflowUrl') ?? entry?.workflowUrl),
    // All messages of a schedule contain the trace context with which the schedule was created.
    traceId: schedule === undefined ? first('publisher')?.traceId : undefined,
  };
}

/** Properties of a message in display order. */
export const MESSAGE_FIELDS = [
  'messageId',
  'account',
  'url',
  'queue',
  'topic',
  'schedule',
  'labels',
  'flowControlKey',
  'workflowRunId',
  'workflowUrl',
  'traceId',
] as const satisfies (keyof ReturnType<typeof messageFields>)[];

/** Returns the JSON form: no bodies and headers, and URLs without user and query. */
export function messageJson(message: Message) {
  const { events, entry, hasMore } = message;
  return {
    ...messageFields(message),
    ...timelineOf(events, entry !== undefined, hasMore),
    deadLetter: entry ? entryJson(entry) : null,
  };
}

/** Describes the JSON form of messages, for the command line and the pages. */

interface DescribedMessage extends Timeline {
  readonly deadLetter: Optional<{
    readonly dlqId?: Optional<string>;
    readonly enteredAt?: Optional<string>;
    readonly responseStatus?: Optional<number>;
    readonly callbackState?: Optional<string>;
  }>;
}

/** Formats a time (ISO 8601, UTC) as `2026-11-23 23:20:00.084`. */
export const utcText = (iso: string) => iso.replace('T', ' ').replace('Z', '');

const between = (from: string, to: string) => durationText((Date.parse(to) - Date.parse(from)) / 1000);

const response = (status: number) => (status === 0 ? 'no response' : `status ${status}`);

const part = <T>(value: Optional<T>, toText: (value: T) => string): string[] =>
  value === undefined || value === null ? [] : [toText(value)];

/** Describes a step: the time since the first step, and its attempt, status, duration, next delivery and error. */
export function describeStep(
  { time, attempt, responseStatus, tookSeconds, nextDeliveryAt, error }: Step,
  [first]: readonly Step[],
): { readonly after: string; readonly details: string } {
  const details = [
    ...part(attempt, number => `attempt ${number}`),
    ...part(responseStatus, response),
    ...part(tookSeconds, seconds => `took ${durationText(seconds)}`),
    ...part(nextDeliveryAt, due => `next delivery ${utcText(due)} (${between(time, due)} later)`),
    ...part(error, text => `error: ${text}`),
  ];
  return { after: between(first?.time ?? time, time), details: details.join(', ') };
}

const MISSING: Readonly<Record<Missing, string>> = {
  all: 'The event log contains no event of this message.',
  creation: 'The event log does not contain the creation of this message. Earlier attempts are unknown.',
  end: 'The event log does not contain the end of this message.',
  unread: 'The message has too many events. Only the newest were read.',
};

function result({ outcome, durationSeconds, attempts, events, missing }: DescribedMessage): string[] {
  if (events.length === 0 || missing.includes('end')) return [];
  const next = part(events.at(-1)?.nextDeliveryAt, due => `; the next delivery is due at ${utcText(due)}`).join('');
  const count = `${missing.length > 0 ? 'at least ' : ''}${plural(attempts, 'attempt')}`;
  const after = part(durationSeconds, seconds => `${durationText(seconds)} and `).join('');
  return [outcome ? `Result: ${outcome} after ${after}${count}.` : `In flight after ${count}${next}.`];
}

function deadLetter({ deadLetter: entry }: DescribedMessage): string[] {
  if (!entry) return ['Not in the dead-letter queue.'];
  const since = part(entry.enteredAt, time => ` since ${utcText(time)}`).join('');
  const id = part(entry.dlqId, id => `, dlqId ${id}`).join('');
  const last = part(entry.responseStatus, status => `, last attempt: ${response(status)}`).join('');
  return [
    `In the dead-letter queue${since}${id}${last}.`,
    ...part(entry.callbackState, state => `Failure callback: ${state}.`),
  ];
}

/** Returns sentences about the result, the dead letter and missing events. Control characters are replaced. */
export const describeMessage = (message: DescribedMessage): string[] =>
  [...result(message), ...deadLetter(message), ...message.missing.map(missing => MISSING[missing])].map(printable);

/** Returns sentences about doubtful or missing rows of a list. */
export const describeQuality = (isProven: boolean, rejected: number, incomplete: number): string[] => [
  ...(isProven ? [] : ['a filter is unproven: some rows are unreadable or lack the filtered field']),
  ...(rejected === 0 ? [] : [`${plural(rejected, 'unreadable row')} missing`]),
  ...(incomplete === 0 ? [] : [`unreadable values missing in ${plural(incomplete, 'row')}`]),
];
