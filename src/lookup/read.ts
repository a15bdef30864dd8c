import type { ListPage, Reader } from '../upstream/api.ts';
import type { List } from './lists.ts';

export interface Quality {
  /** Whether every row is readable, has the filtered fields and matches. */
  readonly isProven: boolean;
  readonly rejected: number;
  /** Number of rows with an unreadable value. */
  readonly incomplete: number;
}

function createReading<Row>(list: List<Row>) {
  const proof = list.createProof();
  let rejected = 0;
  let incomplete = 0;
  let first: number | undefined;
  let last = 0;
  return {
    /** Returns the wanted rows of the next page. */
    add(page: ListPage<Row>): readonly Row[] {
      proof.add(page);
      rejected += page.rejected;
      incomplete += page.incomplete;
      // Ignore rows without a time, which have no place in the order.
      const ranks = page.rows.map(list.rank).filter(rank => rank > 0);
      first ??= ranks[0];
      last = ranks.at(-1) ?? last;
      return page.rows.filter(list.isWanted);
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
  const reading = createReading(list);
  let rows: Row[] = [];
  let [pages, total, isEnd] = [0, 0, true];
  const sorted = () => rows.sort((a, b) => list.rank(b) - list.rank(a)).slice(0, limit);
  for await (const page of list.pages(reader, signal)) {
    const wanted = reading.add(page);
    rows = rows.concat(wanted);
    total += wanted.length;
    pages += 1;
    isEnd = page.isLast;
    const isEnough = rows.length >= limit && reading.isNewestFirst();
    if (isEnd || isEnough || pages >= maxPages) break;
    // Bound memory without sorting after every page.
    if (rows.length > 2 * limit + 1000) rows = sorted();
  }
  return {
    rows: sorted(),
    hasMore: !isEnd || total > limit,
    mayMissNewer: !isEnd && !reading.isNewestFirst(),
    ...reading.quality(),
  };
}

/** Passes the wanted rows of all pages to `onRows`, in the service's order. Throws like `readNewest`. */
export async function readAll<Row>(
  list: List<Row>,
  reader: Reader,
  signal: AbortSignal,
  onRows: (rows: readonly Row[]) => Promise<void>,
): Promise<Quality> {
  const reading = createReading(list);
  for await (const page of list.pages(reader, signal)) await onRows(reading.add(page));
  return reading.quality();
}
