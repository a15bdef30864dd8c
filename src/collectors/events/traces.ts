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
import type { Outcome } from '../../model/message.ts';
import { type DeliveryEvent, EVENT_STATES } from '../../model/message.ts';
import type { KeptEvent } from './kept-event.ts';

/** Messages whose events are kept for a trace at a time, and those that are remembered to have been given up. */
const MOST_OPEN = 10_000;
const MOST_DONE = 20_000;
/** Events of one message that are kept: 64 attempts have at most three each. */
const MOST_EVENTS = 200;
const LONGEST = 200;

export interface TraceOptions {
  /** Part of every trace id, so that two accounts never share one. */
  readonly account: string;
  /** Share of messages whose traces are kept although nothing was the matter with them. */
  readonly sampleRatio: number;
  readonly queue: TraceQueue;
}

/** A trace that still grows, as it is stored. */
export type OpenTrace = LifecycleTrace & {
  readonly events: TracedEvent[];
  readonly partial: PartialReason[];
  lateEvents: number;
};

/** The events of messages that have not ended, and the traces that are to be exported. Changed in place. */
export type Traces = ReturnType<typeof createTraces>;

const hasRetried = ({ events }: OpenTrace) =>
  events.some(({ state }) => state === 'retry') || events.filter(({ state }) => state === 'active').length > 1;

/** A number from 0 up to 1 that every replica makes from the same id. */
const fractionOf = (traceId: string) => Number.parseInt(traceId.slice(0, 13), 16) / 2 ** 52;

const keyOf = (message: bigint) => `trace/${message.toString(16)}`;

function openTrace(account: string, event: DeliveryEvent): OpenTrace {
  const { messageId, url, topic, queue, schedule, detail } = event;
  const short = (text: string | undefined) => (text === undefined ? undefined : boundText(text, LONGEST));
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

/** `stored`: open traces from before this process, by message. */
export function createTraces(
  { account, sampleRatio, queue }: TraceOptions,
  stored: ReadonlyMap<bigint, OpenTrace> = new Map(),
) {
  const firstTime = ({ events }: OpenTrace) => events[0]?.time ?? 0;
  const open = new Map([...stored].sort(([, a], [, b]) => firstTime(a) - firstTime(b)));
  const done = new BoundedMap<bigint, true>(MOST_DONE);
  const touched = new Set<bigint>();
  const outbox = new Map<string, string>();

  function mark(trace: OpenTrace, reason: PartialReason): void {
    if (!trace.partial.includes(reason)) trace.partial.push(reason);
  }

  /** Takes a trace out; it goes to the outbox when it is wanted and there is room. */
  function finish(message: bigint, trace: OpenTrace, isWanted: boolean): string | undefined {
    open.delete(message);
    done.set(message, true);
    touched.add(message);
    if (!isWanted || !queue.add(trace)) return undefined;
    outbox.set(trace.traceId, JSON.stringify(trace));
    return trace.traceId;
  }

  const isChosen = (trace: OpenTrace) => hasRetried(trace) || fractionOf(trace.traceId) < sampleRatio;

  function giveUp(message: bigint, reason: PartialReason): void {
    const trace = open.get(message);
    if (!trace) return;
    mark(trace, reason);
    finish(message, trace, isChosen(trace));
  }

  return {
    /** Keeps an event. What is late begins no trace: the one it belongs to may have gone already. */
    add({ message, state, time, dueAt }: KeptEvent, row: DeliveryEvent, isLate: boolean): void {
      if (done.has(message)) return;
      const known = open.get(message);
      if (!known && isLate) return;
      const trace = known ?? openTrace(account, row);
      if (!known) open.set(message, trace);
      touched.add(message);
      if (isLate) trace.lateEvents += 1;
      // An end is kept whatever there is before it.
      const word = EVENT_STATES[state] ?? 'unknown';
      const isEnd = word === 'delivered' || word === 'failed' || word === 'cancelled';
      if (trace.events.length < MOST_EVENTS || (isEnd && trace.events.length < MOST_EVENTS * 2)) {
        trace.events.push({ state: word, time, dueAt, status: row.status });
      } else mark(trace, 'too_many_events');
      const [oldest] = open.size > MOST_OPEN ? open.keys() : [];
      if (oldest !== undefined) giveUp(oldest, 'evicted');
    },
    end(
      message: bigint,
      outcome: Outcome,
      { isCounted, isSlow }: { readonly isCounted: boolean; readonly isSlow: boolean },
    ): string | undefined {
      const trace = open.get(message);
      if (!trace) return undefined;
      return finish(message, trace, isCounted && (outcome !== 'delivered' || isSlow || isChosen(trace)));
    },
    giveUp,
    /** Events were lost: what is open may lack some. */
    markGap(): void {
      for (const [message, trace] of open) {
        mark(trace, 'gap');
        touched.add(message);
      }
    },
    /** Rows that changed since the last call, by key: an open trace, or one to export. */
    takeRows(): ReadonlyMap<string, string | null> {
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
