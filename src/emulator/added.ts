import type { Fields, LoggedEvent, Message } from './message.ts';

type MessageSeed = Partial<Omit<Message, 'fields'>> & Partial<Fields>;

/** A dead letter to add: fields of its row; whatever is left out gets a plain value. */
export interface DlqSeed extends MessageSeed {
  /** When it entered the queue, milliseconds since the Unix epoch. */
  readonly enteredAt?: number;
  readonly responseStatus?: number;
}

/** An event to add: fields of its row; whatever is left out gets a plain value. */
export interface EventSeed extends MessageSeed, Partial<Omit<LoggedEvent, 'message'>> {
  /** Milliseconds since the Unix epoch. */
  readonly time?: number;
}

const PLAIN: Fields = {
  url: 'https://added.example.com/',
  method: 'POST',
  header: { 'Content-Type': ['text/plain'] },
  maxRetries: 3,
  topicId: '',
};

/** The message of an added row: created at `time`, with this id, unless the row says otherwise. */
export function messageFrom(row: MessageSeed, id: string, time: number): Message {
  const { messageId = id, createdAt = time, notBefore = createdAt, callerIP = '192.0.2.1', body, ...given } = row;
  const labels = given.labels ?? (given.label === undefined ? [] : [given.label]);
  const [label] = labels;
  const fields = { ...PLAIN, ...given, ...(label === undefined ? {} : { label, labels }) };
  return { fields, messageId, createdAt, notBefore, callerIP, body };
}
