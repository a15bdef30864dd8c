import { closeSync, existsSync, openSync, readSync } from 'node:fs';
import { basename } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { pathToFileURL } from 'node:url';
import { StoreError } from './errors.ts';

/** Number of bytes of a frame's header and page and of the WAL's header (sqlite.org/fileformat2.html#walformat). */
const [FRAME, HEADER] = [24 + 4096, 32];
const MARK = 'dWch';
/** Number of characters of a link: the mark, and 24 for each of the states before and after the transaction. */
const LENGTH = 52;
// VACUUM, which moves rows to other pages, increments the schema's version.
const VERSION = "(SELECT printf('%08x', schema_version) FROM pragma_schema_version)";
const STATE = `substr(link, 29, 16) || ${VERSION}`;

/**
 * SQLite applies every WAL that it finds next to a file, even the WAL of a file that a backup has replaced. Therefore each
 * transaction writes a random state and the previous one to the only row of this table, so that a WAL names the state that it continues.
 */
export const CREATE_LINK = `
  CREATE TABLE IF NOT EXISTS wal_link (link TEXT NOT NULL) STRICT;
  INSERT INTO wal_link SELECT '${MARK.padEnd(LENGTH, '0')}' WHERE NOT EXISTS (SELECT 1 FROM wal_link)`;
export const CHANGE_LINK = `UPDATE wal_link SET link = '${MARK}' || ${STATE} || lower(hex(randomblob(8))) || ${VERSION}`;

/** Returns the state of a file without its WAL; undefined if it is unreadable, or has no tables yet. */
function stateOf(file: string): string | undefined {
  const db = new DatabaseSync(new URL(`${pathToFileURL(file)}?immutable=1`), { readOnly: true });
  try {
    return String(db.prepare(`SELECT ${STATE} AS state FROM wal_link`).get()?.state);
  } catch {
    return undefined;
  } finally {
    db.close();
  }
}

/**
 * Yields the links in a WAL. Each is the end of its page, because a page of the table has one row. Reads frame by frame: while a
 * program reads the database, its WAL may grow by gigabytes.
 */
function* linksIn(wal: string): Generator<string> {
  const [header, frame] = [Buffer.alloc(HEADER), Buffer.alloc(FRAME)];
  const handle = openSync(wal, 'r');
  try {
    readSync(handle, header);
    // Frames with another salt precede the last restart of the WAL.
    for (let at = HEADER; readSync(handle, frame, 0, FRAME, at) === FRAME; at += FRAME) {
      if (frame.compare(header, 16, 24, 8, 16) !== 0) return;
      const link = frame.toString('latin1', FRAME - LENGTH);
      if (link.startsWith(MARK)) yield link;
    }
  } finally {
    closeSync(handle);
  }
}

/** Throws StoreError `leftover` if the WAL next to a file continues another file. Reads only. */
export function checkWal(file: string): void {
  const wal = `${file}-wal`;
  const isContinued = () => {
    const state = stateOf(file);
    if (state === undefined || !existsSync(wal)) return true;
    let hasLinks = false;
    for (const link of linksIn(wal)) {
      if (link.includes(state)) return true;
      hasLinks = true;
    }
    return !hasLinks;
  };
  // An agent may have restarted the WAL after the file was read: try again.
  if (!isContinued() && !isContinued()) throw new StoreError('leftover', file, basename(wal));
}
