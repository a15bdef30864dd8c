import type { Reader } from '../../upstream/api.ts';
import { NO_ROUTES } from '../routes.ts';
import type { EventsOptions } from './event-options.ts';
import { eventsWithin } from './event-table.ts';
import { type EventsFacts, type EventsServices, factsOf } from './events.ts';
import { byTime, type KeptEvent } from './kept-event.ts';
import { follow, inFlight, judgeUntil, type Limits } from './lifecycle.ts';
import { findOldest } from './log-begin.ts';
import { type Checkpoint, count, firstCheckpoint, type Memory, MINUTE, rememberedWithin } from './memory.ts';
import { type RangeRead, startRange } from './read.ts';
import { createRecent } from './recent.ts';
import { restoreMemory } from './rows.ts';
import { type LogWalk, readTail } from './tail.ts';

/** Times: milliseconds since the Unix epoch; spans: milliseconds. */
export interface ReplayRange {
  /** The first step. */
  readonly from: number;
  /** Until here the log is read. Of the time that it may still be late for, `overlap` and more, it does not tell all yet. */
  readonly to: number;
  /** Between two steps; default: a minute. */
  readonly step?: number | undefined;
  /** Whether there is one more step at `to`, where it is none anyway. */
  readonly endsAtTo?: boolean | undefined;
  /**
   * Rows of a memory to go on from, which was committed before `from`. Without them everything begins at 0 with `from`, and
   * what is older only tells of messages that were in flight then.
   */
  readonly rows?: ReadonlyMap<string, string> | undefined;
  /** How much of what is older than `from` is read where there are no rows; default and least: `window`. */
  readonly history?: number | undefined;
}

/** What an agent would have known at `at`, if the log had never been late: every event until then, and none after it. */
export interface ReplayStep {
  readonly at: number;
  readonly facts: EventsFacts;
}

export interface Replay {
  /** To be read once. Rejects with what the reader throws. */
  readonly steps: AsyncIterable<ReplayStep>;
  /** What was read so far. */
  readonly found: ReplayFound;
}

export interface ReplayFound {
  /** Until here. */
  readTo: number;
  events: number;
  /** Time of the oldest event that the log listed. */
  oldest: number | undefined;
  /** Rows that could not be read. */
  rejected: number;
  /** Nothing is listed before: an hour before the oldest event at most. Undefined where nothing is listed at all. */
  begin: number | undefined;
  /**
   * At the end: events that the memory had counted, and that a log which still holds all since would have listed. Where the log
   * begins so late that some surely are, nothing is read, and there are no steps; these are then the ones before its begin.
   */
  missing: number;
}

/** Reads a range of the log and folds it as the running agent does, in the order of time. Traces nothing, stores nothing. */
export function createReplay(
  api: Reader,
  options: EventsOptions,
  services: Omit<EventsServices, 'backfill' | 'traces'>,
  range: ReplayRange,
  signal: AbortSignal,
): Replay {
  const found: ReplayFound = {
    readTo: range.from,
    events: 0,
    oldest: undefined,
    rejected: 0,
    begin: undefined,
    missing: 0,
  };
  return { found, steps: replay(api, options, services, range, found, signal) };
}

async function* replay(
  api: Reader,
  options: EventsOptions,
  { onTimeWithin = 300_000, routes = NO_ROUTES, schedules }: EventsServices,
  { from, to, step = MINUTE, endsAtTo = false, rows = new Map(), history = 0 }: ReplayRange,
  found: ReplayFound,
  signal: AbortSignal,
): AsyncGenerator<ReplayStep> {
  const memory = restoreMemory(rows, options, { routes, schedules });
  const limits = { ...options, most: options.maxOpenMessages, onTimeWithin };
  memory.checkpoint ??= firstCheckpoint(from, from - Math.max(options.window, history), memory.destinationOption);
  const start = Math.max(0, memory.checkpoint.dedupeFrom);
  memory.schedules.begin(from);
  found.begin = await findOldest(api, { from: start, to }, signal);
  const begin = found.begin ?? to;
  found.missing = rememberedWithin(memory, start, begin - 1).size;
  // The end is known, and is not worth reading all of it.
  if (found.missing > 0) return;
  const folding = createFolding(memory, memory.checkpoint, limits, options);
  const readBack = { skip: undefined, settles: true };
  const range = startRange(api, begin, to, false, signal);
  const walk: LogWalk = { until: to, readBack, range, span: Number.POSITIVE_INFINITY };
  let at = from;
  for (let readTo = begin - 1; readTo < to; ) {
    const range = await readTail(api, walk, memory, signal);
    signal.throwIfAborted();
    if (!range) continue;
    note(found, range);
    for (const event of folding.inOrder(range)) {
      for (; event.time > at; at += step) yield { at, facts: folding.stepAt(at) };
      folding.fold(event);
    }
    readTo = range.to;
    found.missing = folding.missing();
    for (; at <= Math.min(readTo, to); at += step) yield { at, facts: folding.stepAt(at) };
  }
  if (endsAtTo && at - step < to) yield { at: to, facts: folding.stepAt(to) };
}

function note(found: ReplayFound, { events, rejected, to }: RangeRead): void {
  for (const { time } of events.values()) found.oldest = Math.min(found.oldest ?? time, time);
  found.events += events.size;
  found.rejected += rejected;
  found.readTo = to;
}

/** Folds events in the order of time. */
function createFolding(memory: Memory, checkpoint: Checkpoint, limits: Limits, options: EventsOptions) {
  const { dedupeFrom, floor, watermark } = checkpoint;
  const known = rememberedWithin(memory, dedupeFrom, Number.POSITIVE_INFINITY);
  const unlisted = new Set(known);
  /** What was counted and not followed yet, as the log may list it no longer. */
  const pending = new Map(eventsWithin(memory.pending).map(event => [event.identity, event]));
  memory.pending = [];
  memory.chunks.clear();
  const recent = createRecent();

  return {
    missing: () => unlisted.size,
    inOrder({ events, to }: RangeRead): KeptEvent[] {
      const all = [...events.values()];
      if (unlisted.size > 0) for (const { identity } of all) unlisted.delete(identity);
      for (const [identity, event] of pending) {
        if (event.time > to) continue;
        pending.delete(identity);
        if (!events.has(identity)) all.push(event);
      }
      return all.sort(byTime);
    },
    fold(event: KeptEvent): void {
      const isKnown = known.has(event.identity);
      recent.add(event.state, event.time);
      checkpoint.newest = Math.max(checkpoint.newest ?? 0, event.time);
      if (!isKnown && event.time > floor) count(memory, event);
      // What is listed since then may come after its place among the others.
      const isInOrder = event.time > watermark;
      if (isInOrder || !isKnown) follow(memory, event, limits, isInOrder);
      if (!isInOrder && !isKnown && event.time > floor) memory.log.late += 1;
    },
    stepAt(at: number): EventsFacts {
      judgeUntil(memory, at, limits);
      checkpoint.dedupeFrom = Math.max(checkpoint.dedupeFrom, (checkpoint.newest ?? 0) - options.overlap);
      for (const [message, time] of memory.ended) if (time < checkpoint.dedupeFrom) memory.ended.delete(message);
      memory.oldestFirst = undefined;
      // Nothing is stored.
      memory.touched.clear();
      memory.touchedOpen.clear();
      const { window } = options;
      memory.gauges = at - window < dedupeFrom ? undefined : { recent: recent.since(at - window), ...inFlight(memory) };
      return factsOf(memory, options);
    },
  };
}
