import { BoundedMap } from '../kit/bounded-map.ts';
import { isMissingPath, UpstreamError } from './errors.ts';

export interface ListPage<Row> {
  readonly rows: readonly Row[];
  /** Number of unreadable rows of this page, which are skipped. */
  readonly rejected: number;
  /** Number of `rows` with an unreadable value, which is undefined. */
  readonly incomplete: number;
  readonly isLast: boolean;
}

/** `cursor`: start of the next page; undefined on the last one. */
export type CursorPage<Row> = Omit<ListPage<Row>, 'isLast'> & { readonly cursor: string | undefined };

/** Maximum number of pages: two million DLQ entries or twenty million events. A longer list is assumed to be endless. */
export const MAX_PAGES = 20_000;
/** Maximum cursor length (characters): cursors are part of a URL, and `CACHED_CURSORS` of them are cached. */
const MAX_CURSOR_LENGTH = 4096;
/** Number of recent cursors among which a repetition is detected. A longer cycle ends at `MAX_PAGES`. */
const CACHED_CURSORS = 1000;

/** Reads the pages of a list. Throws UpstreamError `invalid_response` if cursors repeat or never end. */
export async function* paginate<Row>(
  what: string,
  readPage: (cursor: string | undefined) => Promise<CursorPage<Row>>,
): AsyncGenerator<ListPage<Row>, void, void> {
  const seen = new BoundedMap<string, true>(CACHED_CURSORS);
  let cursor: string | undefined;
  for (let pages = 0; pages < MAX_PAGES; pages += 1) {
    const page = await readPage(cursor);
    cursor = page.cursor;
    const { rows, rejected, incomplete } = page;
    yield { rows, rejected, incomplete, isLast: cursor === undefined };
    if (cursor === undefined) return;
    if (cursor.length > MAX_CURSOR_LENGTH) {
      throw new UpstreamError('invalid_response', `${what}: a cursor of ${cursor.length} characters`);
    }
    if (seen.has(cursor)) throw new UpstreamError('invalid_response', `${what}: the service repeated a cursor`);
    seen.set(cursor, true);
  }
  throw new UpstreamError('invalid_response', `${what}: no end after ${MAX_PAGES} pages`);
}

/** Calls `read` with each candidate path until the service supports one. Later calls try that candidate first. */
export type ListPath = <T>(read: (path: string) => Promise<T>) => Promise<T>;

export const listPath =
  (path: string): ListPath =>
  read =>
    read(path);

/** Candidate paths of the event log. The path is being renamed, so services support either path or both. */
const EVENT_PATHS = ['/v2/events', '/v2/logs'];

/** Returns the path of the event log. `setting`: the path, or `auto` to detect it. */
export function eventsPath(setting: string): ListPath {
  if (setting !== 'auto') return listPath(setting);
  let paths: readonly string[] = EVENT_PATHS;
  return async read => {
    let unknown: unknown;
    for (const path of paths) {
      try {
        const found = await read(path);
        paths = [path, ...EVENT_PATHS.filter(other => other !== path)];
        return found;
      } catch (error) {
        if (!isMissingPath(error)) throw error;
        unknown ??= error;
      }
    }
    throw unknown;
  };
}
