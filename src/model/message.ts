/** States a message passes through in the event log. `unknown` stands for a state this version has no word for. */
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

/** One line of the event log. `time`: milliseconds since the Unix epoch. */
export interface DeliveryEvent {
  readonly messageId: string;
  readonly state: EventState;
  readonly time: number;
}

/** One message in the dead-letter queue. `createdAt`: milliseconds since the Unix epoch; absent where the service reports none. */
export interface DlqEntry {
  readonly id: string;
  readonly createdAt: number | undefined;
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
