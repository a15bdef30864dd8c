import { MINUTE } from '../../kit/duration.ts';
import type { Reader } from '../../upstream/api.ts';
import { NO_ROUTES } from '../routes.ts';
import { type EventsFacts, type EventsOptions, type EventsServices, factsOf } from './events.ts';
import { byTime, type KeptEvent } from './kept-event.ts';
import { detectMissing, follow, MAX_OPEN } from './lifecycle.ts';
import { countByDestination, firstCheckpoint } from './memory.ts';
import { type EventMapping, type RangeRead, startRange } from './read.ts';
import { restoreMemory } from './rows.ts';
import { type LogWalk, readTail } from './tail.ts';

/** Times are in milliseconds since the Unix epoch. Events up to `from` are not counted. */
export interface ReplayRange {
  readonly from: number;
  readonly to: number;
}

/** Facts of an agent that started at the start of the range and has read the events up to `at`. */
export interface ReplayStep {
  readonly at: number;
  readonly facts: EventsFacts;
}

export interface Replay {
  /** One step per minute, and one at the end of the range. Can be iterated only once. Rejects with the reader's error. */
  readonly steps: AsyncIterable<ReplayStep>;
  readonly found: ReplayFound;
}

export interface ReplayFound {
  readTo: number;
  events: number;
  oldest: number | undefined;
  rejected: number;
}

type Services = Pick<EventsServices, 'onTimeWithin' | 'routes' | 'schedules'>;

/** Reads a range of the log and folds it in chronological order, like the running agent. Stores nothing. */
export function createReplay(
  api: Reader,
  options: EventsOptions,
  { onTimeWithin = 300_000, routes = NO_ROUTES, schedules }: Services,
  { from, to }: ReplayRange,
  signal: AbortSignal,
): Replay {
  const found: ReplayFound = { readTo: from, events: 0, oldest: undefined, rejected: 0 };
  const memory = restoreMemory(new Map(), options, { routes, schedules });
  const limits = { ...options, maxOpen: MAX_OPEN, onTimeWithin };
  // Events before the range only determine which messages are in flight.
  const start = Math.max(0, from - options.window);
  const checkpoint = firstCheckpoint(from, start, memory.destinationOption);
  memory.checkpoint = checkpoint;
  memory.schedules.begin(from);

  function fold(event: KeptEvent): void {
    checkpoint.newest = event.time;
    if (event.time > from) countByDestination(memory, event);
    follow(memory, event, limits);
  }

  function stepAt(at: number): ReplayStep {
    detectMissing(memory, at, limits);
    const endedSince = (checkpoint.newest ?? 0) - options.overlap;
    for (const [message, time] of memory.ended) if (time < endedSince) memory.ended.delete(message);
    memory.oldestFirst = undefined;
    // A replay stores no rows.
    memory.touched.clear();
    memory.touchedOpen.clear();
    return { at, facts: factsOf(memory, options) };
  }

  async function* steps(): AsyncGenerator<ReplayStep> {
    let at = from;
    for await (const range of readInOrder(api, memory, { from: start, to }, signal)) {
      noteRange(found, range);
      for (const event of [...range.events.values()].sort(byTime)) {
        for (; event.time > at; at += MINUTE) yield stepAt(at);
        fold(event);
      }
      for (; at <= range.to; at += MINUTE) yield stepAt(at);
    }
    if (at - MINUTE < to) yield stepAt(to);
  }

  return { found, steps: steps() };
}

/** Reads a part of the log as consecutive ranges, starting with the oldest event. Rejects with the reader's error. */
export async function* readInOrder(
  api: Reader,
  reading: EventMapping,
  { from, to }: ReplayRange,
  signal: AbortSignal,
  isDetailed = false,
): AsyncGenerator<RangeRead> {
  const oldest = (await findOldest(api, { from, to }, signal)) ?? to;
  const readBack = { skip: undefined, settles: true };
  const read = (from: number, to: number) => startRange(api, from, to, isDetailed, signal);
  const walk: LogWalk = { until: to, readBack, read, range: read(oldest, to), span: Number.POSITIVE_INFINITY };
  for (let readTo = oldest - 1; readTo < to; ) {
    const range = await readTail(walk, reading);
    signal.throwIfAborted();
    if (!range) continue;
    readTo = range.to;
    yield range;
  }
}

export function noteRange(found: ReplayFound, { events, rejected, to }: RangeRead): void {
  for (const { time } of events.values()) found.oldest = Math.min(found.oldest ?? time, time);
  found.events += events.size;
  found.rejected += rejected;
  found.readTo = to;
}

/** Precision of `findOldest` (ms). */
const CLOSE = 3_600_000;

/**
 * Returns a full minute at most an hour before the oldest event of a range (ms since the Unix epoch); undefined without events.
 * A read that starts there need not shorten a very long range many times.
 */
export async function findOldest(
  reader: Pick<Reader, 'eventPages'>,
  { from, to }: ReplayRange,
  signal: AbortSignal,
): Promise<number | undefined> {
  async function isEmpty(end: number): Promise<boolean> {
    const pages = reader.eventPages({ fromDate: from, toDate: end }, signal);
    for (let page = await pages.next(); !page.done; page = await pages.next()) {
      // Rows outside the range count: if the service ignores ranges, a search is pointless.
      if (page.value.rows.length + page.value.rejected > 0) return false;
    }
    return true;
  }
  if (to - from <= CLOSE || !(await isEmpty(from + CLOSE))) return from;
  if (await isEmpty(to)) return undefined;
  // Invariant: no event is listed up to `low`, and at least one up to `high`.
  let [low, high] = [from + CLOSE, to];
  while (high - low > CLOSE) {
    const middle = Math.floor((low + high) / 2);
    if (await isEmpty(middle)) low = middle;
    else high = middle;
  }
  return Math.max(from, Math.floor(low / MINUTE) * MINUTE);
}
