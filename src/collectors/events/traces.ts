import { hashedId } from '../../kit/hash.ts';
import { boundText, parseUrl } from '../../kit/text.ts';
import type { Change } from '../../model/change.ts';
import { type DeliveryEvent, EVENT_SEQUENCE, type EventState, isEnd } from '../../model/message.ts';
import type { MessageSpan, MessageSpans, SpanContext } from '../../model/message-span.ts';

/** Maximum number of open messages for which events are kept. */
const MAX_OPEN = 100_000;
/** Maximum number of events per message, without its end. */
const MAX_EVENTS = 200;
/** Maximum number of ended spans that wait for a commit. */
const MAX_ENDED = 10_000;
const MAX_TEXT = 200;

export interface TraceOptions {
  /** Part of every span id, so that two accounts never share one. */
  readonly account: string;
  readonly baseUrl: string;
  readonly send: MessageSpans;
}

/** An event. Times are in milliseconds since the Unix epoch. */
type TracedEvent = Pick<DeliveryEvent, 'state' | 'time' | 'status'>;

/** An open message, in its stored form. */
export interface OpenTrace {
  readonly messageId: string;
  readonly events: TracedEvent[];
  /** The publisher's span, if a row contains a sampled trace context. */
  publisher?: SpanContext | undefined;
  origin?: string | undefined;
  method?: string | undefined;
  topic?: string | undefined;
  queue?: string | undefined;
  schedule?: string | undefined;
  isPartial: boolean;
  /** Set with the first span, because later spans must refer to the same ids. */
  ids?: { readonly traceId: string; readonly deliveryId: string };
  /** Number of attempts for which spans are not needed any more. */
  done: number;
}

interface Attempt extends Pick<MessageSpan, 'start' | 'end' | 'result' | 'status'> {
  readonly hasStart: boolean;
  /** Number of started attempts, this one included. */
  readonly number: number;
}

const byTime = (a: TracedEvent, b: TracedEvent) =>
  a.time - b.time || EVENT_SEQUENCE.indexOf(a.state) - EVENT_SEQUENCE.indexOf(b.state);

/** Returns the attempts with a known result. An attempt without a listed start begins with its result. */
function attemptsOf(sorted: readonly TracedEvent[]): Attempt[] {
  const attempts: Attempt[] = [];
  let number = 0;
  let start: number | undefined;
  for (const { state, time, status } of sorted) {
    if (state === 'active') {
      number += 1;
      start = time;
    } else if (state === 'error' || state === 'delivered' || (start !== undefined && isEnd(state))) {
      if (start === undefined) number += 1;
      const result = state as MessageSpan['result'];
      attempts.push({ start: start ?? time, end: time, result, status, hasStart: start !== undefined, number });
      start = undefined;
    }
  }
  return attempts;
}

const short = (text: string | undefined) => (text === undefined ? undefined : boundText(text, MAX_TEXT));

function originOf(url: string | undefined): string | undefined {
  const address = url === undefined ? undefined : parseUrl(url);
  const origin = address?.hostname ? `${address.protocol}//${address.host}` : '';
  // A truncated origin would not be a URL.
  return origin === '' || origin.length > MAX_TEXT ? undefined : origin;
}

function addRow(trace: OpenTrace, row: DeliveryEvent): void {
  trace.publisher ??= row.publisher;
  trace.origin ??= originOf(row.url);
  trace.method ??= short(row.method);
  trace.topic ??= short(row.topic);
  trace.queue ??= short(row.queue);
  trace.schedule ??= short(row.schedule);
}

type FollowedEvent = { readonly message: bigint; readonly state: EventState; readonly time: number };

/** Collects the events of open messages, and creates spans of their attempts and deliveries. */
export class TraceCollector {
  readonly #options: TraceOptions;
  readonly #open: Map<bigint, OpenTrace>;
  readonly #touched = new Set<bigint>();
  #ended: MessageSpan[] = [];
  #dropped = 0;

  /** `stored`: open messages of an earlier process. */
  constructor(options: TraceOptions, stored: ReadonlyMap<bigint, OpenTrace>) {
    this.#options = options;
    const firstTime = ({ events }: OpenTrace) => events[0]?.time ?? 0;
    this.#open = new Map([...stored].sort(([, a], [, b]) => firstTime(a) - firstTime(b)));
  }

  /**
   * Adds an event. `isLate`: later events of the message may already have been passed to `follow`. A late event is added only if
   * it is the final event of a message with known, earlier events. Other late events mark the message as partial.
   */
  add({ message, time }: Pick<FollowedEvent, 'message' | 'time'>, row: DeliveryEvent, isLate: boolean): void {
    const known = this.#open.get(message);
    if (!known && isLate) return;
    const trace = known ?? { messageId: boundText(row.messageId, MAX_TEXT), events: [], isPartial: false, done: 0 };
    addRow(trace, row);
    const { state, status } = row;
    const isAfterOthers = trace.events.some(event => event.time <= time);
    const isAdded = isLate ? isEnd(state) && isAfterOthers : isEnd(state) || trace.events.length < MAX_EVENTS;
    if (isAdded) trace.events.push({ state, time, status });
    else trace.isPartial = true;
    this.#touched.add(message);
    this.#open.set(message, trace);
  }

  /**
   * Creates the spans that an event ends, once all earlier events are listed. `isCounted`: whether the event is later than the
   * first start of the agent.
   */
  follow({ message, state, time }: FollowedEvent, isCounted: boolean): void {
    const trace = this.#open.get(message);
    if (!trace || !(state === 'error' || isEnd(state))) return;
    const events = trace.events.filter(event => event.time <= time).sort(byTime);
    // Undefined if `add` has not added the event.
    const event = events.find(each => each.state === state && each.time === time);
    if (!event) return;
    this.#touched.add(message);
    const attempts = attemptsOf(events);
    const { publisher } = trace;
    const [first] = events;
    if (isEnd(state)) this.#open.delete(message);
    if (!publisher || !first) return;
    if (isCounted) this.#addSpans(trace, publisher, { first, event, attempts });
    trace.done = Math.max(trace.done, attempts.length);
  }

  abandon(message: bigint): void {
    const trace = this.#open.get(message);
    if (!trace) return;
    this.#open.delete(message);
    this.#touched.add(message);
    if (trace.publisher) this.#dropped += 1;
  }

  /** Marks all open messages as partial, because the log has lost events. */
  markGap(): void {
    for (const [message, trace] of this.#open) {
      trace.isPartial = true;
      this.#touched.add(message);
    }
  }

  /** Drops the oldest messages above the limit. Returns changed rows. */
  drainChanges(): Change[] {
    for (const message of this.#open.keys()) {
      if (this.#open.size <= MAX_OPEN) break;
      this.abandon(message);
    }
    const changes = [...this.#touched].map(message => {
      const trace = this.#open.get(message);
      return { key: `traced/${message.toString(16)}`, value: trace ? JSON.stringify(trace) : null };
    });
    this.#touched.clear();
    return changes;
  }

  /** Sends ended spans. Call it only after the rows are committed, so that a restart does not create other spans. */
  send(): void {
    const [ended, dropped] = [this.#ended, this.#dropped];
    this.#ended = [];
    this.#dropped = 0;
    if (ended.length > 0 || dropped > 0) this.#options.send(ended, dropped);
  }

  #addSpans(
    trace: OpenTrace,
    publisher: SpanContext,
    { first, event, attempts }: { first: TracedEvent; event: TracedEvent; attempts: readonly Attempt[] },
  ): void {
    const { state: result, time: end } = event;
    const { account, baseUrl } = this.#options;
    const { messageId, schedule, isPartial, done, origin, method, topic, queue } = trace;
    const idOf = (kind: string, start: number, digits = 16) => hashedId([account, messageId, kind, start], digits);
    // All messages of a schedule have its stored headers, but must not share one trace.
    const traceId = schedule === undefined ? publisher.traceId : idOf('trace', first.time, 32);
    trace.ids ??= { traceId, deliveryId: idOf('delivery', first.time) };
    const message = { account, baseUrl, messageId, publisher, ...trace.ids, origin, method, topic, queue, schedule };
    for (const { hasStart, number, ...attempt } of attempts.slice(done)) {
      const spanId = idOf(hasStart ? 'attempt' : attempt.result, attempt.start);
      this.#end({ kind: 'attempt', message, spanId, ...attempt, attempts: number, isPartial: !hasStart });
    }
    if (!isEnd(result)) return;
    const last = attempts.at(-1);
    const number = last?.number ?? 0;
    const lacksEvents = number > attempts.length || attempts.some(({ hasStart }) => !hasStart);
    this.#end({
      kind: 'delivery',
      message,
      spanId: message.deliveryId,
      start: first.time,
      end,
      result,
      status: event.status ?? last?.status,
      attempts: Math.max(done, number),
      isPartial: isPartial || first.state !== 'created' || lacksEvents,
    });
  }

  #end(span: MessageSpan): void {
    if (this.#ended.length < MAX_ENDED) this.#ended.push(span);
    else this.#dropped += 1;
  }
}
