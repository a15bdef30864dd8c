import { DatabaseSync } from 'node:sqlite';
import { createPrivateFile } from '../kit/new-file.ts';
import { StoreError, sqliteCode } from './errors.ts';

/** SQLITE_BUSY: another connection holds a lock. */
const BUSY = 5;

/**
 * Locks `path` until the returned function is called or the process ends. Throws StoreError `locked` if it is already locked, even
 * by this process.
 * Node.js has no flock, so SQLite provides the file lock: an exclusive transaction on the empty file `<path>-lock`. The system
 * releases it with the process, child processes do not inherit it, and it works across containers that share the disk. The
 * database stays unlocked, so others may read it. The lock file is never deleted: otherwise a process waiting for the deleted file
 * and one creating a new file could both hold the lock. Only SQLite may open the lock file, because closing any handle of a file
 * releases the process's locks on it.
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
