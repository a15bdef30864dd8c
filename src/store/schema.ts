import type { DatabaseSync } from 'node:sqlite';
import { StoreError } from './errors.ts';

/** Version of the table and its rows. A file with another version is refused. */
const VERSION = 2;

// WITHOUT ROWID keeps keys with the same prefix adjacent. Text compares by bytes.
const TABLE = `CREATE TABLE rows (
     account TEXT NOT NULL,
     key TEXT NOT NULL,
     value TEXT NOT NULL,
     PRIMARY KEY (account, key)
   ) STRICT, WITHOUT ROWID`;

/** `dWch` in the file's header: identifies our files before anything in them is changed. */
const APPLICATION_ID = 0x64576368;

function pragma(db: DatabaseSync, name: string): number {
  return Number(db.prepare(`PRAGMA ${name}`).get()?.[name]);
}

/** Checks that the file belongs to this program and has this version and its table. Accepts an empty file. */
export function checkSchema(db: DatabaseSync, path: string): void {
  const version = pragma(db, 'user_version');
  if (pragma(db, 'application_id') !== APPLICATION_ID) {
    const tables = db.prepare('SELECT count(*) AS count FROM sqlite_schema').get()?.count;
    if (version !== 0 || tables !== 0) throw new StoreError('foreign', path);
    return;
  }
  if (version !== VERSION) {
    const reason = version > VERSION ? 'newer' : 'older';
    throw new StoreError(reason, path, `schema ${version}, this version has ${VERSION}`);
  }
  // Compiling this query checks that the table exists.
  db.prepare('SELECT account, key, value FROM rows');
}

export function requireSchema(db: DatabaseSync, path: string): void {
  checkSchema(db, path);
  if (pragma(db, 'user_version') === 0) throw new StoreError('missing', path, 'the file is empty');
}

/** Creates the table if missing. Always writes the version durably, which proves at startup that writing works. */
export function createSchema(db: DatabaseSync): void {
  db.exec('BEGIN IMMEDIATE');
  try {
    if (pragma(db, 'user_version') !== VERSION) db.exec(TABLE);
    db.exec(`PRAGMA application_id = ${APPLICATION_ID}; PRAGMA user_version = ${VERSION}; COMMIT`);
  } catch (error) {
    // A full disk or a failed read makes SQLite roll back by itself.
    if (db.isTransaction) db.exec('ROLLBACK');
    throw error;
  }
}
