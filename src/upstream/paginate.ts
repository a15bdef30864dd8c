import { BoundedMap } from '../kit/bounded-map.ts';
import { UpstreamError } from './errors.ts';

export interface Page<Row> {
  readonly rows: readonly Row[];
  /** Rows of this page that could not be read and are left out. */
  readonly rejected: number;
}

/** A page of a list that goes on, or not. */
export interface ListPage<Row> extends Page<Row> {
  readonly isLast: boolean;
}

export interface CursorPage<Row> extends Page<Row> {
  /** Where the next page starts; absent on the last one. */
  readonly cursor: string | undefined;
}

/** Two million DLQ entries, or twenty million events. A walk that long is a service that never ends its list. */
export const MOST_PAGES = 20_000;
/** A thousand of them are remembered, and each is part of an address. */
const LONGEST_CURSOR = 4096;
/** A service that sends a cursor again within this many pages is caught; a longer circle ends at MOST_PAGES. */
const CURSORS_REMEMBERED = 1000;

/**
 * Every page of a list, one at a time. Ends at the first page without a cursor, never by counting rows.
 * Throws UpstreamError `invalid_response` when the cursors go in a circle or the list never ends.
 */
export async function* paginate<Row>(
  what: string,
  readPage: (cursor: string | undefined) => Promise<CursorPage<Row>>,
): AsyncGenerator<ListPage<Row>, void, void> {
  const seen = new BoundedMap<string, true>(CURSORS_REMEMBERED);
  let cursor: string | undefined;
  for (let pages = 0; pages < MOST_PAGES; pages += 1) {
    const page = await readPage(cursor);
    cursor = page.cursor;
    yield { rows: page.rows, rejected: page.rejected, isLast: cursor === undefined };
    if (cursor === undefined) return;
    if (cursor.length > LONGEST_CURSOR) {
      throw new UpstreamError('invalid_response', `${what}: a cursor of ${cursor.length} characters`);
    }
    if (seen.has(cursor)) throw new UpstreamError('invalid_response', `${what}: the same cursor came twice`);
    seen.set(cursor, true);
  }
  throw new UpstreamError('invalid_response', `${what}: no end after ${MOST_PAGES} pages`);
}
