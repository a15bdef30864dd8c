import type { Reader } from '../../upstream/api.ts';
import { PAGES_A_STEP } from '../collector.ts';
import { createEventTable, eventsWithin, tableFrom } from './event-table.ts';
import { byTime, type KeptEvent } from './kept-event.ts';
import { advanceTo, follow, inFlight, judgeUntil, type Limits } from './lifecycle.ts';
import {
  addToMinutes,
  boundMinutes,
  type Checkpoint,
  count,
  firstCheckpoint,
  forgetMinutes,
  type Memory,
  MINUTE,
  noteGap,
  remember,
  rememberedWithin,
} from './memory.ts';
import { noPeak, notePeak, peakOf } from './peak.ts';
import { MOST_PAGES, type RangeRead, type Reading, readOn, shorterSpan, startRange } from './read.ts';
import { noteLateness, planReadBack, type ReadBack } from './read-back.ts';
import { createRecent, type Recent } from './recent.ts';

export interface TailOptions extends Limits {
  readonly window: number;
  readonly backfill: number;
  readonly isSwept: boolean;
}

/** A read of the log until some time, range by range, the oldest first. */
export interface LogWalk {
  /** Pinned when the read began, so that its end does not run away. */
  readonly until: number;
  readonly readBack: ReadBack;
  range: RangeRead;
  span: number;
}

/** A read of the log from where the last one ended until now. */
export interface TailWalk extends LogWalk {
  /** The newest event that was known when the read began. */
  readonly newest: number | undefined;
  /** The first read of a process: counts recent events again, whatever is known of them. */
  readonly refill: Recent | undefined;
  /** When the read before this one was complete, and the newest event it knew. */
  before: Pick<Checkpoint, 'readTo' | 'newest'> | undefined;
  foundNew: boolean;
}

/** The range that begins there, or behind what is left out. */
function rangeFrom(
  api: Reader,
  { until, readBack: { skip } }: Pick<LogWalk, 'until' | 'readBack'>,
  { start, span, isDetailed }: { start: number; span: number; isDetailed: boolean },
  signal: AbortSignal,
): RangeRead {
  const from = skip && start >= skip.from && start <= skip.to ? skip.to + 1 : start;
  const end = skip && from < skip.from ? skip.from - 1 : until;
  return startRange(api, from, Math.min(end, from + span - 1), isDetailed, signal);
}

export function startTail(
  api: Reader,
  memory: Memory,
  now: number,
  { window, backfill, overlap }: TailOptions,
  signal: AbortSignal,
): TailWalk {
  const { checkpoint, recent, span, traces, attempts } = memory;
  // Our clock may have been set back; the log goes on.
  const until = Math.max(now, checkpoint?.newest ?? 0);
  const history = until - Math.max(window, checkpoint ? 0 : backfill);
  const next = checkpoint?.dedupeFrom ?? history;
  const again = attempts?.rereadFrom ?? Number.POSITIVE_INFINITY;
  const start = Math.max(0, Math.min(until, recent ? next : Math.min(next, history, again)));
  if (!recent) attempts?.open(start, until);
  const readBack = planReadBack(memory, until, overlap);
  return {
    until,
    readBack,
    newest: checkpoint?.newest,
    range: rangeFrom(api, { until, readBack }, { start, span, isDetailed: traces !== undefined }, signal),
    span,
    refill: recent ? undefined : createRecent(),
    before: checkpoint && { readTo: checkpoint.readTo, newest: checkpoint.newest },
    foundNew: false,
  };
}

/** Reads on; gives the range that is now complete, or undefined while none is. */
export async function readTail(
  api: Reader,
  walk: LogWalk,
  reading: Reading,
  signal: AbortSignal,
): Promise<RangeRead | undefined> {
  const { range } = walk;
  const { from, to, rows } = range;
  const isDetailed = rows !== undefined;
  if (await readOn(range, PAGES_A_STEP, reading)) {
    // The last range is short because the read ends, which teaches nothing.
    if (range.pages < MOST_PAGES / 4 && to - from + 1 >= walk.span) walk.span *= 2;
    if (to < walk.until) walk.range = rangeFrom(api, walk, { start: to + 1, span: walk.span, isDetailed }, signal);
    return range;
  }
  if (range.pages >= MOST_PAGES && to > from) {
    walk.span = shorterSpan(range);
    walk.range = startRange(api, from, from + walk.span - 1, isDetailed, signal);
  }
  return undefined;
}

export function foldTail(memory: Memory, walk: TailWalk, range: RangeRead, options: TailOptions): void {
  memory.checkpoint ??= firstCheckpoint(walk.until, range.from, memory.destinationOption);
  const { checkpoint, log, touched } = memory;
  const isLast = range.to >= walk.until;
  memory.schedules.begin(walk.until);
  noticeClock(checkpoint, walk.until, options.overlap);
  memory.destinations.readUntil(checkpoint.readTo);
  noticeUnreadable(memory, range);
  lookForHole(memory, checkpoint, walk, range, isLast);
  const recent = walk.refill ?? memory.recent;
  const known = rememberedWithin(memory, range.from, range.to);
  const fresh: KeptEvent[] = [];
  for (const event of range.events.values()) {
    const isRecent = event.time >= walk.until - options.window;
    if (walk.refill && isRecent) recent?.add(event.state, event.time);
    if (walk.refill) memory.attempts?.add(event);
    // Events too old to be deduplicated were read for the recent gauge alone.
    if (event.time < checkpoint.dedupeFrom || known.has(event.identity)) continue;
    fresh.push(event);
    if (!walk.refill) memory.attempts?.add(event);
    if (!walk.refill && isRecent) recent?.add(event.state, event.time);
  }
  const table = fresh.length > 0 ? createEventTable(fresh) : undefined;
  if (table) countFresh(memory, checkpoint, walk, fresh, range, options);
  const following = table && tableFrom(table, checkpoint.watermark + 1);
  if (following) memory.pending.push(following);
  if (isLast) endRead(memory, checkpoint, walk, options.overlap);
  const { floor, newest = Math.min(floor, range.to) } = checkpoint;
  // Of what comes after something that was left out, nothing is settled.
  const wholeTo = Math.min(range.to, (walk.readBack.skip?.from ?? Number.POSITIVE_INFINITY) - 1);
  checkpoint.dedupeFrom = Math.max(checkpoint.dedupeFrom, Math.min(newest - options.overlap, wholeTo + 1));
  remember(memory, table);
  if (!options.isSwept) checkpoint.sweptTo = Math.floor(checkpoint.dedupeFrom / MINUTE) * MINUTE - 1;
  forgetMinutes(memory, checkpoint.sweptTo);
  boundMinutes(memory);
  // When an event is listed, all that are an overlap older are. As time goes by without anything new, those that are
  // younger come of age, too; that time is measured by our clock alone, so that it need not agree with the service's.
  const settled = newest + (isLast ? Math.max(0, walk.until - checkpoint.foundAt) : 0);
  if (checkpoint.newest !== undefined) {
    // Of a silence nothing is concluded here: the log may be held back.
    const readTo = isLast ? walk.until : undefined;
    memory.attempts?.settle({ newest, settledTo: Math.min(newest - options.overlap, wholeTo), readTo });
    advanceTo(memory, Math.max(Math.min(settled - options.overlap, wholeTo), checkpoint.dedupeFrom - 1), options);
  }
  const settledTo = isLast ? Math.min(wholeTo, knownTo(memory, checkpoint, walk.until, options.overlap)) : 0;
  judgeUntil(memory, Math.max(checkpoint.dedupeFrom - 1, settledTo), options);
  memory.oldestFirst = undefined;
  if (isLast)
    memory.gauges = { recent: (recent ?? createRecent()).since(walk.until - options.window), ...inFlight(memory) };
  if (touched.size > 0 || memory.touchedOpen.size > 0 || walk.until - memory.savedAt >= SAVE_EVERY) {
    touched.add('checkpoint');
    memory.savedAt = walk.until;
  }
  if (range.twice.length === 0) return;
  const isFresh = new Set(fresh.map(({ identity }) => identity));
  log.duplicates += range.twice.filter(identity => isFresh.has(identity)).length;
  touched.add('log').add('checkpoint');
}

/** Unless the log shows a greater difference, it lists everything that is older than this by our clock, milliseconds. */
const AGREED = 300_000;
/** How long the greatest difference that it showed counts at least, milliseconds. */
const LAGS_WINDOW = 86_400_000;

/**
 * Everything until here was followed, also where the log shows nothing new: after a long silence, or when it never listed
 * anything. A log that holds events back looks the same, but not for longer than it ever did.
 */
function knownTo({ pending }: Memory, { lags }: Checkpoint, until: number, overlap: number): number {
  let known = until - Math.max(overlap, AGREED, peakOf(lags));
  for (const { time } of eventsWithin(pending, undefined, known)) known = Math.min(known, time - 1);
  return known;
}

/** Interval at which the checkpoint of a quiet log is committed, milliseconds: it shows later how long the log was not read. */
const SAVE_EVERY = 60_000;

/** A clock that went back takes with it what was concluded from it; nothing after it can have been counted or followed. */
function noticeClock(checkpoint: Checkpoint, until: number, overlap: number): void {
  if (until >= checkpoint.readTo) return;
  const { newest = until } = checkpoint;
  checkpoint.floor = Math.min(checkpoint.floor, until);
  checkpoint.foundAt = Math.min(checkpoint.foundAt, until);
  checkpoint.lags = noPeak(until);
  checkpoint.settledAt = undefined;
  checkpoint.watermark = Math.max(
    Math.min(checkpoint.lastFollowed, newest),
    Math.min(checkpoint.watermark, newest - overlap),
  );
  checkpoint.dedupeFrom = Math.min(checkpoint.dedupeFrom, until + 1);
  checkpoint.sweptTo = Math.min(checkpoint.sweptTo, until);
  checkpoint.readTo = until;
}

/** Where rows can't be read, no schedule is judged. Those of the read before are known as long as no other joins them. */
function noticeUnreadable(memory: Memory, { from, to, rejected }: RangeRead): void {
  const { unreadable } = memory;
  if (rejected > (unreadable?.from === from ? unreadable.rows : 0)) memory.schedules.markUnread({ from, to });
  memory.unreadable = { from, rows: rejected };
}

/** Every service keeps its log for longer than this, milliseconds. */
const SURELY_KEPT = 3_600_000;

/**
 * Whether events are missing between the last read and this one: nothing as old as the last known event is listed any more,
 * or the last read is too long ago. The first range with rows decides. An empty range proves nothing, and no schedule is
 * evaluated for it.
 */
function lookForHole(memory: Memory, checkpoint: Checkpoint, walk: TailWalk, range: RangeRead, isLast: boolean): void {
  const { before } = walk;
  const isFound = range.events.size > 0;
  if (!before || !(isFound || isLast)) return;
  walk.before = undefined;
  const { newest = Number.NEGATIVE_INFINITY, readTo } = before;
  let oldest = range.to + 1;
  for (const { time } of range.events.values()) oldest = Math.min(oldest, time);
  if (oldest <= newest) return;
  const isProof = isFound && before.newest !== undefined;
  const kept = Math.max(isProof ? 0 : SURELY_KEPT, before.newest === undefined ? 0 : readTo - newest);
  if (walk.until - readTo <= kept) return;
  memory.schedules.markUnread({ from: checkpoint.watermark, to: oldest - 1 });
  // Those as old as what was known may be the ones that could not be read.
  if (!isProof || range.rejected > 0) return;
  noteGap(memory);
  memory.attempts?.reset(oldest);
  // Nothing that comes after a hole is seen to begin.
  checkpoint.silence = undefined;
}

function countFresh(
  memory: Memory,
  checkpoint: Checkpoint,
  walk: TailWalk,
  fresh: readonly KeptEvent[],
  range: RangeRead,
  options: TailOptions,
): void {
  const { log, touched } = memory;
  const counted = fresh.filter(({ time }) => time > checkpoint.floor);
  for (const event of counted) count(memory, event);
  addToMinutes(memory, counted);
  // What is listed now was not when the log was read last.
  const oldest = counted.reduce((oldest, { time }) => Math.min(oldest, time), Number.POSITIVE_INFINITY);
  notePeak(checkpoint.lags, checkpoint.readTo - oldest, walk.until, LAGS_WINDOW);
  if (walk.newest !== undefined) noteLateness(checkpoint, walk.newest - oldest, walk.until, options.overlap);
  walk.foundNew = true;
  checkpoint.foundAt = walk.until;
  const late: KeptEvent[] = [];
  for (const event of fresh) {
    checkpoint.newest = Math.max(checkpoint.newest ?? 0, event.time);
    const isLate = event.time <= checkpoint.watermark;
    if (isLate) late.push(event);
    const row = range.rows?.get(event.identity);
    if (row && !memory.ended.has(event.message)) memory.traces?.add(event, row, isLate);
  }
  for (const event of late.sort(byTime)) follow(memory, event, options, false);
  const lateCounted = late.filter(({ time }) => time > checkpoint.floor).length;
  if (lateCounted > 0) {
    log.late += lateCounted;
    touched.add('log');
  }
}

function endRead(
  memory: Memory,
  checkpoint: Checkpoint,
  { until, refill, span, readBack }: TailWalk,
  overlap: number,
): void {
  if (refill) memory.recent = refill;
  if (readBack.settles) checkpoint.settledAt = until;
  // Also where nothing was late, time goes by.
  noteLateness(checkpoint, 0, until, overlap);
  memory.span = span;
  for (const row of memory.destinations.forget(until)) memory.touched.add(row);
  checkpoint.readTo = until;
}
