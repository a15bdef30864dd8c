import { overlaps } from './expectations.ts';
import type { KeptEvent } from './kept-event.ts';
import type { Memory, OpenMessage, Suspect } from './memory.ts';

/** Maximum number of messages with suspects. Beyond it, attempts are counted at once. */
const MAX_SUSPECTS = 10_000;

const rowOf = (message: bigint) => `redelivery/${message.toString(16)}`;

/** Counts a redelivery that cannot be refuted: one after the message's end. */
export function countRedelivery(
  { checkpoint, destinations, touched }: Memory,
  destination: string,
  time: number,
): void {
  if (!checkpoint || time <= checkpoint.floor) return;
  const { row, tally } = destinations.of(destination, time);
  tally.redelivered += 1;
  touched.add(row);
}

/** Adds the start of an attempt. Starts must be in chronological order: a delayed one shows nothing about the previous attempt. */
export function addStart(memory: Memory, { message, time, destination }: KeptEvent, open: OpenMessage): void {
  const { checkpoint, suspects, touched } = memory;
  const { unansweredAt: previous } = open;
  open.unansweredAt = time;
  if (previous === undefined || overlaps(checkpoint?.unread, previous, time)) return;
  if (suspects.size >= MAX_SUSPECTS && !suspects.has(message)) {
    countRedelivery(memory, destination, time);
    return;
  }
  suspects.set(message, [...(suspects.get(message) ?? []), [previous, time, destination]]);
  touched.add(rowOf(message));
}

/**
 * Adds the result of an attempt, possibly a delayed one. A result in the millisecond of a start counts for both attempts, because
 * their order is unknown.
 */
export function addResult(memory: Memory, { message, time }: KeptEvent): void {
  const open = memory.open.get(message);
  if (open?.unansweredAt !== undefined && open.unansweredAt <= time) {
    open.unansweredAt = undefined;
    memory.touchedOpen.add(message);
  }
  const suspects = memory.suspects.get(message);
  if (suspects) replace(memory, message, suspects, ([previous, start]) => time < previous || time > start);
}

function replace(
  { suspects, touched }: Memory,
  message: bigint,
  before: readonly Suspect[],
  remains: (suspect: Suspect) => boolean,
): void {
  const remaining = before.filter(remains);
  if (remaining.length === before.length) return;
  if (remaining.length === 0) suspects.delete(message);
  else suspects.set(message, remaining);
  touched.add(rowOf(message));
}

/** Counts the suspects up to the time to which the log has been swept, and drops those whose result may be unreadable or lost. */
export function settleRedeliveries(memory: Memory): void {
  if (!memory.checkpoint) return;
  const { sweptTo, unread } = memory.checkpoint;
  for (const [message, all] of memory.suspects) {
    replace(memory, message, all, ([previous, start, destination]) => {
      if (overlaps(unread, previous, start)) return false;
      if (start <= sweptTo) countRedelivery(memory, destination, start);
      return start > sweptTo;
    });
  }
}
