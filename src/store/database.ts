import {
  accessSync,
  closeSync,
  constants,
  existsSync,
  fsyncSync,
  lstatSync,
  openSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { syncFolder } from '../kit/durable-file.ts';
import { createPrivateFile, createPrivateFolder } from '../kit/new-file.ts';
import { StoreError, sqliteCode, toStoreError } from './errors.ts';
import { lockForProcess } from './lock.ts';
import { checkSchema, createSchema, proveWritable, requireSchema } from './schema.ts';

export interface Database {
  readonly file: string;
  readonly db: DatabaseSync;
  /** Throws StoreError `replaced` when what is written now would not be found at the file's path any more. */
  assertInPlace(): void;
  /** Frees everything. The last to close copies what the WAL holds into the file. */
  close(): void;
}

/** To wait, blocking, for another program's lock. Readers never hold one that counts, other writers should not exist. */
const BUSY_TIMEOUT_MS = 500;

/**
 * Bytes up to which a file is checked whole at the start: 70 ms of a core when it is in memory. Every collector reads its
 * rows at the start anyway, and meets damaged pages there; a larger file has to do with that.
 */
const LARGEST_CHECKED = 64 * 2 ** 20;

/** Bytes of SQLite's smallest page (sqlite.org/fileformat2.html). */
const SMALLEST_PAGE = 512;

/** A journal left by a death before the file was in WAL mode: only a connection that may write can read on. */
const READONLY_ROLLBACK = 776;

const SETTINGS = `
  PRAGMA synchronous = FULL;
  PRAGMA fullfsync = ON;
  PRAGMA wal_autocheckpoint = 1000;
  PRAGMA journal_size_limit = 16777216;
`;

function sizeOf(path: string): number | undefined {
  return statSync(path, { throwIfNoEntry: false })?.size;
}

/** The same text for every path of a file, because lock and WAL are named after it. The file need not exist. */
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

/** Refuses, before anything is written, what SQLite would take for an empty database, and what needs clearer words than it has. */
function assertUsable(file: string): void {
  const stat = statSync(file, { throwIfNoEntry: false });
  if (!stat?.size && sizeOf(`${file}-wal`)) {
    // SQLite would make a new database, and delete the WAL as one that does not belong to it.
    throw new StoreError('corrupt', file, `it is empty or missing, but ${basename(file)}-wal holds rows`);
  }
  if (!stat) {
    const link = lstatSync(file, { throwIfNoEntry: false });
    if (link) throw new StoreError('path', file, 'a link to nothing');
    return;
  }
  if (!stat.isFile()) throw new StoreError('path', file, 'not a regular file');
  accessSync(file, constants.R_OK | constants.W_OK);
  // SQLite would take it for empty and write over it.
  if (stat.size > 0 && stat.size < SMALLEST_PAGE) throw new StoreError('corrupt', file, `only ${stat.size} bytes`);
}

/** Throws StoreError when the file is not one to write in. Looks through a connection that can't write, so that a bad file stays as it is. */
function inspect(file: string): void {
  const size = sizeOf(file);
  if (!size) return;
  const db = new DatabaseSync(file, { readOnly: true, timeout: BUSY_TIMEOUT_MS });
  try {
    checkSchema(db, file);
    if (size > LARGEST_CHECKED) return;
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
    if (mode !== 'wal') throw new StoreError('path', file, 'its file system has no shared memory for a WAL');
    db.exec(SETTINGS);
    createSchema(db);
    proveWritable(db);
    return db;
  } catch (error) {
    db.close();
    throw error;
  }
}

/** Gives a function that throws once one of these paths leads to another file than now. */
function watch(paths: readonly string[]): () => void {
  const identities = paths.map(identityOf);
  return () => {
    const gone = paths.find((path, index) => identityOf(path) !== identities[index]);
    if (gone !== undefined) throw new StoreError('replaced', gone);
  };
}

/** Opens the database for this process alone and creates it if missing (folder 0700, files 0600). Throws StoreError. */
export function openDatabase(path: string): Database {
  try {
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
  } catch (error) {
    throw toStoreError(error, resolve(path));
  }
}

/** To wait, blocking, for the agent's transaction: longer than one takes on a slow disk. */
const ATTACHED_BUSY_TIMEOUT_MS = 5000;

/** Opens an existing database while its agent may use it: no lock, no schema change, no checkpoint while another process uses it. Throws StoreError. */
export function attachDatabase(path: string): Database {
  try {
    if (!existsSync(path)) throw new StoreError('missing', resolve(path));
    const file = realpathSync(path);
    assertUsable(file);
    const db = new DatabaseSync(file, { timeout: ATTACHED_BUSY_TIMEOUT_MS });
    try {
      requireSchema(db, file);
      // A checkpoint is the agent's work: it would be waited for here, and there by others.
      db.exec('PRAGMA synchronous = FULL; PRAGMA fullfsync = ON; PRAGMA wal_autocheckpoint = 0');
      // From its first read to its end, a connection holds a lock that keeps every other from removing the WAL.
      return { file, db, assertInPlace: watch([file, `${file}-wal`]), close: () => db.close() };
    } catch (error) {
      db.close();
      throw error;
    }
  } catch (error) {
    throw toStoreError(error, resolve(path));
  }
}

/**
 * Writes a consistent copy of the database at `path` to the new file `target` (mode 0600, synced), also while an agent uses
 * it. Returns its size in bytes. Throws an Error if `target` exists or cannot be written. A killed process leaves
 * `….unfinished`.
 */
export function backupDatabase(path: string, target: string): number {
  if (lstatSync(target, { throwIfNoEntry: false })) throw new Error(`${target} exists already: name a new file`);
  const source = attachDatabase(path);
  // Absolute: SQLite reads a name such as `file:backup.db` as a URI.
  const unfinished = `${resolve(target)}.${process.pid}.unfinished`;
  try {
    const handle = openSync(unfinished, 'wx', 0o600);
    try {
      // SQLite's online backup restarts with every commit of another process. This is one read transaction, which delays no commit.
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
    // The last connection does this by itself; with a reader there, the file alone would else lack the latest rows.
    db.exec('PRAGMA wal_checkpoint(PASSIVE)');
  } catch {
    // They stay in the WAL, durable, and are copied when the file is opened next.
  }
  try {
    db.close();
  } finally {
    unlock();
  }
}
