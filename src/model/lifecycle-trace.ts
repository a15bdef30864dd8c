import { hashedId } from '../kit/hash.ts';
import { boundText } from '../kit/text.ts';
import type { EventState } from './message.ts';

const MAX_ID = 200;

export const boundId = (messageId: string) => boundText(messageId, MAX_ID);

/** Returns the trace id of a message: 32 hexadecimal digits, the same in every process. */
export const traceIdOf = (account: string, messageId: string) => hashedId(['message', account, boundId(messageId)], 32);

/** Why a message's trace is incomplete. */
export type PartialReason = 'gap' | 'no_end' | 'evicted' | 'too_many_events';

/** One event of a message. Times are in milliseconds since the Unix epoch. */
export interface TracedEvent {
  readonly state: EventState;
  readonly time: number;
  /** Due time of the next delivery; 0 if unknown. */
  readonly dueAt: number;
  /** HTTP status from the destination; 0 if it did not respond. */
  readonly status?: number | undefined;
}

/** Lifecycle of one message from the event log, ready for export as a trace. */
export interface LifecycleTrace {
  readonly traceId: string;
  readonly messageId: string;
  /** In any order, possibly with duplicates. */
  readonly events: readonly TracedEvent[];
  readonly host?: string | undefined;
  /** Scheme, host and port of the destination. */
  readonly origin?: string | undefined;
  readonly method?: string | undefined;
  readonly topic?: string | undefined;
  readonly queue?: string | undefined;
  readonly schedule?: string | undefined;
  readonly hasFlowControlKey: boolean;
  /** The publisher's W3C trace context. */
  readonly traceparent?: string | undefined;
  /** Number of events listed after later events had been processed. */
  readonly lateEvents: number;
  readonly partial: readonly PartialReason[];
}

/** Counts one account's traces that wait for export. The traces themselves are in the store. */
export interface TraceQueue {
  /** Sets the number of rows in the store at startup. */
  restore(count: number): void;
  /** Adds a trace. If the queue is full, counts the trace as dropped and returns false. */
  add(trace: LifecycleTrace): boolean;
}
