import { MAX_CLOCK_SKEW } from '../../kit/clock.ts';
import { MINUTE } from '../../kit/duration.ts';
import { type ObserveContext, PAGES_A_STEP, type ServiceTime } from '../collector.ts';
import { byTime, type KeptEvent } from './kept-event.ts';
import { advanceTo, detectMissing, follow, inFlight, type Limits, settleRedeliveries } from './lifecycle.ts';
import {
  addToMinutes,
  boundMinutes,
  type Checkpoint,
  countByDestination,
  createRecentEvents,
  dropMinutes,
  firstCheckpoint,
  identitiesWithin,
  keepForDedupe,
  type Memory,
  markUnread,
  noPeak,
  noteGap,
  notePeak,
  peakOf,
  type RecentEvents,
} from './memory.ts';
import { MAX_RANGE_PAGES, type RangeRead, readMore, shorterSpan, startRange } from './read.ts';

export interface TailOptions extends Limits {
  readonly window: number;
  readonly isSwept: boolean;
}

/** A read of the log up to the current time, range by range, oldest first. It repeats the end of the previous read. */
export interface TailWalk {
  /** Start of the read by the service's clock, or the time of the newest known event if that is later. */
  readonly until: number;
  /**
   * End of the read, usually `until`. Fixed, so that the read ends even while new events arrive. Later than `until` if another
   * clock is ahead, so that the listed events show which clock the log follows.
   */
  readonly end: number;
  /** Start of the read by the agent's clock. */
  readonly startedAt: number;
  readonly readBack: ReturnType<typeof planReadBack>;
  readonly read: (from: number, to: number) => RangeRead;
  range: RangeRead;
  span: number;
  /** Counter of recent events, including known ones, for the first read of a process; undefined in later reads. */
  readonly refill: RecentEvents | undefined;
  /** Checkpoint of the previous read, until it has been used to detect missing events. */
  before: Pick<Checkpoint, 'readTo' | 'newest'> | undefined;
}

/** Interval (ms) at which events that have become older than the overlap are read again; at most the overlap. */
const SETTLE_EVERY = 60_000;
/** Every read starts this time (ms) before the newest event, unless the overlap is shorter. Most events are delayed by less. */
const READ_BACK = 10_000;
/** Minimum number of rows for which a part of the overlap is skipped, because skipping takes an additional request. */
const FEW = 20;

/**
 * Plans what to read again: the last `READ_BACK`, and periodically also events that have become older than the overlap. If the
 * part to skip has few rows, everything is read again. `settles`: the read includes everything that has become older than the overlap.
 */
function planReadBack(memory: Memory, until: number, overlap: number) {
  const { checkpoint, recent } = memory;
  if (!recent || checkpoint?.newest === undefined) return { skip: undefined, settles: true };
  const { newest, dedupeFrom, foundAt, readTo, settledAt = Number.NEGATIVE_INFINITY } = checkpoint;
  const settles = until - settledAt >= Math.min(SETTLE_EVERY, overlap);
  const settled = newest + Math.max(0, until - foundAt) - overlap;
  const from = settles ? Math.max(dedupeFrom, settled + 1) : dedupeFrom;
  const to = newest - Math.min(overlap, READ_BACK) - 1;
  // Events that occurred during a pause in reading must be read a second time anyway.
  const isWorthwhile = identitiesWithin(memory, from + Math.max(0, until - readTo), to).size >= FEW;
  return isWorthwhile ? { skip: { from, to }, settles } : { skip: undefined, settles: true };
}

function rangeFrom(
  { end: last, readBack: { skip }, read, span }: Pick<TailWalk, 'end' | 'readBack' | 'read' | 'span'>,
  start: number,
): RangeRead {
  const from = skip && start >= skip.from && start <= skip.to ? skip.to + 1 : start;
  const end = skip && from < skip.from ? skip.from - 1 : last;
  return read(from, Math.min(end, from + span - 1));
}

type TailContext = Pick<ObserveContext<Memory, unknown>, 'api' | 'memory' | 'now' | 'signal'>;

function startTail(
  { api, memory, now, signal }: TailContext,
  { window, overlap }: TailOptions,
  serviceTime: ServiceTime,
): TailWalk {
  const { checkpoint, recent, span, traces } = memory;
  // The service's clock may have been set back.
  const until = Math.max(serviceTime.at(now), checkpoint?.newest ?? 0);
  const end = Math.max(until, serviceTime.latest(now));
  const history = until - window;
  const next = checkpoint?.dedupeFrom ?? history;
  const start = Math.max(0, Math.min(until, recent ? next : Math.min(next, history)));
  const read = (from: number, to: number) => startRange(api, from, to, traces !== undefined, signal);
  const walk = { until, end, startedAt: now, readBack: planReadBack(memory, until, overlap), read, span };
  return {
    ...walk,
    range: rangeFrom(walk, start),
    refill: recent ? undefined : createRecentEvents(window),
    before: checkpoint && { readTo: checkpoint.readTo, newest: checkpoint.newest },
  };
}

/** Maximum number of attempts to read the first pages: one shows that the clocks differ, two more use corrected times. */
const MAX_ATTEMPTS = 3;

/** Returns the time of the newest event of a range if it is newer than all known ones. */
function newestNew({ before }: TailWalk, { events }: RangeRead): number | undefined {
  const newest = before?.newest ?? Number.NEGATIVE_INFINITY;
  let found = newest;
  for (const { time } of events.values()) found = Math.max(found, time);
  return found > newest ? found : undefined;
}

/**
 * Starts a tail and reads its first pages. Reads them again if the responses show that the assumed service time was wrong. The
 * service time decides which messages are overdue and which starts were missed.
 */
export async function readFirst(context: TailContext, options: TailOptions, serviceTime: ServiceTime) {
  const { memory, now } = context;
  for (let attempt = 1; ; attempt += 1) {
    const assumed = serviceTime.at(now);
    const tail = startTail(context, options, serviceTime);
    const range = await readTail(tail, memory);
    if (range && range.to >= tail.end) serviceTime.observeLog(newestNew(tail, range));
    const isRight = Math.abs(serviceTime.at(now) - assumed) <= MAX_CLOCK_SKEW;
    if (isRight || attempt === MAX_ATTEMPTS) return { tail, range };
  }
}

/** Reads the next pages. Returns the range if it is complete now, else undefined. */
export async function readTail(walk: TailWalk, memory: Memory): Promise<RangeRead | undefined> {
  const { range } = walk;
  const { from, to } = range;
  if (await readMore(range, PAGES_A_STEP, memory)) {
    // A range that is short only because the read ends does not show the density of the log.
    if (range.pages < MAX_RANGE_PAGES / 4 && to - from + 1 >= walk.span) walk.span *= 2;
    if (to < walk.end) walk.range = rangeFrom(walk, to + 1);
    return range;
  }
  if (range.pages >= MAX_RANGE_PAGES && to > from) {
    walk.span = shorterSpan(range);
    walk.range = walk.read(from, from + walk.span - 1);
  }
  return undefined;
}

export function foldTail(memory: Memory, walk: TailWalk, range: RangeRead, options: TailOptions): void {
  // It is unknown which clock an empty log follows.
  const countFrom = range.events.size > 0 ? walk.until : Math.min(walk.until, walk.startedAt);
  memory.checkpoint ??= firstCheckpoint(countFrom, Math.min(range.from, countFrom), memory.destinationOption);
  const { checkpoint, log, touched } = memory;
  const isLast = range.to >= walk.end;
  memory.schedules.begin(walk.until);
  handleClockSetBack(checkpoint, walk.until, options.overlap);
  markUnreadable(memory, range);
  memory.queues.from = Math.min(memory.queues.from, range.from);
  detectHole(memory, checkpoint, walk, range, isLast);
  const recent = walk.refill ?? memory.recent;
  const known = identitiesWithin(memory, range.from, range.to);
  const fresh: KeptEvent[] = [];
  for (const event of range.events.values()) {
    // Events that are too old to be deduplicated were read only for the gauge of recent events.
    const isFresh = event.time >= checkpoint.dedupeFrom && !known.has(event.identity);
    if (isFresh) fresh.push(event);
    const isRecent = event.time >= walk.until - options.window;
    if (isRecent && (walk.refill || isFresh)) recent?.add(event.state, event.time);
  }
  if (fresh.length > 0) countFresh(memory, checkpoint, walk, fresh, range, options);
  memory.pending = [...memory.pending, ...fresh.filter(({ time }) => time > checkpoint.watermark)];
  if (isLast) endRead(memory, checkpoint, walk);
  const { floor, newest = Math.min(floor, range.to) } = checkpoint;
  // Events after a skipped part are not settled.
  const wholeTo = Math.min(range.to, (walk.readBack.skip?.from ?? Number.POSITIVE_INFINITY) - 1);
  checkpoint.dedupeFrom = Math.max(checkpoint.dedupeFrom, Math.min(newest - options.overlap, wholeTo + 1));
  keepForDedupe(memory, fresh, options.overlap);
  if (!options.isSwept) checkpoint.sweptTo = Math.floor(checkpoint.dedupeFrom / MINUTE) * MINUTE - 1;
  dropMinutes(memory, checkpoint.sweptTo);
  boundMinutes(memory);
  // All events that are older than a listed event by at least the overlap are listed, too. The time that has passed without
  // new events is added.
  const settled = newest + (isLast ? Math.max(0, walk.until - checkpoint.foundAt) : 0);
  if (checkpoint.newest !== undefined) {
    advanceTo(memory, Math.max(Math.min(settled - options.overlap, wholeTo), checkpoint.dedupeFrom - 1), options);
  }
  const settledTo = isLast ? Math.min(wholeTo, completeTo(memory, checkpoint, walk.until, options.overlap)) : 0;
  settleRedeliveries(memory);
  detectMissing(memory, Math.max(checkpoint.dedupeFrom - 1, settledTo), options);
  if (isLast)
    memory.gauges = {
      recent: (recent ?? createRecentEvents(options.window)).since(walk.until - options.window),
      ...inFlight(memory),
    };
  if (touched.size > 0 || memory.touchedOpen.size > 0 || walk.until - memory.savedAt >= SAVE_EVERY) {
    touched.add('checkpoint');
    memory.savedAt = walk.until;
  }
  if (range.twice.length === 0) return;
  const isFresh = new Set(fresh.map(({ identity }) => identity));
  log.duplicates += range.twice.filter(identity => isFresh.has(identity)).length;
  touched.add('log').add('checkpoint');
}

/** Assumed maximum lag of the log (ms), unless a larger one was measured. */
const ASSUMED_LAG = 300_000;

/**
 * Returns the time up to which the log is complete, even during a long silence. A delayed log looks like a silent one, so the
 * peak lag is subtracted.
 */
function completeTo({ pending }: Memory, { lags }: Checkpoint, until: number, overlap: number): number {
  let known = until - Math.max(overlap, ASSUMED_LAG, peakOf(lags));
  for (const { time } of pending) if (time <= known) known = time - 1;
  return known;
}

/** Interval at which the checkpoint of a quiet log is committed (ms), to show after a restart how long the log was not read. */
const SAVE_EVERY = 60_000;

/** Resets all positions derived from the service's clock, if it was set back or an estimate of it was wrong. */
function handleClockSetBack(checkpoint: Checkpoint, until: number, overlap: number): void {
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

/** Suspends schedules for a range with unreadable rows, unless the last read of the range had at least as many. */
function markUnreadable(memory: Memory, { from, to, rejected }: RangeRead): void {
  const { unreadable } = memory;
  if (rejected > (unreadable?.from === from ? unreadable.rows : 0)) markUnread(memory, { from, to });
  memory.unreadable = { from, rows: rejected };
}

/** Every service retains events for longer than this (ms). */
const MIN_RETENTION = 3_600_000;

/**
 * Counts a gap if all listed events are newer than the last known one, and the last read was too long ago. The first range with
 * rows decides. An empty log proves no gap, but suspends schedules.
 */
function detectHole(memory: Memory, checkpoint: Checkpoint, walk: TailWalk, range: RangeRead, isLast: boolean): void {
  const { before } = walk;
  const isFound = range.events.size > 0;
  if (!before || !(isFound || isLast)) return;
  walk.before = undefined;
  const { newest = Number.NEGATIVE_INFINITY, readTo } = before;
  let oldest = range.to + 1;
  for (const { time } of range.events.values()) oldest = Math.min(oldest, time);
  if (oldest <= newest) return;
  const isProof = isFound && before.newest !== undefined;
  const kept = Math.max(isProof ? 0 : MIN_RETENTION, before.newest === undefined ? 0 : readTo - newest);
  if (walk.until - readTo <= kept) return;
  markUnread(memory, { from: checkpoint.watermark, to: oldest - 1 });
  // The unreadable rows may be the missing events.
  if (!isProof || range.rejected > 0) return;
  noteGap(memory);
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
  for (const event of counted) countByDestination(memory, event);
  addToMinutes(memory, counted);
  // The previous read did not list these events, or skipped them. Those up to `skippedTo` were last searched for by an earlier
  // read, at most `READ_BACK` after they occurred.
  const skippedTo = walk.readBack.skip?.to ?? Number.NEGATIVE_INFINITY;
  for (const { time } of counted) {
    const lag = checkpoint.readTo - time;
    notePeak(checkpoint.lags, time > skippedTo ? lag : Math.min(lag, READ_BACK), walk.until);
  }
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

function endRead(memory: Memory, checkpoint: Checkpoint, { until, refill, span, readBack }: TailWalk): void {
  if (refill) memory.recent = refill;
  if (readBack.settles) checkpoint.settledAt = until;
  memory.span = span;
  for (const row of memory.destinations.evict(until)) memory.touched.add(row);
  checkpoint.readTo = until;
}
