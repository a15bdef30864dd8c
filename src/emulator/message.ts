import type { FailedRun } from './failure-callback.ts';
import { messageId } from './random.ts';
import type { Position } from './timeline.ts';

export const STATES = [
  'created',
  'active',
  'retry',
  'error',
  'delivered',
  'failed',
  'cancel_requested',
  'cancelled',
] as const;

export type EventState = (typeof STATES)[number];

/** What all messages to one destination have in common, under the names the rows have. Shared, never changed. */
export interface Fields {
  readonly url: string;
  readonly method: string;
  readonly header: Readonly<Record<string, readonly string[]>>;
  readonly maxRetries: number;
  /** Empty when the message was not published to a topic: the field is documented without a word that it may be absent. */
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
  /** Seconds. */
  readonly period?: number;
}

/** One message. Times: milliseconds since the Unix epoch. */
export interface Message {
  readonly fields: Fields;
  readonly messageId: string;
  readonly createdAt: number;
  readonly notBefore: number;
  readonly callerIP: string;
  /** Absent: made from the message id when a row is written, so that it takes no memory. */
  readonly body?: string | undefined;
}

/** One line of the event log; its time is its place in the timeline. Times: milliseconds since the Unix epoch. */
export interface LoggedEvent {
  readonly message: Message;
  readonly state: EventState;
  readonly responseStatus?: number | undefined;
  readonly error?: string | undefined;
  readonly nextDeliveryTime?: number | undefined;
}

/** A message that failed; the time of its failing is its place in the timeline. */
export interface DlqEntry {
  readonly fields: Fields;
  readonly callerIP: string;
  /** Status of the last attempt; 0 if the destination did not answer. */
  readonly responseStatus: number;
  /** Absent: the words of the status. */
  readonly responseBody?: string | undefined;
  readonly run?: FailedRun | undefined;
  /** The message of the entry at this place of the timeline. */
  messageAt(place: Position): Message;
}

export function deadLetter(
  message: Message,
  responseStatus: number,
  { run, responseBody }: Pick<DlqEntry, 'run' | 'responseBody'> = {},
): DlqEntry {
  const { fields, callerIP } = message;
  return { fields, callerIP, responseStatus, responseBody, run, messageAt: () => message };
}

/** A dead letter from before the workload, shared by many places of the timeline to save memory. `lifetimeMs`: from creation to failure. */
export function sharedDeadLetter(
  { fields, callerIP, responseStatus }: Pick<DlqEntry, 'fields' | 'callerIP' | 'responseStatus'>,
  seed: number,
  lifetimeMs: number,
): DlqEntry {
  return {
    fields,
    callerIP,
    responseStatus,
    messageAt({ time, seq }) {
      const createdAt = time - lifetimeMs;
      return { fields, callerIP, createdAt, notBefore: createdAt, messageId: messageId(seed, 'p', seq) };
    },
  };
}

/** The identifier of an entry: its time of entry in milliseconds, and a number that tells it from others of that millisecond. */
export function dlqIdOf({ time, seq }: Position): string {
  return `${time}-${seq}`;
}

/** Where the entry of this identifier is; undefined when the text is no identifier. */
export function positionOf(dlqId: string): Position | undefined {
  const match = /^(\d{1,16})-(\d{1,16})$/.exec(dlqId);
  return match ? { time: Number(match[1]), seq: Number(match[2]) } : undefined;
}
