import { BoundedMap } from '../kit/bounded-map.ts';
import { UpstreamError } from './errors.ts';

export interface Page<Row> {
  readonly rows: readonly Row[];
  /** Rows of this page that could not be read and are left out. */
  readonly rejected: number;
}

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

/** Yields pages up to the first without a cursor. Throws UpstreamError `invalid_response` if the cursors repeat or never end. */
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
    if (seen.has(cursor)) throw new UpstreamError('invalid_response', `${what}: the service repeated a cursor`);
    seen.set(cursor, true);
  }
  throw new UpstreamError('invalid_response', `${what}: no end after ${MOST_PAGES} pages`);
}

export interface ListPath {
  /** The path, or the one that is asked first. */
  readonly latest: string;
  /** Reads at the path; where there are several, at the first that the service knows. That one comes first from then on. */
  first<T>(read: (path: string) => Promise<T>): Promise<T>;
}

export const listPath = (path: string): ListPath => ({ latest: path, first: read => read(path) });

/** The event log is being renamed: services have it under either name, or both. */
const EVENT_PATHS = ['/v2/events', '/v2/logs'];

const isNoSuchPath = (error: unknown) =>
  error instanceof UpstreamError && (error.status === 404 || error.status === 405);

/** `setting`: `auto`, or the path. What was found is known to this process alone: the next one asks once more. */
export function eventsPath(setting: string): ListPath {
  if (setting !== 'auto') return listPath(setting);
  let paths: readonly string[] = EVENT_PATHS;
  return {
    get latest() {
      return paths[0] as string;
    },
    async first(read) {
      let unknown: unknown;
      for (const path of paths) {
        try {
          const found = await read(path);
          paths = [path, ...EVENT_PATHS.filter(other => other !== path)];
          return found;
        } catch (error) {
          if (!isNoSuchPath(error)) throw error;
          unknown ??= error;
        }
      }
      throw unknown;
    },
  };
}
