import { STATUS_CODES } from 'node:http';
import { dlqIdOf, messageOf } from './dead-letter.ts';
import type { DlqEntry, EventState, Fields, LoggedEvent, Message } from './message.ts';

/** An element of `messages` in the answer of the DLQ list. Times: milliseconds since the Unix epoch. */
export interface DlqRow extends Fields {
  readonly dlqId: string;
  readonly messageId: string;
  readonly body: string;
  readonly createdAt: number;
  readonly notBefore: number;
  readonly callerIP: string;
  readonly state: 'failed';
  readonly responseStatus: number;
  readonly responseHeader?: Readonly<Record<string, readonly string[]>>;
  readonly responseBody?: string;
}

/** An element of `events` in the answer of the event list. */
export interface EventRow extends Fields {
  /** Milliseconds since the Unix epoch, as decimal digits. */
  readonly time: string;
  readonly messageId: string;
  readonly state: EventState;
  /** Base64. */
  readonly body: string;
  readonly responseStatus?: number;
  readonly error?: string;
  /** Milliseconds since the Unix epoch. */
  readonly nextDeliveryTime?: number;
}

const RESPONSE_HEADER = { 'Content-Type': ['text/plain; charset=utf-8'] } as const;

const bodyOf = ({ body, messageId }: Message) => body ?? `{"ref":"${messageId.slice(4, 16)}"}`;

export function dlqRow(entry: DlqEntry, time: number, seq: number): DlqRow {
  const place = { time, seq };
  const message = messageOf(entry, place);
  const { responseStatus } = entry;
  return {
    dlqId: dlqIdOf(place),
    messageId: message.messageId,
    ...message.fields,
    body: bodyOf(message),
    createdAt: message.createdAt,
    notBefore: message.notBefore,
    callerIP: message.callerIP,
    state: 'failed',
    responseStatus,
    ...(responseStatus === 0
      ? {}
      : { responseHeader: RESPONSE_HEADER, responseBody: STATUS_CODES[responseStatus] ?? 'failed' }),
  };
}

export function eventRow({ message, state, ...details }: LoggedEvent, time: number): EventRow {
  const { responseStatus, error, nextDeliveryTime } = details;
  return {
    time: String(time),
    messageId: message.messageId,
    state,
    ...message.fields,
    body: Buffer.from(bodyOf(message)).toString('base64'),
    ...(responseStatus === undefined ? {} : { responseStatus }),
    ...(error === undefined ? {} : { error }),
    ...(nextDeliveryTime === undefined ? {} : { nextDeliveryTime }),
  };
}
