import { BoundedMap } from '../../kit/bounded-map.ts';
import { boundText } from '../../kit/text.ts';
import {
  boundId,
  type LifecycleTrace,
  type PartialReason,
  type TracedEvent,
  type TraceQueue,
  traceIdOf,
} from '../../model/lifecycle-trace.ts';
import type { DeliveryEvent, MessageOutcome } from '../../model/message.ts';
import { isEnding, type KeptEvent } from './kept-event.ts';

const MAX_OPEN = 10_000;
/** Maximum number of finished messages that are remembered, so that delayed events do not open a second trace. */
const MAX_DONE = 20_000;
/** Maximum number of events per trace: enough for 64 attempts with three events each. */
const MAX_EVENTS = 200;
const MAX_TEXT = 200;

export interface TraceOptions {
  /** Part of every trace id, so that two accounts never share one. */
  readonly account: string;
  /** Fraction of traces to keep for messages without a retry, failure, cancellation or slow delivery. */
  readonly sampleRatio: number;
  readonly queue: TraceQueue;
}

/** An unfinished trace, in its stored form. */
export type OpenTrace = LifecycleTrace & {
  readonly events: TracedEvent[];
  readonly partial: PartialReason[];
  lateEvents: number;
};

/** Collects the events of open messages and queues finished traces for export. */
export type TraceCollector = ReturnType<typeof createTraceCollector>;

const hasRetried = ({ events }: OpenTrace) =>
  events.some(({ state }) => state === 'retry') || events.filter(({ state }) => state === 'active').length > 1;

/** Maps a trace id to a number in [0, 1), the same in every process. */
const fractionOf = (traceId: string) => Number.parseInt(traceId.slice(0, 13), 16) / 2 ** 52;

const keyOf = (message: bigint) => `trace/${message.toString(16)}`;

function openTrace(account: string, event: DeliveryEvent): OpenTrace {
  const { messageId, url, topic, queue, schedule, detail } = event;
  const short = (text: string | undefined) => (text === undefined ? undefined : boundText(text, MAX_TEXT));
  const address = url === undefined ? undefined : URL.parse(url);
  return {
    traceId: traceIdOf(account, messageId),
    messageId: boundId(messageId),
    events: [],
    host: short(address?.hostname),
    origin: address?.hostname ? short(`${address.protocol}//${address.host}`) : undefined,
    method: short(detail?.method),
    topic: short(topic),
    queue: short(queue),
    schedule: short(schedule),
    hasFlowControlKey: detail?.hasFlowControlKey ?? false,
    traceparent: detail?.traceparent,
    lateEvents: 0,
    partial: [],
  };
}

/** `stored`: open traces of an earlier process, by message. */
export function createTraceCollector(
  { account, sampleRatio, queue }: TraceOptions,
  stored: ReadonlyMap<bigint, OpenTrace> = new Map(),
) {
  const firstTime = ({ events }: OpenTrace) => events[0]?.time ?? 0;
  const open = new Map([...stored].sort(([, a], [, b]) => firstTime(a) - firstTime(b)));
  const done = new BoundedMap<bigint, true>(MAX_DONE);
  const touched = new Set<bigint>();
  const outbox = new Map<string, string>();

  function mark(trace: OpenTrace, reason: PartialReason): void {
    if (!trace.partial.includes(reason)) trace.partial.push(reason);
  }

  /** Closes a trace, and queues it if it is wanted and the queue has capacity. Returns the id of a queued trace. */
  function finish(message: bigint, trace: OpenTrace, isWanted: boolean): string | undefined {
    open.delete(message);
    done.set(message, true);
    touched.add(message);
    if (!isWanted || !queue.add(trace)) return undefined;
    outbox.set(trace.traceId, JSON.stringify(trace));
    return trace.traceId;
  }

  const isChosen = (trace: OpenTrace) => hasRetried(trace) || fractionOf(trace.traceId) < sampleRatio;

  function abandon(message: bigint, reason: PartialReason): void {
    const trace = open.get(message);
    if (!trace) return;
    mark(trace, reason);
    finish(message, trace, isChosen(trace));
  }

  return {
    /** Adds an event. A delayed event opens no trace: its trace may have been exported already. */
    add({ message, state, time, dueAt }: KeptEvent, row: DeliveryEvent, isLate: boolean): void {
      if (done.has(message)) return;
      const known = open.get(message);
      if (!known && isLate) return;
      const trace = known ?? openTrace(account, row);
      if (!known) open.set(message, trace);
      touched.add(message);
      if (isLate) trace.lateEvents += 1;
      // A final event is kept even if the trace is full.
      if (trace.events.length < (isEnding(state) ? 2 * MAX_EVENTS : MAX_EVENTS)) {
        trace.events.push({ state: row.state, time, dueAt, status: row.status });
      } else mark(trace, 'too_many_events');
      const [oldest] = open.size > MAX_OPEN ? open.keys() : [];
      if (oldest !== undefined) abandon(oldest, 'evicted');
    },
    end(
      message: bigint,
      outcome: MessageOutcome,
      { isCounted, isSlow }: { readonly isCounted: boolean; readonly isSlow: boolean },
    ): string | undefined {
      const trace = open.get(message);
      if (!trace) return undefined;
      return finish(message, trace, isCounted && (outcome !== 'delivered' || isSlow || isChosen(trace)));
    },
    abandon,
    markGap(): void {
      for (const [message, trace] of open) {
        mark(trace, 'gap');
        touched.add(message);
      }
    },
    drainRows(): ReadonlyMap<string, string | null> {
      const rows = new Map<string, string | null>();
      for (const message of touched) {
        const trace = open.get(message);
        rows.set(keyOf(message), trace ? JSON.stringify(trace) : null);
      }
      for (const [traceId, text] of outbox) rows.set(`outbox/${traceId}`, text);
      touched.clear();
      outbox.clear();
      return rows;
    },
  };
}
