/** States in the event log. `unknown`: any other state. Stored rows depend on the order: new states go to the end. */
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

/** The states in an order in which they can have happened at the same millisecond. */
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

export const OUTCOMES = ['delivered', 'failed', 'cancelled'] as const;
export type Outcome = (typeof OUTCOMES)[number];

export const isEnd = (state: EventState): boolean => OUTCOMES.some(outcome => outcome === state);

/** One line of the event log. Times: milliseconds since the Unix epoch. */
export interface DeliveryEvent {
  readonly messageId: string;
  readonly state: EventState;
  readonly time: number;
  /** When the next delivery is due, where the line says so. */
  readonly dueAt?: number | undefined;
  readonly url?: string | undefined;
  readonly topic?: string | undefined;
  readonly queue?: string | undefined;
  readonly schedule?: string | undefined;
  /** The first of the message's labels. */
  readonly label?: string | undefined;
  readonly workflowUrl?: string | undefined;
  readonly flowControlKey?: string | undefined;
  /** Of the destination's answer; 0 when there was none, undefined where the line does not say. */
  readonly status?: number | undefined;
  /** Only where it was asked for. */
  readonly detail?: EventDetail | undefined;
}

/** What traces need to know of an event beyond what is counted. */
export interface EventDetail {
  readonly method: string | undefined;
  readonly hasFlowControlKey: boolean;
  /** The publisher's W3C trace context, where it is a valid one. No other header is read. */
  readonly traceparent: string | undefined;
}

export const CALLBACK_STATES = ['in_progress', 'success', 'fail', 'canceled', 'unknown'] as const;
export type CallbackState = (typeof CALLBACK_STATES)[number];

/** One message in the dead-letter queue. What the service does not report is undefined; times are milliseconds since the Unix epoch. */
export interface DlqEntry {
  /** The dlqId, or the messageId where there is none. */
  readonly id: string;
  readonly dlqId: string | undefined;
  readonly messageId: string | undefined;
  readonly createdAt: number | undefined;
  /** When it came into the queue, as far as the dlqId tells. */
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
  /** Of the last attempt; 0 when there was no answer. */
  readonly responseStatus: number | undefined;
  /** Stands for what the last answer said, without its numbers, ids and quotations; undefined where it said nothing. */
  readonly errorClass?: string | undefined;
  readonly workflowRunId: string | undefined;
  readonly workflowUrl: string | undefined;
  readonly failureCallbackUrl?: string | undefined;
  /** Undefined for what has no failure callback. */
  readonly callbackState: CallbackState | undefined;
  /** Of the message that is the failure callback: another each time it is run. Few services tell. */
  readonly callbackMessageId?: string | undefined;
  readonly maxRetries: number | undefined;
}

/** One flow-control key. What the service does not report is undefined. */
export interface FlowControlEntry {
  readonly key: string;
  /** Messages or workflow steps that wait on it. */
  readonly waitlistSize: number;
  /** Deliveries at the same time: allowed, and under way. */
  readonly parallelismLimit?: number | undefined;
  readonly parallelismInUse?: number | undefined;
  /** Deliveries in one period of so many seconds: allowed, and started. */
  readonly rateLimit?: number | undefined;
  readonly rateUsed?: number | undefined;
  readonly ratePeriodSeconds?: number | undefined;
  readonly paused?: boolean | undefined;
}
