import type { DeliveryEvent } from '../../model/message.ts';
import { EVENT_STATES } from '../../model/message.ts';
import type { Reader } from '../../upstream/api.ts';
import { PAGES_A_STEP } from '../collector.ts';
import { follow, judge } from './lifecycle.ts';
import { addToMinutes, byTime, type Checkpoint, type KeptEvent, type Memory, remember } from './memory.ts';
import { MOST_PAGES, type RangeRead, readOn, shorterSpan, startRange } from './read.ts';
import { createRecent, type Recent } from './recent.ts';

/** Times: milliseconds. */
export interface TailOptions {
  /** Recent events are counted for so long. */
  readonly window: number;
  /** What came so long ago is read again, for the log is late. */
  readonly overlap: number;
  /** History to read at the very first start. */
  readonly backfill: number;
  /** Messages that are followed at a time. */
  readonly most: number;
}

/** A read of the log from where the last one ended until now, range by range, the oldest first. */
export interface TailWalk {
  /** Pinned when the read began, so that its end does not run away. */
  readonly until: number;
  range: RangeRead;
  /** Milliseconds of the next range. */
  span: number;
  /** The first read of a process: counts recent events again, whatever is known of them. */
  readonly refill: Recent | undefined;
  /** When the read before this one was complete, and the newest event it knew. */
  readonly before: Pick<Checkpoint, 'readTo' | 'newest'> | undefined;
  /** The log lists something as old as what was known: it keeps at least as much. */
  reachesBack: boolean;
  foundNew: boolean;
}

export function startTail(
  api: Reader,
  { checkpoint, recent }: Memory,
  now: number,
  { window, backfill }: TailOptions,
  signal: AbortSignal,
): TailWalk {
  const history = now - Math.max(window, checkpoint ? 0 : backfill);
  const next = checkpoint?.rememberedFrom ?? history;
  const from = Math.max(0, recent ? next : Math.min(next, history));
  return {
    until: now,
    range: startRange(api, from, now, signal),
    span: now - from + 1,
    refill: recent ? undefined : createRecent(),
    before: checkpoint && { readTo: checkpoint.readTo, newest: checkpoint.newest },
    reachesBack: false,
    foundNew: false,
  };
}

/** Reads on; gives the range that is now complete, or undefined while none is. */
export async function readTail(
  api: Reader,
  walk: TailWalk,
  destinationOf: (event: DeliveryEvent) => string,
  signal: AbortSignal,
): Promise<RangeRead | undefined> {
  const { range } = walk;
  const { from, to } = range;
  if (await readOn(range, PAGES_A_STEP, destinationOf)) {
    if (range.pages < MOST_PAGES / 4) walk.span *= 2;
    if (to < walk.until) walk.range = startRange(api, to + 1, Math.min(walk.until, to + walk.span), signal);
    return range;
  }
  if (range.pages >= MOST_PAGES && to > from) {
    walk.span = shorterSpan(range);
    walk.range = startRange(api, from, from + walk.span - 1, signal);
  }
  return undefined;
}

/** Folds a complete range into what is known. */
export function foldTail(memory: Memory, walk: TailWalk, range: RangeRead, options: TailOptions): void {
  memory.checkpoint ??= firstCheckpoint(walk.until, range.from);
  const { checkpoint, log, seen, touched } = memory;
  const recent = walk.refill ?? memory.recent;
  const fresh: KeptEvent[] = [];
  for (const [identity, event] of range.events) {
    const isRecent = event.time >= walk.until - options.window;
    if (walk.refill && isRecent) recent?.add(event.state, event.time);
    // What is too old to be told from new was read for recent events alone.
    if (event.time < checkpoint.rememberedFrom) continue;
    if (event.time <= (walk.before?.newest ?? 0)) walk.reachesBack = true;
    if (seen.has(identity)) continue;
    fresh.push(event);
    if (!walk.refill && isRecent) recent?.add(event.state, event.time);
  }
  if (range.duplicates > 0) {
    log.duplicates += range.duplicates;
    touched.add('log');
  }
  if (fresh.length > 0) {
    walk.foundNew = true;
    countFresh(memory, fresh, options);
  }
  const isLast = range.to >= walk.until;
  if (isLast) endRead(memory, walk);
  const newest = checkpoint.newest ?? checkpoint.floor;
  checkpoint.rememberedFrom = Math.max(checkpoint.rememberedFrom, newest - options.overlap);
  remember(memory, fresh);
  // All events that are older than the overlap are in the log by now. A log that brings nothing new for an overlap has
  // nothing more to bring; one that lags is followed as far as it has come.
  const settled = isLast && !walk.foundNew ? walk.until : newest;
  judge(memory, Math.max(settled - options.overlap, checkpoint.rememberedFrom - 1), options);
  if (touched.size > 0 || walk.until - memory.savedAt >= SAVE_EVERY) {
    touched.add('checkpoint');
    memory.savedAt = walk.until;
  }
}

/** The checkpoint of a quiet log is committed so often, milliseconds: it tells later how long nobody read. */
const SAVE_EVERY = 60_000;

function firstCheckpoint(now: number, from: number): Checkpoint {
  return {
    floor: now,
    newest: undefined,
    rememberedFrom: from,
    readTo: now,
    judgedTo: 0,
    judgedLast: now,
    sweptTo: now,
    nextChunk: 0,
  };
}

function countFresh(memory: Memory, fresh: readonly KeptEvent[], options: TailOptions): void {
  const { checkpoint, log, destinations, touched } = memory;
  if (!checkpoint) return;
  const counted = fresh.filter(({ time }) => time > checkpoint.floor);
  for (const { destination, state, time } of counted) {
    const { row, tally } = destinations.of(destination, time);
    tally.events[EVENT_STATES[state] as (typeof EVENT_STATES)[number]] += 1;
    touched.add(row);
  }
  addToMinutes(memory, counted);
  for (const { time } of fresh) checkpoint.newest = Math.max(checkpoint.newest ?? 0, time);
  const late = fresh.filter(({ time }) => time <= checkpoint.judgedTo).sort(byTime);
  memory.unjudged.push(...fresh.filter(({ time }) => time > checkpoint.judgedTo));
  for (const event of late) follow(memory, event, options);
  const lateCounted = late.filter(({ time }) => time > checkpoint.floor).length;
  if (lateCounted > 0) {
    log.late += lateCounted;
    touched.add('log');
  }
}

/** The read is complete: is there a hole between what was known and what was found? */
function endRead(memory: Memory, { until, before, reachesBack, refill }: TailWalk): void {
  const { checkpoint, log, touched } = memory;
  if (!checkpoint) return;
  if (refill) memory.recent = refill;
  checkpoint.readTo = until;
  if (before?.newest === undefined || reachesBack) return;
  // Nothing as old as what was known is listed any more, so the log keeps less than that. When the last read was longer ago than what was
  // known then was old, events may have come and gone unread.
  if (until - before.readTo > before.readTo - before.newest) {
    log.gaps += 1;
    touched.add('log');
  }
}
