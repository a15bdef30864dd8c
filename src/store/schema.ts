import type { DatabaseSync } from 'node:sqlite';
import { StoreError } from './errors.ts';

/** Version of the table and of the rows in it. A file with another version is refused. */
const VERSION = 2;

// WITHOUT ROWID: a prefix of keys lies side by side in the one tree. Text compares by bytes, case included.
const TABLE = `CREATE TABLE rows (
     account TEXT NOT NULL,
     key TEXT NOT NULL,
     value TEXT NOT NULL,
     PRIMARY KEY (account, key)
   ) STRICT, WITHOUT ROWID`;

/** `dWch` in the file's header: shows that a file is ours before anything in it is touched. */
const APPLICATION_ID = 0x64576368;

function pragma(db: DatabaseSync, name: string): number {
  return Number(db.prepare(`PRAGMA ${name}`).get()?.[name]);
}

/** Throws if the file is another program's, of another version or without its table. Accepts an empty file. Changes nothing. */
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

/** Throws as `checkSchema` does, and if the file is empty. Changes nothing. */
export function requireSchema(db: DatabaseSync, path: string): void {
  checkSchema(db, path);
  if (pragma(db, 'user_version') === 0) throw new StoreError('missing', path, 'the file is empty');
}

export function createSchema(db: DatabaseSync): void {
  if (pragma(db, 'user_version') === VERSION) return;
  transaction(db, () => {
    db.exec(TABLE);
    db.exec(`PRAGMA application_id = ${APPLICATION_ID}; PRAGMA user_version = ${VERSION}`);
  });
}

/** Writes the version that the file has, durably: shows at the start that writing works. */
export function proveWritable(db: DatabaseSync): void {
  transaction(db, () => db.exec(`PRAGMA user_version = ${VERSION}`));
}

/** Runs `work` in one transaction: when it returns, all is committed; when it throws, nothing was written. */
function transaction(db: DatabaseSync, work: () => void): void {
  db.exec('BEGIN IMMEDIATE');
  try {
    work();
    db.exec('COMMIT');
  } catch (error) {
    // A full disk or a failed read makes SQLite roll back by itself.
    if (db.isTransaction) db.exec('ROLLBACK');
    throw error;
  }
}
