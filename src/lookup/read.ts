import type { Reader } from '../upstream/api.ts';
import type { List } from './lists.ts';

export interface Quality {
  /** Whether every row is readable, has the filtered fields and matches. */
  readonly isProven: boolean;
  readonly rejected: number;
  /** Number of rows with an unreadable value. */
  readonly incomplete: number;
}

function startReading<Row>(list: List<Row>, reader: Reader, signal: AbortSignal) {
  const pages = list.pages(reader, signal);
  const proof = list.createProof();
  let rejected = 0;
  let incomplete = 0;
  let first: number | undefined;
  let last = 0;
  return {
    /** Returns the wanted rows of the next page; undefined after the last one. */
    async next(): Promise<{ readonly rows: readonly Row[]; readonly isLast: boolean } | undefined> {
      const { value: page, done } = await pages.next();
      if (done) return undefined;
      proof.add(page);
      rejected += page.rejected;
      incomplete += page.incomplete;
      // Ignore rows without a time, which have no place in the order.
      const isRanked = (row: Row) => list.rank(row) > 0;
      const [top, bottom] = [page.rows.find(isRanked), page.rows.findLast(isRanked)];
      if (top !== undefined && bottom !== undefined) {
        first ??= list.rank(top);
        last = list.rank(bottom);
      }
      return { rows: page.rows.filter(list.isWanted), isLast: page.isLast };
    },
    /** Whether the first row is newer than the last; false while their times are equal. */
    isNewestFirst: () => first !== undefined && last < first,
    quality: (): Quality => ({ isProven: proof.isProven(), rejected, incomplete }),
  };
}

export interface Newest<Row> extends Quality {
  /** The newest first. */
  readonly rows: readonly Row[];
  /** Whether the service might have more matching rows. */
  readonly hasMore: boolean;
  /** Whether newer rows may be missing, because the service ignores the order and has more pages than `maxPages`. */
  readonly mayMissNewer: boolean;
}

/**
 * Reads the newest `limit` rows of a list. If the service ignores the requested order, reads all pages. Throws
 * UpstreamError, and FilterContradiction if rows contradict a filter.
 */
export async function readNewest<Row>(
  list: List<Row>,
  reader: Reader,
  { limit, maxPages = Number.POSITIVE_INFINITY, signal }: { limit: number; maxPages?: number; signal: AbortSignal },
): Promise<Newest<Row>> {
  const reading = startReading(list, reader, signal);
  let rows: Row[] = [];
  let total = 0;
  const sorted = () => rows.sort((a, b) => list.rank(b) - list.rank(a)).slice(0, limit);
  for (let pages = 1; ; pages += 1) {
    const page = await reading.next();
    if (page) {
      rows = rows.concat(page.rows);
      total += page.rows.length;
    }
    const isEnd = page === undefined || page.isLast;
    const isEnough = rows.length >= limit && reading.isNewestFirst();
    if (isEnd || isEnough || pages >= maxPages) {
      return {
        rows: sorted(),
        hasMore: !isEnd || total > limit,
        mayMissNewer: !isEnd && !reading.isNewestFirst(),
        ...reading.quality(),
      };
    }
    // Bound memory without sorting after every page.
    if (rows.length > 2 * limit + 1000) rows = sorted();
  }
}

/** Passes the wanted rows of all pages to `onRows`, in the service's order. Throws like `readNewest`. */
export async function readAll<Row>(
  list: List<Row>,
  reader: Reader,
  signal: AbortSignal,
  onRows: (rows: readonly Row[]) => Promise<void>,
): Promise<Quality> {
  const reading = startReading(list, reader, signal);
  for (let page = await reading.next(); page; page = await reading.next()) await onRows(page.rows);
  return reading.quality();
}
