import type { FailedRun } from './failure-callback.ts';
import type { DlqEntry, Fields, Message } from './message.ts';
import { messageId } from './random.ts';
import type { Position } from './timeline.ts';

export function fieldsOf(entry: DlqEntry): Fields {
  return 'message' in entry ? entry.message.fields : entry.fields;
}

export function callerOf(entry: DlqEntry): string {
  return 'message' in entry ? entry.message.callerIP : entry.callerIP;
}

export function runOf(entry: DlqEntry): FailedRun | undefined {
  return 'message' in entry ? entry.run : undefined;
}

export function messageIdOf(entry: DlqEntry, seq: number): string {
  return 'message' in entry ? entry.message.messageId : messageId(entry.seed, 'p', seq);
}

/** The message of an entry at this place of the timeline. */
export function messageOf(entry: DlqEntry, { time, seq }: Position): Message {
  if ('message' in entry) return entry.message;
  const createdAt = time - entry.lifetimeMs;
  const { fields, callerIP } = entry;
  return { fields, callerIP, createdAt, notBefore: createdAt, messageId: messageIdOf(entry, seq) };
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
