import type { SpanContext } from './message-span.ts';

/** States in the event log. `unknown`: any other state. Stored rows depend on the order: append new states. */
export const EVENT_STATES = [
  'created',
  'active',
  'retry',
  'error',
  'delivered',
  'failed',
  'cancel_requested',
  'cancelled',
  'unknown',
] as const;

export type EventState = (typeof EVENT_STATES)[number];

/** Order of states with the same timestamp. */
export const EVENT_SEQUENCE: readonly EventState[] = [
  'created',
  'active',
  'error',
  'retry',
  'cancel_requested',
  'failed',
  'delivered',
  'cancelled',
  'unknown',
];

export const MESSAGE_OUTCOMES = ['delivered', 'failed', 'cancelled'] as const;
export type MessageOutcome = (typeof MESSAGE_OUTCOMES)[number];

export const isEnd = (state: EventState): state is MessageOutcome =>
  MESSAGE_OUTCOMES.some(outcome => outcome === state);

/** Part of every row that the service lists. */
export interface ListedRow {
  /** Whether a number, time or flag of the row is unreadable and therefore undefined. */
  readonly isIncomplete?: true | undefined;
}

/** One line of the event log. Times are in milliseconds since the Unix epoch. */
export interface DeliveryEvent extends ListedRow {
  readonly messageId: string;
  readonly state: EventState;
  readonly time: number;
  /** Due time of the next delivery. */
  readonly dueAt?: number | undefined;
  readonly url?: string | undefined;
  readonly topic?: string | undefined;
  readonly queue?: string | undefined;
  readonly schedule?: string | undefined;
  readonly labels?: readonly string[] | undefined;
  readonly workflowUrl?: string | undefined;
  readonly flowControlKey?: string | undefined;
  /** HTTP status from the destination; 0 if it did not respond. */
  readonly status?: number | undefined;
  /** HTTP method of the message. Only read for traces and look-ups. */
  readonly method?: string | undefined;
  /** The publisher's span, if the message has a sampled W3C trace context. No other header is read. Only read for traces and look-ups. */
  readonly publisher?: SpanContext | undefined;
  /** The service's explanation of a failed attempt, bounded and redacted. Only look-ups read it. */
  readonly error?: string | undefined;
}

export const CALLBACK_STATES = ['in_progress', 'success', 'fail', 'canceled', 'unknown'] as const;
export type CallbackState = (typeof CALLBACK_STATES)[number];

/** States in which a callback has ended. */
export const CALLBACK_ENDS = ['success', 'fail', 'canceled'] as const satisfies readonly CallbackState[];
export type CallbackEnd = (typeof CALLBACK_ENDS)[number];

/** One message in the dead-letter queue. Unreported fields are undefined. Times are in milliseconds since the Unix epoch. */
export interface DlqEntry extends ListedRow {
  /** The dlqId, or the messageId if the row has no dlqId. */
  readonly id: string;
  readonly dlqId: string | undefined;
  readonly messageId: string | undefined;
  readonly createdAt: number | undefined;
  /** Parsed from the dlqId. */
  readonly enteredAt: number | undefined;
  readonly url: string | undefined;
  readonly method: string | undefined;
  readonly state: string | undefined;
  /** Name of the topic, else its id. */
  readonly topic: string | undefined;
  readonly topicName?: string | undefined;
  readonly queue: string | undefined;
  readonly schedule: string | undefined;
  /** IP address of the publisher. */
  readonly callerIp?: string | undefined;
  readonly flowControlKey: string | undefined;
  readonly api: string | undefined;
  readonly labels: readonly string[];
  /** HTTP status of the last attempt; 0 if there was no response. */
  readonly responseStatus: number | undefined;
  /** Hash of the last response's body without numbers, ids and quotations. */
  readonly errorClass?: string | undefined;
  readonly workflowRunId: string | undefined;
  readonly workflowUrl: string | undefined;
  /** Creation of the workflow run. */
  readonly workflowCreatedAt?: number | undefined;
  readonly failureCallbackUrl?: string | undefined;
  /** Undefined for messages without a failure callback. */
  readonly callbackState: CallbackState | undefined;
  /** Message id of the failure callback, a new one for each run. Few services report it. */
  readonly callbackMessageId?: string | undefined;
  readonly maxRetries: number | undefined;
}

/** Limits of a flow-control key that an operator can pin. */
export const PINNABLE = ['parallelism', 'rate'] as const;

export const KEY_LIMITS = ['parallelism', 'rate', 'period'] as const;
export type KeyLimit = (typeof KEY_LIMITS)[number];

/** One flow-control key. Unreported fields are undefined. */
export interface FlowControlEntry extends ListedRow {
  readonly key: string;
  /** Number of messages or workflow steps waiting on the key. */
  readonly waitlistSize?: number | undefined;
  /** Limit and current number of parallel deliveries. */
  readonly parallelismLimit?: number | undefined;
  readonly parallelismInUse?: number | undefined;
  /** Limit on deliveries started per period, and their number in the current period; undefined if that period has ended. */
  readonly rateLimit?: number | undefined;
  readonly rateUsed?: number | undefined;
  readonly ratePeriodSeconds?: number | undefined;
  readonly paused?: boolean | undefined;
  /** Pinned limits. */
  readonly pinned?: readonly (typeof PINNABLE)[number][] | undefined;
}
