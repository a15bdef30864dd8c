import type { DatabaseSync } from 'node:sqlite';
import { StoreError } from './errors.ts';

/** Number n, from 1, takes the schema from n - 1 to n. Only ever append: files in use have run the earlier ones. */
const MIGRATIONS: readonly string[] = [
  // WITHOUT ROWID: a prefix of keys lies side by side in the one tree. Text compares by bytes, case included.
  `CREATE TABLE rows (
     account TEXT NOT NULL,
     key TEXT NOT NULL,
     value TEXT NOT NULL,
     PRIMARY KEY (account, key)
   ) STRICT, WITHOUT ROWID`,
];

/** `dWch` in the file's header: says that a file is ours before anything in it is touched. */
const APPLICATION_ID = 0x64576368;

function pragma(db: DatabaseSync, name: string): number {
  return Number(db.prepare(`PRAGMA ${name}`).get()?.[name]);
}

/** Throws when the file is another program's, newer than this one or without its table. Changes nothing. */
export function checkSchema(db: DatabaseSync, path: string): void {
  const version = pragma(db, 'user_version');
  if (pragma(db, 'application_id') !== APPLICATION_ID) {
    const tables = db.prepare('SELECT count(*) AS count FROM sqlite_schema').get()?.count;
    if (version !== 0 || tables !== 0) throw new StoreError('foreign', path);
  }
  if (version > MIGRATIONS.length) {
    throw new StoreError('newer', path, `schema ${version}, this version knows ${MIGRATIONS.length}`);
  }
  // To compile this is to look whether the table is there.
  if (version > 0) db.prepare('SELECT account, key, value FROM rows');
}

/** Throws when the file is not of this very version, as `checkSchema` does. Changes nothing. */
export function requireSchema(db: DatabaseSync, path: string): void {
  checkSchema(db, path);
  const version = pragma(db, 'user_version');
  if (version < MIGRATIONS.length) {
    throw new StoreError('older', path, `schema ${version}, this version has ${MIGRATIONS.length}`);
  }
}

/** Brings the schema up to date, one transaction a step. */
export function migrate(db: DatabaseSync): void {
  for (let version = pragma(db, 'user_version'); version < MIGRATIONS.length; version += 1) {
    transaction(db, () => {
      db.exec(MIGRATIONS[version] as string);
      db.exec(`PRAGMA application_id = ${APPLICATION_ID}; PRAGMA user_version = ${version + 1}`);
    });
  }
}

/** Writes what is there already, durably: shows at the start that writing works. */
export function proveWritable(db: DatabaseSync): void {
  transaction(db, () => db.exec(`PRAGMA user_version = ${MIGRATIONS.length}`));
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
