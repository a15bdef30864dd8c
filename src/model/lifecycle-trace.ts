import { hashedId } from '../kit/hash.ts';
import { boundText } from '../kit/text.ts';
import type { EventState } from './message.ts';

const LONGEST_ID = 200;

export const boundId = (messageId: string) => boundText(messageId, LONGEST_ID);

/** The id of a message's trace: 32 hexadecimal digits, the same wherever it is asked for. */
export const traceIdOf = (account: string, messageId: string) => hashedId(['message', account, boundId(messageId)], 32);

/** Why a message's trace is not its whole life. */
export type PartialReason = 'gap' | 'no_end' | 'evicted' | 'too_many_events';

/** One event of a message. Times: milliseconds since the Unix epoch. */
export interface TracedEvent {
  readonly state: EventState;
  readonly time: number;
  /** When the next delivery is due; 0 when the log does not say. */
  readonly dueAt: number;
  /** HTTP status of the destination's answer; 0 when there was none. */
  readonly status?: number | undefined;
}

/** The lifecycle of one message by the event log, ready to be exported as a trace. */
export interface LifecycleTrace {
  /** 32 hexadecimal digits, from the account and the message alone. */
  readonly traceId: string;
  readonly messageId: string;
  /** In any order, repeated or not. */
  readonly events: readonly TracedEvent[];
  readonly host?: string | undefined;
  /** Scheme, host and port of the destination. */
  readonly origin?: string | undefined;
  readonly method?: string | undefined;
  readonly topic?: string | undefined;
  readonly queue?: string | undefined;
  readonly schedule?: string | undefined;
  readonly hasFlowControlKey: boolean;
  /** The publisher's W3C trace context, as it stood in the message's headers. */
  readonly traceparent?: string | undefined;
  /** Events that came into the log after those that follow them were judged. */
  readonly lateEvents: number;
  readonly partial: readonly PartialReason[];
}

/** What waits of one account until the receiver of spans took it. The rows are in the store; this keeps their number. */
export interface TraceQueue {
  /** So many waited when the account's memory was read from the store. */
  restore(count: number): void;
  /** Makes room for one more. False where there is none: the trace is counted as dropped. */
  add(trace: LifecycleTrace): boolean;
}
