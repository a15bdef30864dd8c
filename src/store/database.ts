import {
  accessSync,
  closeSync,
  constants,
  existsSync,
  fsyncSync,
  lstatSync,
  openSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { syncFolder } from '../kit/durable-file.ts';
import { createPrivateFile, createPrivateFolder } from '../kit/new-file.ts';
import { StoreError, sqliteCode, withStoreErrors } from './errors.ts';

export interface Database {
  readonly file: string;
  readonly db: DatabaseSync;
  /** Throws StoreError `replaced` if another file is now at the path: writes would be lost. */
  assertInPlace(): void;
  /** Frees all resources. The last connection to close copies the WAL into the file. */
  close(): void;
}

/** Maximum time to block while another program holds a lock (ms). Readers hold no conflicting lock. */
const BUSY_TIMEOUT_MS = 500;

/**
 * Size of the largest file that is fully checked at startup (bytes). The check of such a file takes 70 ms. In larger files,
 * damage is found when rows are read.
 */
const MAX_CHECKED_BYTES = 64 * 2 ** 20;

/** See proc_pid_mountinfo(5). */
const MOUNTS = '/proc/self/mountinfo';
const FIRST_PAGE_BYTES = 4096;
/** SQLite's minimum page size in bytes (sqlite.org/fileformat2.html). */
const MIN_PAGE_BYTES = 512;

/**
 * SQLite's result code for a rollback journal, left by a crash before WAL mode was set. Only a writable connection recovers it.
 */
const READONLY_ROLLBACK = 776;

const SETTINGS = `
  PRAGMA synchronous = FULL;
  PRAGMA fullfsync = ON;
  PRAGMA wal_autocheckpoint = 1000;
  PRAGMA journal_size_limit = 16777216;
`;

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
function checkSchema(db: DatabaseSync, path: string): void {
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

/** Creates the table if missing. Always writes the version durably, which proves at startup that writing works. */
function createSchema(db: DatabaseSync): void {
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

/** SQLITE_BUSY: another connection holds a lock. */
const BUSY = 5;

/**
 * Locks `path` until the returned function is called or the process ends. Throws StoreError `locked` if it is already locked,
 * even by this process. Node.js has no flock, so SQLite provides the file lock: an exclusive transaction on the empty file
 * `<path>-lock`. The system releases it when the process ends, child processes do not inherit it, and it works across containers
 * that share the disk. The database stays unlocked, so others may read it. The lock file is never deleted: otherwise a process
 * waiting for the deleted file and one creating a new file could both hold the lock. Only SQLite may open the lock file, because
 * closing any handle of a file releases the process's locks on it.
 */
export function lockForProcess(path: string): () => void {
  const file = `${path}-lock`;
  createPrivateFile(file);
  const db = new DatabaseSync(file);
  try {
    // Keeps the journal in memory, to avoid another file.
    db.exec('PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE');
  } catch (cause) {
    db.close();
    if (((sqliteCode(cause) ?? 0) & 0xff) === BUSY) throw new StoreError('locked', path, '', { cause });
    throw cause;
  }
  return () => db.close();
}

/**
 * Returns the id of the process that locks `path`; undefined if unknown. Reads Linux's list of locks, because trying to take the
 * lock could prevent an agent from starting.
 */
export function lockHolder(path: string): string | undefined {
  try {
    const { ino } = statSync(`${realpathSync(path)}-lock`);
    // See proc_locks(5): `1: POSIX  ADVISORY  WRITE 7807 fe:00:2146760 1073741824 1073742335`.
    const held = new RegExp(`^\\d+: POSIX +ADVISORY +WRITE (\\d+) \\w+:\\w+:${ino} `, 'm');
    return held.exec(readFileSync('/proc/locks', 'utf8'))?.[1];
  } catch {
    return undefined;
  }
}

function sizeOf(path: string): number | undefined {
  return statSync(path, { throwIfNoEntry: false })?.size;
}

/** Resolves links, so that lock and WAL have the same name for every path of a file. The file need not exist. */
function followLinks(path: string): string {
  const folder = resolve(dirname(path));
  createPrivateFolder(folder);
  const file = join(realpathSync(folder), basename(path));
  return sizeOf(file) === undefined ? file : realpathSync(file);
}

function identityOf(path: string): string {
  const stat = statSync(path, { bigint: true, throwIfNoEntry: false });
  return `${stat?.dev}:${stat?.ino}`;
}

/** Whether the file itself is mounted at this path. Reads Linux's list of mounts, in which special characters are octal. */
function isMountPoint(file: string): boolean {
  const name = file.replace(/[\s\\]/g, char => `\\${char.charCodeAt(0).toString(8).padStart(3, '0')}`);
  return existsSync(MOUNTS) && readFileSync(MOUNTS, 'utf8').includes(` ${name} `);
}

/** Rejects files that SQLite would damage, mistake for an empty database or report with an unclear error. */
function assertUsable(file: string): void {
  const stat = statSync(file, { throwIfNoEntry: false });
  if (!stat?.size && sizeOf(`${file}-wal`)) {
    // SQLite would create a new database and delete the WAL as unrelated.
    throw new StoreError('corrupt', file, `it is empty or missing, but ${basename(file)}-wal contains rows`);
  }
  if (!stat) {
    const link = lstatSync(file, { throwIfNoEntry: false });
    if (link) throw new StoreError('path', file, 'a broken link');
    return;
  }
  if (!stat.isFile()) throw new StoreError('path', file, 'not a regular file');
  if (stat.nlink > 1 || isMountPoint(file)) throw new StoreError('linked', file);
  for (const path of [file, `${file}-wal`, `${file}-shm`]) {
    if (sizeOf(path) !== undefined) withStoreErrors(path, () => accessSync(path, constants.R_OK | constants.W_OK));
  }
  // The agent needs a rollback journal only to create the first page.
  if (stat.size > FIRST_PAGE_BYTES && sizeOf(`${file}-journal`)) {
    throw new StoreError('leftover', file, `${basename(file)}-journal`);
  }
  // SQLite would treat such a file as empty and overwrite it.
  if (stat.size > 0 && stat.size < MIN_PAGE_BYTES) throw new StoreError('corrupt', file, `only ${stat.size} bytes`);
}

/** Checks the file through a read-only connection, which leaves a bad file unchanged. */
function inspect(file: string): void {
  const size = sizeOf(file);
  if (!size) return;
  const db = new DatabaseSync(file, { readOnly: true, timeout: BUSY_TIMEOUT_MS });
  try {
    checkSchema(db, file);
    if (size > MAX_CHECKED_BYTES) return;
    const found = String(db.prepare('PRAGMA quick_check(1)').get()?.quick_check);
    if (found !== 'ok') throw new StoreError('corrupt', file, found.replaceAll('\n', ' '));
  } catch (error) {
    if (sqliteCode(error) !== READONLY_ROLLBACK) throw error;
  } finally {
    db.close();
  }
}

function connect(file: string): DatabaseSync {
  const db = new DatabaseSync(file, { timeout: BUSY_TIMEOUT_MS });
  try {
    checkSchema(db, file);
    const mode = db.prepare('PRAGMA journal_mode = WAL').get()?.journal_mode;
    if (mode !== 'wal')
      throw new StoreError('path', file, 'its file system does not support the shared memory that a WAL needs');
    db.exec(SETTINGS);
    createSchema(db);
    return db;
  } catch (error) {
    db.close();
    throw error;
  }
}

function watch(paths: readonly string[]): () => void {
  const identities = paths.map(identityOf);
  return () => {
    const replaced = paths.find((path, index) => identityOf(path) !== identities[index]);
    if (replaced !== undefined) throw new StoreError('replaced', replaced);
  };
}

/** Opens the database for this process alone and creates it if missing (folder 0700, files 0600). Throws StoreError. */
export function openDatabase(path: string): Database {
  return withStoreErrors(resolve(path), () => {
    const file = followLinks(path);
    const unlock = lockForProcess(file);
    try {
      assertUsable(file);
      createPrivateFile(file);
      inspect(file);
      const db = connect(file);
      const assertInPlace = watch([file, `${file}-wal`, `${file}-lock`]);
      return { file, db, assertInPlace, close: () => close(db, unlock) };
    } catch (error) {
      unlock();
      throw error;
    }
  });
}

/** Maximum time to block (ms): longer than the agent's transactions take on a slow disk. */
const ATTACHED_BUSY_TIMEOUT_MS = 5000;

/** Opens an existing database that an agent may be using. Takes no lock and changes no schema. Throws StoreError. */
export function attachDatabase(path: string): Database {
  return withStoreErrors(resolve(path), () => {
    if (!existsSync(path)) throw new StoreError('missing', resolve(path));
    const file = realpathSync(path);
    assertUsable(file);
    const db = new DatabaseSync(file, { timeout: ATTACHED_BUSY_TIMEOUT_MS });
    try {
      checkSchema(db, file);
      if (pragma(db, 'user_version') === 0) throw new StoreError('missing', file, 'the file is empty');
      // Leave checkpoints to the agent: a checkpoint here would block this process and the agent's commits.
      db.exec('PRAGMA synchronous = FULL; PRAGMA fullfsync = ON; PRAGMA wal_autocheckpoint = 0');
      // From its first read until it closes, a connection holds a lock that prevents others from removing the WAL.
      return { file, db, assertInPlace: watch([file, `${file}-wal`]), close: () => db.close() };
    } catch (error) {
      db.close();
      throw error;
    }
  });
}

/** Returns the nearest existing parent folder. */
function folderOf(path: string): string {
  const folder = dirname(resolve(path));
  return existsSync(folder) ? folder : folderOf(folder);
}

/**
 * Inspects the database without a lock, because an agent may be using it. `version`: undefined if the database does not exist
 * yet; `holder`: id of the process that locks it, if known. Throws StoreError if an agent could not start with it.
 */
export function inspectSqlite(path: string) {
  const file = resolve(path);
  const isNew = !statSync(file, { throwIfNoEntry: false })?.size;
  const folder = isNew ? folderOf(file) : dirname(realpathSync(file));
  withStoreErrors(file, () => accessSync(folder, constants.W_OK | constants.X_OK));
  if (isNew) return { file, version: undefined, size: 0, holder: undefined };
  const database = attachDatabase(file);
  try {
    const version = database.db.prepare('PRAGMA user_version').get()?.user_version;
    return { file: database.file, version, size: statSync(database.file).size, holder: lockHolder(database.file) };
  } finally {
    database.close();
  }
}

/**
 * Writes a consistent copy of the database at `path` to the new file `target` (mode 0600, synced), even while an agent
 * uses it. Returns the copy's size in bytes. Throws an Error if `target` exists or cannot be written. If the process is
 * killed, `….unfinished` remains.
 */
export function backupDatabase(path: string, target: string): number {
  if (lstatSync(target, { throwIfNoEntry: false })) throw new Error(`${target} already exists: name a new file`);
  const source = attachDatabase(path);
  // Use an absolute path: SQLite reads a name such as `file:backup.db` as a URI.
  const unfinished = `${resolve(target)}.${process.pid}.unfinished`;
  try {
    const handle = openSync(unfinished, 'wx', 0o600);
    try {
      // SQLite's online backup restarts with every commit of another process. VACUUM is one read transaction and delays no commit.
      source.db.prepare('VACUUM INTO ?').run(unfinished);
      fsyncSync(handle);
    } finally {
      closeSync(handle);
    }
    renameSync(unfinished, target);
    syncFolder(dirname(target));
    return statSync(target).size;
  } catch (error) {
    rmSync(unfinished, { force: true });
    const why = error instanceof Error ? error.message : String(error);
    throw new Error(`failed to copy ${source.file} to ${target}: ${why}`, { cause: error });
  } finally {
    source.close();
  }
}

function close(db: DatabaseSync, unlock: () => void): void {
  try {
    // SQLite checkpoints only when the last connection closes; while readers remain, the file alone would lack the latest rows.
    db.exec('PRAGMA wal_checkpoint(PASSIVE)');
  } catch {
    // The rows stay in the WAL.
  }
  try {
    db.close();
  } finally {
    unlock();
  }
}
