import { printable } from '../kit/text.ts';

/** Problem and remedy by reason. The set is closed, because reasons are log fields and labels. */
export const PROBLEMS = {
  path: ["can't be opened", 'store.path must name a file in a folder that can be created and written'],
  readonly: ["can't be written", 'give this user write permission for the file, its folder and its file system'],
  locked: ['is in use by another process', 'stop that process, or give each process its own store.path'],
  corrupt: [
    'is damaged or not a database',
    'it was left unchanged; restore a backup, or move it away together with its -wal and -shm to start with an empty store',
  ],
  row: ['is damaged', 'stop the agent and restore a backup of the store, as in docs/store.md'],
  leftover: [
    'cannot be used with a file next to it that belongs to another store',
    'nothing was changed; if a backup was restored, move the named file away',
  ],
  linked: [
    'has more than one path, and each path has a separate lock and -wal',
    'remove the other hard links, and mount its folder instead of the file',
  ],
  foreign: [
    'is a database of another program',
    'set store.path to a dedicated file, or store.schema to an unused name',
  ],
  newer: ['was written by a newer version', 'run that version, or use a separate store'],
  older: ['was written by an older version', 'this version cannot read it: use a separate store'],
  missing: ['does not exist', 'start the agent first; use its configuration and working directory'],
  unshared: [
    'is in the memory of the agent, which other processes cannot access',
    'set store.kind to sqlite or postgres',
  ],
  replaced: ['was removed or replaced while in use', 'restart the agent to use the new file, which was not changed'],
  full: ["can't be written: the disk is full", 'free disk space; a running agent then recovers automatically'],
  io: ["can't be read or written", 'check the disk and its quota; a running agent then recovers automatically'],
  away: [
    "can't be reached",
    'check that it is running, its address and the network; a running agent then recovers automatically',
  ],
  slow: [
    'did not respond in time',
    'check for locks, a full disk or overload; a running agent then recovers automatically',
  ],
  standby: ["can't be written: it is a standby, or read-only", 'point store.url at the primary'],
  refused: ['refuses this role', 'check user, password and database of store.url, and the privileges in docs/store.md'],
  untrusted: ['could not be verified as the right server', 'check sslmode and sslrootcert of store.url'],
  encoding: ["can't store all text", 'create the database with ENCODING UTF8'],
  invalid: ["can't store this change", 'nothing was written'],
  not_held: ['is not led by this process', 'nothing was written; the leader continues'],
  revoked: ['was closed by this process', 'nothing was written'],
  lease_expired: ['was not written, because the lease had expired', 'the commit is repeated'],
  guard_failed: ['was changed concurrently', 'nothing was written'],
  closed: ['is closed', 'nothing was written'],
} as const;

export type StoreReason = keyof typeof PROBLEMS;

/** The message names the file, server or damaged row, and a remedy, but never a value, user or password. */
export class StoreError extends Error {
  override readonly name = 'StoreError';
  readonly reason: StoreReason;
  /** The end of the message. */
  readonly remedy: string;

  /** `subject` is usually the file or server; `detail` follows the problem in parentheses. */
  constructor(reason: StoreReason, subject: string, detail = '', options: { cause?: unknown } = {}) {
    const [wrong, remedy] = PROBLEMS[reason];
    super(`${subject} ${wrong}${detail === '' ? '' : ` (${detail})`}: ${remedy}`, options);
    this.reason = reason;
    this.remedy = remedy;
  }
}

/** Whether this process may no longer write: another one leads, or the account was closed. */
export const isNotHeld = (error: unknown): boolean =>
  error instanceof StoreError && ['not_held', 'revoked'].includes(error.reason);

/** Whether a failed commit certainly wrote nothing. After other errors, its changes may be in the store, now or later. */
export const isUndone = (error: unknown): boolean =>
  error instanceof StoreError && !['away', 'slow', 'io'].includes(error.reason);

export const isGuardFailed = (error: unknown): boolean =>
  error instanceof StoreError && error.reason === 'guard_failed';

/**
 * Reasons by SQLite's primary result code (sqlite.org/rescode.html). Code 1, a generic error, here means that a table was
 * altered.
 */
const REASON_BY_SQLITE_CODE: Readonly<Record<number, StoreReason>> = {
  1: 'corrupt',
  3: 'readonly',
  5: 'locked',
  6: 'locked',
  7: 'io',
  8: 'readonly',
  10: 'io',
  11: 'corrupt',
  13: 'full',
  14: 'path',
  15: 'io',
  18: 'invalid',
  22: 'io',
  26: 'corrupt',
};

/** SQLITE_IOERR_SHMSIZE: the WAL's shared memory could not grow. */
const SHM_SIZE = 4874;

const REASON_BY_ERRNO: Readonly<Record<string, StoreReason>> = {
  EACCES: 'readonly',
  EPERM: 'readonly',
  EROFS: 'readonly',
  ENOSPC: 'full',
  EDQUOT: 'full',
  EIO: 'io',
  EMFILE: 'io',
  ENFILE: 'io',
};

/** Returns SQLite's extended result code; undefined for other errors. */
export function sqliteCode(error: unknown): number | undefined {
  return error instanceof Error && 'errcode' in error && typeof error.errcode === 'number' ? error.errcode : undefined;
}

/** Converts SQLite and system errors to StoreError. Other errors are bugs and are returned unchanged. */
export function toStoreError(error: unknown, path: string): unknown {
  if (!(error instanceof Error) || error instanceof StoreError) return error;
  const code = sqliteCode(error);
  if (code !== undefined) {
    const reason = code === SHM_SIZE ? 'full' : (REASON_BY_SQLITE_CODE[code & 0xff] ?? 'io');
    return new StoreError(reason, path, `SQLite ${code}: ${error.message}`, { cause: error });
  }
  const { code: name, syscall } = error as NodeJS.ErrnoException;
  if (name === undefined || syscall === undefined) return error;
  return new StoreError(REASON_BY_ERRNO[name] ?? 'path', path, `${name}, ${syscall}`, { cause: error });
}

/** Reads a row. If `read` throws, throws StoreError `row` with the key of the row. */
export function readRow<T>(key: string, value: string, read: (value: string) => T = JSON.parse): T {
  try {
    return read(value);
  } catch (cause) {
    throw cause instanceof StoreError ? cause : new StoreError('row', `the row ${printable(key)}`, '', { cause });
  }
}

/** Reads rows together. If `read` throws, reads each row separately and throws StoreError `row` with the first bad row. */
export function readRows<T>(
  prefix: string,
  rows: ReadonlyMap<string, string>,
  read: (rows: ReadonlyMap<string, string>) => T,
): T {
  return readRow(`${prefix}*`, '', () => {
    try {
      return read(rows);
    } catch (cause) {
      for (const [key, value] of rows) readRow(prefix + key, value, () => read(new Map([[key, value]])));
      throw cause;
    }
  });
}

/** Runs `work` and converts its errors like `toStoreError`. */
export function withStoreErrors<T>(path: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw toStoreError(error, path);
  }
}
