import type { FailedRun } from './failure-callback.ts';
import type { Position } from './timeline.ts';

export const LOG_STATES = [
  'created',
  'active',
  'retry',
  'error',
  'delivered',
  'failed',
  'cancel_requested',
  'cancelled',
] as const;

export type LogState = (typeof LOG_STATES)[number];

/** Fields that messages to one destination share, named as in the API's rows. */
export interface Fields {
  readonly url: string;
  readonly method: string;
  readonly header: Readonly<Record<string, readonly string[]>>;
  readonly maxRetries: number;
  /** Empty without a topic: the documentation does not allow omitting this field. */
  readonly topicId: string;
  readonly topicName?: string;
  readonly endpointName?: string;
  readonly queueName?: string;
  readonly scheduleId?: string;
  readonly api?: string;
  readonly label?: string;
  readonly labels?: readonly string[];
  readonly callback?: string;
  readonly failureCallback?: string;
  readonly workflowUrl?: string;
  readonly flowControlKey?: string;
  readonly parallelism?: number;
  readonly rate?: number;
  /** In seconds. */
  readonly period?: number;
}

/** Times in ms since the Unix epoch. */
export interface EmulatedMessage {
  readonly fields: Fields;
  readonly messageId: string;
  readonly createdAt: number;
  readonly notBefore: number;
  readonly callerIP: string;
  /** Default: derived from the message id, to save memory. */
  readonly body?: string | undefined;
}

/** One entry of the event log. Its position in the timeline contains its time. */
export interface LoggedEvent {
  readonly message: EmulatedMessage;
  readonly state: LogState;
  readonly responseStatus?: number | undefined;
  readonly error?: string | undefined;
  readonly nextDeliveryTime?: number | undefined;
}

/** A failed message. Its position in the timeline contains the time of the failure. */
export interface FailedMessage {
  readonly message: EmulatedMessage;
  /** Status of the last attempt; 0 without a response. */
  readonly responseStatus: number;
  readonly responseBody?: string | undefined;
  readonly run?: FailedRun | undefined;
}

/** Returns an entry's id: its time of entry (ms), and a number unique in that millisecond. */
export function dlqIdOf({ time, seq }: Position): string {
  return `${time}-${seq}`;
}

/** Returns the position of a dead letter; undefined if its id is invalid. */
export function positionOf(dlqId: string): Position | undefined {
  const match = /^(\d{1,16})-(\d{1,16})$/.exec(dlqId);
  return match ? { time: Number(match[1]), seq: Number(match[2]) } : undefined;
}
