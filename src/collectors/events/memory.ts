import type { DeliveryEvent, EventState } from '../../model/message.ts';
import type { AttemptLedger } from '../flow-control/attempts.ts';
import type { Destinations } from './destinations.ts';
import { type EventTable, eachWithin, tableFrom } from './event-table.ts';
import type { KeptEvent } from './kept-event.ts';
import { noPeak, type Peak } from './peak.ts';
import type { Recent } from './recent.ts';
import type { Schedules } from './schedules.ts';
import { countEvent, type LogTally } from './tally.ts';
import type { Traces } from './traces.ts';

export interface OpenMessage {
  /** Undefined when it began before the log was read. */
  readonly createdAt: number | undefined;
  /** When it was due: what waiting counts from. */
  readonly dueAt: number;
  activeAt: number | undefined;
  attempts: number;
  overdue: boolean;
  isStored: boolean;
}

/** How far the log is read. Times: milliseconds since the Unix epoch. */
export interface Checkpoint {
  /** Events until here are history: they happened before anything was counted. */
  floor: number;
  newest: number | undefined;
  /** Every identity after this is remembered. Older events are indistinguishable from new ones and are not read again. */
  dedupeFrom: number;
  /** The last read that was complete asked for events until here, by our clock. */
  readTo: number;
  /** The last read that found anything new asked for events until here, by our clock. */
  foundAt: number;
  /** By how many milliseconds, at least, the log was behind our clock when it listed what a read had not found. */
  lags: Peak;
  /** By how many milliseconds events were older than others that were listed before them; undefined before it was looked for. */
  lateness?: Peak;
  /** The last complete read that came to everything older than the overlap asked for events until here, by our clock. */
  settledAt?: number | undefined;
  /** Message lifecycles are tracked until here; later events may still be joined by earlier ones. */
  watermark: number;
  /** Time of the last event through which a life was followed. */
  lastFollowed: number;
  /** The sweep has looked again at everything until here. */
  sweptTo: number;
  nextChunk: number;
  /** A silence of the log that may hide a gap: since when, and until when signs of one are looked for. */
  silence: { readonly from: number; readonly until: number } | undefined;
  /** Answers to attempts whose beginning the log did not show; a service that never shows any has no gaps for that. */
  unstarted: number;
  /** What destinations were made from when this was written. */
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
    silence: undefined,
    unstarted: 0,
    destination,
  };
}

/** What gauges show: as of the last complete read of the log. Times: milliseconds since the Unix epoch. */
export interface Gauges {
  readonly recent: Readonly<Record<EventState, number>>;
  readonly newest: number | undefined;
  readonly inFlight: number;
  readonly oldestInFlight: number | undefined;
  readonly overdue: number;
}

/** Everything that is known of one account's log. Changed in place. */
export interface Memory {
  checkpoint: Checkpoint | undefined;
  readonly log: LogTally;
  readonly destinations: Destinations;
  readonly destinationOption: string;
  readonly destinationOf: (event: DeliveryEvent) => string;
  readonly schedules: Schedules;
  readonly open: Map<bigint, OpenMessage>;
  /** Events that are remembered so that none is counted twice, by number of the read that found them. */
  readonly chunks: Map<number, EventTable>;
  pending: EventTable[];
  /** Messages that ended in the time whose identities are remembered, and when. */
  readonly ended: Map<bigint, number>;
  /** Identities of the events that were counted, by minute: what the sweep compares with. */
  readonly minutes: Map<number, BigUint64Array>;
  /** Where the last range that was read began, and how many of its rows could not be read. */
  unreadable: { readonly from: number; readonly rows: number } | undefined;
  recent: Recent | undefined;
  gauges: Gauges | undefined;
  /**
   * Open messages from the oldest on, while some are given up: a live view of `open`, so that the oldest is found at once.
   * Not for longer, because every table that `open` outgrows stays in memory until its iterators have gone on.
   */
  oldestFirst: MapIterator<[bigint, OpenMessage]> | undefined;
  /** Milliseconds of the log that one range holds, as the last read taught. */
  span: number;
  readonly traces: Traces | undefined;
  readonly attempts: AttemptLedger | undefined;
  savedAt: number;
  readonly touched: Set<string>;
  readonly touchedOpen: Set<bigint>;
}

export const MINUTE = 60_000;

export function count({ destinations, touched }: Memory, { destination, state, statusClass, time }: KeptEvent): void {
  const { row, tally } = destinations.of(destination, time);
  countEvent(tally, state, statusClass);
  touched.add(row);
}

export function close({ open, touchedOpen }: Memory, message: bigint, known: OpenMessage): void {
  open.delete(message);
  // Most begin and end between two commits, and never have a row.
  if (known.isStored) touchedOpen.add(message);
  else touchedOpen.delete(message);
}

/** Counts a gap: events were lost, so the counters are too low. */
export function noteGap({ log, traces, touched }: Memory): void {
  log.gaps += 1;
  traces?.markGap();
  touched.add('log');
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

/** Identities for the sweep that are kept at most; beyond that the oldest minutes are not looked at again. */
const MOST_IN_MINUTES = 2_000_000;

/** Gives up the oldest minutes when there are too many identities. */
export function boundMinutes(memory: Memory): void {
  const { minutes, checkpoint } = memory;
  let kept = 0;
  for (const { length } of minutes.values()) kept += length;
  for (const minute of [...minutes.keys()].sort((a, b) => a - b)) {
    if (kept <= MOST_IN_MINUTES || !checkpoint) return;
    kept -= minutes.get(minute)?.length ?? 0;
    checkpoint.sweptTo = Math.max(checkpoint.sweptTo, (minute + 1) * MINUTE - 1);
    forgetMinutes(memory, checkpoint.sweptTo);
  }
}

/** Forgets the minutes until `time`: they are not looked at again. */
export function forgetMinutes({ minutes, touched }: Memory, time: number): void {
  for (const minute of minutes.keys()) {
    if ((minute + 1) * MINUTE - 1 > time) continue;
    minutes.delete(minute);
    touched.add(`minute/${minute}`);
  }
}

export function rememberedWithin({ chunks }: Memory, from: number, to: number): ReadonlySet<bigint> {
  const identities = new Set<bigint>();
  for (const chunk of chunks.values()) {
    eachWithin(chunk, from, to, index => identities.add(chunk.hashes[index * 2] as bigint));
  }
  return identities;
}

/** Remembers events that are new, as far as they will be read again, and forgets those that will not. */
export function remember(memory: Memory, fresh: EventTable | undefined): void {
  const { checkpoint, chunks, touched, ended } = memory;
  if (!checkpoint) return;
  const again = fresh && tableFrom(fresh, checkpoint.dedupeFrom);
  if (again) {
    const id = checkpoint.nextChunk;
    checkpoint.nextChunk += 1;
    chunks.set(id, again);
    touched.add(`chunk/${id}`);
  }
  let kept = 0;
  for (const { size } of chunks.values()) kept += size;
  for (const [id, { size, last }] of chunks) {
    const isTooMuch = kept > MOST_REMEMBERED && chunks.size > 1;
    if (last >= checkpoint.dedupeFrom && !isTooMuch) continue;
    checkpoint.dedupeFrom = Math.max(checkpoint.dedupeFrom, last + 1);
    chunks.delete(id);
    touched.add(`chunk/${id}`);
    kept -= size;
  }
  const { dedupeFrom } = checkpoint;
  ended.forEach((time, message) => {
    if (time < dedupeFrom) ended.delete(message);
  });
}

/** Identities that are remembered at most; beyond that the overlap of reads becomes shorter. */
const MOST_REMEMBERED = 1_000_000;
