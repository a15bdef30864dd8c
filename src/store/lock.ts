import { DatabaseSync } from 'node:sqlite';
import { createPrivateFile } from '../kit/new-file.ts';
import { StoreError, sqliteCode } from './errors.ts';

/** SQLITE_BUSY: another connection holds a lock. */
const BUSY = 5;

/**
 * Keeps other processes, and other stores of this one, from locking `path` until the returned function is called or this
 * process ends, however it ends. Throws StoreError `locked` when another has it.
 *
 * Node has no flock, so SQLite is asked for its file lock: an exclusive transaction that stays open on the empty file
 * `<path>-lock`. The system frees it with the process, children do not inherit it, and it holds across containers that
 * share the disk. The database itself stays unlocked, so others may read it. The lock file is never deleted: a process
 * that waits on the deleted file and one that makes a new file would both have the lock. Nothing but SQLite may open it: a
 * process that closes any handle of a file loses its locks on it.
 */
export function lockForProcess(path: string): () => void {
  const file = `${path}-lock`;
  createPrivateFile(file);
  const db = new DatabaseSync(file);
  try {
    // In memory, because the transaction's journal would be one more file.
    db.exec('PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE');
  } catch (cause) {
    db.close();
    if (((sqliteCode(cause) ?? 0) & 0xff) === BUSY) throw new StoreError('locked', path, '', { cause });
    throw cause;
  }
  return () => db.close();
}
