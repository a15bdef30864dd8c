import { BoundedMap } from '../../kit/bounded-map.ts';
import { MINUTE } from '../../kit/duration.ts';
import { recordOf } from '../../kit/record.ts';
import { type DeliveryEvent, EVENT_STATES, type EventState } from '../../model/message.ts';
import type { Destinations } from './destinations.ts';
import type { TimeSpan } from './expectations.ts';
import type { KeptEvent } from './kept-event.ts';
import type { Schedules } from './schedules.ts';
import { countEvent, type LogTally } from './tally.ts';
import type { TraceCollector } from './traces.ts';

/** Length of a window of a peak (ms). */
const WINDOW = 600_000;

/** Maximum of a value over the last one to two windows. */
interface Peak {
  since: number;
  /** Maximum in the current window, and in the previous one. */
  now: number;
  before: number;
}

export const noPeak = (since: number): Peak => ({ since, now: 0, before: 0 });

export const peakOf = ({ now, before }: Peak) => Math.max(now, before);

export function notePeak(peak: Peak, value: number, at: number): void {
  // The clock may have been set back.
  peak.since = Math.min(peak.since, at);
  if (at - peak.since >= WINDOW) Object.assign(peak, { since: at, before: peak.now, now: 0 });
  peak.now = Math.max(peak.now, value);
}

export type RecentEvents = ReturnType<typeof createRecentEvents>;

/** Number of slices into which a window is divided, so that there are at most 90,000 counts (about 6 MB). */
const SLICES = 10_000;
/** Upper bound of the number of states: a key combines slice and state. */
const STATES = 16;

/** Counts the events of a window (ms) by state. */
export function createRecentEvents(window: number) {
  const slice = Math.max(1, Math.ceil(window / SLICES));
  const counts = new Map<number, number>();
  const sums: number[] = Array(EVENT_STATES.length).fill(0);
  return {
    /** `state`: index in EVENT_STATES; `time`: milliseconds. */
    add(state: number, time: number): void {
      const key = Math.floor(time / slice) * STATES + state;
      counts.set(key, (counts.get(key) ?? 0) + 1);
      (sums[state] as number) += 1;
    },
    /** Drops events before `from` and returns the counts of the rest. */
    since(from: number): Record<EventState, number> {
      for (const [key, count] of counts) {
        if ((Math.floor(key / STATES) + 1) * slice > from) continue;
        counts.delete(key);
        (sums[key % STATES] as number) -= count;
      }
      return recordOf(EVENT_STATES, (_, index) => sums[index] as number);
    },
  };
}

/** Time of the last delivery of each queue that the log lists (ms since the Unix epoch); 0 without a known delivery. */
export type QueueDeliveries = ReadonlyMap<string, number>;

/** Maximum number of queues. The queues with the newest deliveries are kept. */
const MAX_QUEUES = 1000;

export const createQueueDeliveries = () => new BoundedMap<string, number>(MAX_QUEUES);

type Deliveries = ReturnType<typeof createQueueDeliveries>;

/** Records the time of a delivery from a queue. Reading an event again changes nothing. */
export function noteEvent(deliveries: Deliveries, { queue, state, time }: DeliveryEvent): void {
  const at = state === 'delivered' ? time : 0;
  if (queue !== undefined && at > (deliveries.get(queue) ?? -1)) deliveries.set(queue, at);
}

export interface OpenMessage {
  /** Undefined if the message was created before the first read of the log. */
  readonly createdAt: number | undefined;
  /** Due time, from which waiting times are measured. */
  readonly dueAt: number;
  activeAt: number | undefined;
  /** Start of the last attempt, if it was read in order and no result was listed since. */
  unansweredAt: number | undefined;
  attempts: number;
  overdue: boolean;
  isStored: boolean;
}

/**
 * Attempts that began while the previous one had no result. The log may still list that result, so they are counted when the
 * sweep has read their time again.
 */
export type Suspects = Map<bigint, readonly Suspect[]>;
/** Starts of two attempts without a result in between (ms since the Unix epoch), and the destination of the second. */
export type Suspect = readonly [previous: number, start: number, destination: string];

/** Progress of reading the log. Times are in milliseconds since the Unix epoch. */
export interface Checkpoint {
  /** Time at which counting starts: earlier events are not counted. */
  floor: number;
  newest: number | undefined;
  /** Identities of all events from this time on are stored. Older events cannot be deduplicated, so the tail ignores them. */
  dedupeFrom: number;
  /** End of the range of the last complete read. Like all times here, by the service's clock. */
  readTo: number;
  /** End of the range of the last read with new events. */
  foundAt: number;
  /** Peak lag of recent events (ms): time from an event to the end of a read that did not list it yet. */
  lags: Peak;
  /** End of the last complete read that included everything that had become older than the overlap. */
  settledAt?: number | undefined;
  /**
   * Time up to which message lifecycles are computed. Later events have to wait, because delayed events may still precede them.
   */
  watermark: number;
  /** Time of the latest event that was added to a lifecycle. */
  lastFollowed: number;
  /** Time up to which the sweep has read the log again. */
  sweptTo: number;
  nextChunk: number;
  /** The latest span of the log that may lack events. */
  unread?: TimeSpan | undefined;
  /** Option `destination` when the checkpoint was written. */
  destination: string;
}

export function firstCheckpoint(now: number, from: number, destination: string): Checkpoint {
  return {
    floor: now,
    newest: undefined,
    dedupeFrom: from,
    readTo: now,
    foundAt: now,
    lags: noPeak(now),
    watermark: 0,
    lastFollowed: now,
    sweptTo: now,
    nextChunk: 0,
    destination,
  };
}

/** Values of gauges at the last complete read of the log. Times are in milliseconds since the Unix epoch. */
export interface Gauges {
  readonly recent: Readonly<Record<EventState, number>>;
  readonly newest: number | undefined;
  /** Peak lag of recent events (ms). */
  readonly lag: number | undefined;
  readonly inFlight: number;
  readonly oldestInFlight: number | undefined;
  readonly overdue: number;
}

export interface Memory {
  checkpoint: Checkpoint | undefined;
  readonly log: LogTally;
  readonly destinations: Destinations;
  readonly destinationOption: string;
  readonly destinationOf: (event: DeliveryEvent) => string;
  readonly schedules: Schedules;
  readonly open: Map<bigint, OpenMessage>;
  readonly suspects: Suspects;
  /** Events kept for deduplication, by the number of the read that found them. */
  readonly chunks: Map<number, readonly KeptEvent[]>;
  pending: readonly KeptEvent[];
  /** End times of messages, from `endsKeptFrom` on. */
  readonly ended: Map<bigint, number>;
  /** Identities of counted events by minute, for the sweep. */
  readonly minutes: Map<number, BigUint64Array>;
  /** Start of the range that was read last, and number of unreadable rows in this range. */
  unreadable: { readonly from: number; readonly rows: number } | undefined;
  recent: RecentEvents | undefined;
  gauges: Gauges | undefined;
  /** Length of a range (ms), adapted to the density of the log. */
  span: number;
  readonly traces: TraceCollector | undefined;
  /** Deliveries since this process began to read the log at `from` (ms since the Unix epoch). */
  readonly queues: { from: number; readonly deliveries: Deliveries };
  savedAt: number;
  readonly touched: Set<string>;
  readonly touchedOpen: Set<bigint>;
}

export function countByDestination(
  { destinations, touched }: Memory,
  { destination, state, statusClass, time }: KeptEvent,
): void {
  const { row, tally } = destinations.of(destination, time);
  countEvent(tally, state, statusClass);
  touched.add(row);
}

export function close({ open, touchedOpen }: Memory, message: bigint, known: OpenMessage): void {
  open.delete(message);
  // Most messages start and end between two commits and never have a row.
  if (known.isStored) touchedOpen.add(message);
  else touchedOpen.delete(message);
}

export function noteGap({ log, traces, touched }: Memory): void {
  log.gaps += 1;
  traces?.markGap();
  touched.add('log');
}

/** Notes that a part of the log may lack events. */
export function markUnread({ checkpoint, schedules }: Memory, span: TimeSpan): void {
  schedules.markUnread(span);
  if (!checkpoint) return;
  const { unread = span, watermark } = checkpoint;
  // Events of the previous part may still be pending.
  checkpoint.unread = { from: unread.to > watermark ? Math.min(unread.from, span.from) : span.from, to: span.to };
}

export function addToMinutes({ minutes, touched }: Memory, events: readonly KeptEvent[]): void {
  for (const [minute, added] of Map.groupBy(events, ({ time }) => Math.floor(time / MINUTE))) {
    const before = minutes.get(minute) ?? new BigUint64Array();
    const all = new BigUint64Array(before.length + added.length);
    all.set(before);
    for (const [index, { identity }] of added.entries()) all[before.length + index] = identity;
    minutes.set(minute, all);
    touched.add(`minute/${minute}`);
  }
}

/** Maximum number of identities kept for the sweep. Beyond it, the oldest minutes are not swept. */
const MAX_IN_MINUTES = 2_000_000;

export function boundMinutes(memory: Memory): void {
  const { minutes, checkpoint } = memory;
  let kept = 0;
  for (const { length } of minutes.values()) kept += length;
  for (const minute of [...minutes.keys()].sort((a, b) => a - b)) {
    if (kept <= MAX_IN_MINUTES || !checkpoint) return;
    kept -= minutes.get(minute)?.length ?? 0;
    checkpoint.sweptTo = Math.max(checkpoint.sweptTo, (minute + 1) * MINUTE - 1);
    dropMinutes(memory, checkpoint.sweptTo);
  }
}

/** Drops the minutes up to `time`, which are not swept again. */
export function dropMinutes({ minutes, touched }: Memory, time: number): void {
  for (const minute of minutes.keys()) {
    if ((minute + 1) * MINUTE - 1 > time) continue;
    minutes.delete(minute);
    touched.add(`minute/${minute}`);
  }
}

export function identitiesWithin({ chunks }: Memory, from: number, to: number): ReadonlySet<bigint> {
  const identities = new Set<bigint>();
  for (const chunk of chunks.values()) {
    for (const { time, identity } of chunk) if (time >= from && time <= to) identities.add(identity);
  }
  return identities;
}

/** Returns the time from which end times are kept. An event is compared with an end that precedes it by at most `overlap`. */
export const endsKeptFrom = ({ dedupeFrom, watermark }: Checkpoint, overlap: number) =>
  Math.min(dedupeFrom, watermark) - overlap;

/** Keeps events that may be read again, for deduplication. Drops older events and older end times. */
export function keepForDedupe(memory: Memory, fresh: readonly KeptEvent[], overlap: number): void {
  const { checkpoint, chunks, touched, ended } = memory;
  if (!checkpoint) return;
  const from = endsKeptFrom(checkpoint, overlap);
  const added = fresh.filter(({ time }) => time >= from);
  if (added.length > 0) {
    const id = checkpoint.nextChunk;
    checkpoint.nextChunk += 1;
    chunks.set(id, added);
    touched.add(`chunk/${id}`);
  }
  let kept = 0;
  for (const { length } of chunks.values()) kept += length;
  for (const [id, chunk] of chunks) {
    const last = chunk.reduce((last, { time }) => Math.max(last, time), 0);
    const isOverLimit = kept > MAX_KEPT && chunks.size > 1;
    if (last >= from && !isOverLimit) continue;
    checkpoint.dedupeFrom = Math.max(checkpoint.dedupeFrom, last + 1);
    chunks.delete(id);
    touched.add(`chunk/${id}`);
    kept -= chunk.length;
  }
  ended.forEach((time, message) => {
    if (time < from) ended.delete(message);
  });
}

/** Maximum number of events kept for deduplication. Beyond it, reads overlap less. */
const MAX_KEPT = 500_000;
