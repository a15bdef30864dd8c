import { readFileSync, realpathSync, statSync } from 'node:fs';
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
