import { MINUTE } from '../../kit/duration.ts';
import type { Reader } from '../../upstream/api.ts';
import { type EventMapping, type RangeRead, startRange } from './read.ts';
import { type LogWalk, readTail } from './tail.ts';

/** Times are in milliseconds since the Unix epoch. */
export interface ReplayRange {
  readonly from: number;
  readonly to: number;
}

export interface ReplayFound {
  readTo: number;
  events: number;
  oldest: number | undefined;
  rejected: number;
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
