import { observeValue } from '../../metrics/family.ts';
import { EVENT_STATES, type EventState, type MessageOutcome } from '../../model/message.ts';
import { overlaps } from './expectations.ts';
import { byTime, isEnding, isResult, type KeptEvent } from './kept-event.ts';
import { close, type Gauges, type Memory, type OpenMessage, peakOf, type Suspect } from './memory.ts';
import { BUCKET_BOUNDS, type DeliveryResult, observeAttempt, observeWait } from './tally.ts';

/** Maximum number of messages with suspects. Beyond it, suspects are counted as redeliveries at once. */
const MAX_SUSPECTS = 10_000;

const rowOf = (message: bigint) => `redelivery/${message.toString(16)}`;

/** Counts a redelivery at `time`, unless that is before the floor. */
function countRedelivery({ checkpoint, destinations, touched }: Memory, destination: string, time: number): void {
  if (!checkpoint || time <= checkpoint.floor) return;
  const { row, tally } = destinations.of(destination, time);
  tally.redelivered += 1;
  touched.add(row);
}

/** Adds the start of an attempt. Starts must be in chronological order: a delayed start shows nothing about earlier attempts. */
function addStart(memory: Memory, { message, time, destination }: KeptEvent, open: OpenMessage): void {
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
 * Adds the result of an attempt, possibly a delayed one. A result in the same millisecond as a start counts for the attempts
 * before and after the start, because the order of the two events is unknown.
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

/** Counts the suspects up to `sweptTo`, and drops suspects with a possibly unreadable or lost result. */
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

export const MAX_OPEN = 100_000;

/** Limits of lifecycle tracking. Times are in milliseconds. */
export interface Limits {
  /** Maximum delay of an event that is processed in order. */
  readonly overlap: number;
  readonly maxOpen: number;
  /** Time from the due time of an open message until the message is overdue. */
  readonly onTimeWithin: number;
}

const CREATED = EVENT_STATES.indexOf('created');

/** Time from the due time of an open message until it is dropped (ms): its final event must have been lost. */
const DROPPED_AFTER = 14 * 86_400_000;

/** Tracks message lifecycles up to the watermark, in chronological order. Events before the floor are not counted. */
export function advanceTo(memory: Memory, watermark: number, limits: Limits): void {
  const { checkpoint } = memory;
  if (!checkpoint || watermark <= checkpoint.watermark) return;
  const due = memory.pending.filter(({ time }) => time <= watermark).sort(byTime);
  memory.pending = memory.pending.filter(({ time }) => time > watermark);
  checkpoint.watermark = watermark;
  for (const event of due) follow(memory, event, limits);
}

/** Adds an event to its message's lifecycle. `isInOrder`: all earlier events have been added. */
export function follow(memory: Memory, event: KeptEvent, limits: Limits, isInOrder = true): void {
  const { checkpoint, open } = memory;
  if (!checkpoint) return;
  const { message, time } = event;
  const known = open.get(message);
  const state = EVENT_STATES[event.state] as EventState;
  const endedAt = memory.ended.get(message);
  const hasEnded = endedAt !== undefined;
  checkpoint.lastFollowed = Math.max(checkpoint.lastFollowed, time);
  // A delayed creation event still counts for its schedule, even after later events of the message.
  if (event.schedules && (hasEnded ? state === 'created' : known?.createdAt === undefined || state !== 'created')) {
    memory.schedules.follow(event, known?.createdAt);
  }
  if (isResult(event.state)) addResult(memory, event);
  // Delayed or repeated events must not reopen the message.
  if (hasEnded) {
    const isRedelivery = state === 'active' && time > endedAt && time - endedAt <= limits.overlap;
    if (isRedelivery) countRedelivery(memory, event.destination, time);
    return;
  }
  memory.traces?.follow({ message, state, time }, counts(memory, time));
  if (state === 'created') begin(memory, event, known);
  else if (state === 'active') startAttempt(memory, event, known, isInOrder);
  else if (state === 'error' && known) {
    endAttempt(memory, known, 'error', time);
    memory.touchedOpen.add(message);
    // If the creation time is unknown, only attempts are tracked.
    if (known.createdAt === undefined) close(memory, message, known);
  } else if (isEnding(event.state)) end(memory, event, { known, outcome: state as MessageOutcome }, limits);
}

const counts = ({ checkpoint }: Memory, time: number) => checkpoint !== undefined && time > checkpoint.floor;

function put({ open, touchedOpen }: Memory, message: bigint, opened: OpenMessage): void {
  open.set(message, opened);
  touchedOpen.add(message);
}

function begin(memory: Memory, { message, time, dueAt }: KeptEvent, known: OpenMessage | undefined): void {
  if (known?.createdAt !== undefined) return;
  const fresh = { activeAt: undefined, unansweredAt: undefined, attempts: 0, overdue: false, isStored: false };
  put(memory, message, { ...fresh, ...known, createdAt: time, dueAt: Math.max(time, dueAt) });
}

function startAttempt(memory: Memory, event: KeptEvent, known: OpenMessage | undefined, isInOrder: boolean): void {
  const { message, time, destination } = event;
  if (known) {
    const isFirst = known.attempts === 0 && known.createdAt !== undefined;
    if (isFirst && counts(memory, time)) {
      const { row, tally } = memory.destinations.of(destination, time);
      observeWait([memory.log, tally], 'queueWait', time - known.dueAt);
      memory.touched.add('log').add(row);
    }
    if (isInOrder) addStart(memory, event, known);
    known.attempts += 1;
    known.activeAt = time;
    memory.touchedOpen.add(message);
  } else {
    const unknown = { createdAt: undefined, dueAt: time, activeAt: time, attempts: 1, overdue: false };
    put(memory, message, { ...unknown, unansweredAt: isInOrder ? time : undefined, isStored: false });
  }
}

function endAttempt(memory: Memory, open: OpenMessage, result: DeliveryResult, time: number): void {
  if (open.activeAt === undefined) return;
  if (counts(memory, time)) observeAttempt(memory.log, result, time - open.activeAt);
  memory.touched.add('log');
  open.activeAt = undefined;
}

/** Whether an open message is overdue at `time` and became overdue after the floor. */
const isOverdue = ({ checkpoint }: Memory, { dueAt }: OpenMessage, time: number, { onTimeWithin }: Limits) =>
  checkpoint !== undefined && time > dueAt + onTimeWithin && dueAt + onTimeWithin > checkpoint.floor;

function end(
  memory: Memory,
  { message, time, destination }: KeptEvent,
  { known, outcome }: { readonly known: OpenMessage | undefined; readonly outcome: MessageOutcome },
  limits: Limits,
): void {
  const { log, ended, touched } = memory;
  ended.set(message, time);
  if (known) {
    if (outcome !== 'cancelled') endAttempt(memory, known, outcome === 'delivered' ? 'success' : 'error', time);
    close(memory, message, known);
  }
  if (!counts(memory, time)) return;
  const { row, tally } = memory.destinations.of(destination, time);
  tally.finished[outcome] += 1;
  touched.add(row).add('log');
  if (known?.createdAt === undefined) {
    log.untracked.unknown_start += 1;
    return;
  }
  if (outcome === 'delivered') observeWait([log, tally], 'timeToDeliver', time - known.dueAt);
  observeValue(log.attempts[outcome], BUCKET_BOUNDS.attempts, known.attempts);
  const becomesOverdue = !known.overdue && isOverdue(memory, known, time, limits);
  if (becomesOverdue) log.overdue += 1;
  const isInTime = time <= known.dueAt + limits.onTimeWithin;
  const endsBeforeTarget = !known.overdue && isInTime && outcome !== 'cancelled';
  if (becomesOverdue || endsBeforeTarget) log.due += 1;
  // The end of a message that is already counted as overdue may have been delayed in the log.
  if (outcome === 'delivered' && isInTime) log.onTime += 1;
}

/** Detects overdue messages and missed starts at `now`. Drops old messages, and the oldest ones above the limit. */
export function detectMissing(memory: Memory, now: number, limits: Limits): void {
  for (const [message, known] of memory.open) {
    if (memory.open.size > limits.maxOpen || now > known.dueAt + DROPPED_AFTER) {
      close(memory, message, known);
      memory.traces?.abandon(message);
      memory.log.untracked.evicted += 1;
      memory.touched.add('log');
    } else if (known.createdAt !== undefined && !known.overdue && isOverdue(memory, known, now, limits)) {
      known.overdue = true;
      memory.log.overdue += 1;
      memory.log.due += 1;
      memory.touched.add('log');
      memory.touchedOpen.add(message);
    }
  }
  memory.schedules.advanceTo(now);
}

/** Counts the messages without an end in the log read so far. */
export function inFlight(memory: Memory): Omit<Gauges, 'recent'> {
  const { checkpoint, open, pending, ended } = memory;
  const over = new Set(pending.filter(({ state }) => isEnding(state)).map(({ message }) => message));
  let count = 0;
  let late = 0;
  let oldest: number | undefined;
  const add = (createdAt: number) => {
    count += 1;
    if (oldest === undefined || createdAt < oldest) oldest = createdAt;
  };
  for (const [message, { createdAt, overdue }] of open) {
    if (createdAt === undefined || over.has(message)) continue;
    add(createdAt);
    late += Number(overdue);
  }
  const created = new Map<bigint, number>();
  for (const { message, state, time } of pending) {
    const isOpen = state === CREATED && !over.has(message) && !ended.has(message);
    if (isOpen && open.get(message)?.createdAt === undefined) created.set(message, time);
  }
  for (const time of created.values()) add(time);
  const newest = checkpoint?.newest;
  const lag = checkpoint && counts(memory, newest ?? 0) ? peakOf(checkpoint.lags) : undefined;
  return { newest, lag, inFlight: count, oldestInFlight: oldest, overdue: late };
}
