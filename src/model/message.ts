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

/** How many messages or workflow steps wait on one flow-control key. */
export interface FlowControlEntry {
  readonly key: string;
  readonly waitlistSize: number;
}
