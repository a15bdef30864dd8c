/** Why the store can't do what it was asked, and what the operator can do about it. Closed: reasons are log fields and labels. */
export const WORDS = {
  path: ["can't be opened", 'store.path must name a file in a folder that can be created and written'],
  readonly: ["can't be written", 'give this user write permission for the file, its folder and its file system'],
  locked: ['is in use by another process', 'stop that process, or give each its own store.path'],
  corrupt: [
    'is damaged or not a database',
    'it was left as it is; put a copy in its place, or move it away together with its -wal and -shm to start with an empty store',
  ],
  foreign: [
    'is a database of another program',
    'set store.path to a file of its own, or store.schema to a name that nothing else uses',
  ],
  newer: ['was written by a newer version', 'run that version, or give this one a store of its own'],
  older: ['was written by an older version', 'this version cannot read it: give this one a store of its own'],
  missing: ['does not exist', 'start the agent with it first, or name the store of the running agent'],
  unshared: [
    'is in the memory of the agent, where no other process can reach it',
    'set store.kind to sqlite or postgres',
  ],
  replaced: [
    'was removed or replaced while in use',
    'restart the agent to use the file that is there now; that file was not changed',
  ],
  full: ["can't be written: the disk is full", 'free space; the store then recovers by itself'],
  io: ["can't be read or written", 'check the disk and its quota; the store then recovers by itself'],
  away: [
    "can't be reached",
    'check that it runs, its address and the network; an agent that runs then recovers by itself',
  ],
  slow: [
    'did not answer in time',
    'look for locks, a full disk or too much work there; an agent that runs then recovers by itself',
  ],
  standby: ["can't be written: it is a standby, or read-only", 'let store.url lead to the primary'],
  refused: ['refuses this role', 'check user, password and database of store.url, and the privileges in docs/store.md'],
  untrusted: ['could not be proven to be the right server', 'check sslmode and sslrootcert of store.url'],
  encoding: ["can't hold every text", 'create the database with ENCODING UTF8'],
  invalid: ["can't hold this change", 'nothing of it was written'],
  not_held: ['belongs to another replica now', 'nothing was written; that replica goes on with it'],
  guard_failed: ['was changed by someone else', 'nothing was written'],
  closed: ['is closed', 'nothing was written'],
} as const;

export type StoreReason = keyof typeof WORDS;

/** The one error of this room. Its message names the file or server and what to do, never a key, a value, a user or a password. */
export class StoreError extends Error {
  override readonly name = 'StoreError';
  readonly reason: StoreReason;

  /** `subject` is what failed, mostly the file or server; `detail` stands in brackets behind what is wrong. */
  constructor(reason: StoreReason, subject: string, detail = '', options: { cause?: unknown } = {}) {
    const [wrong, remedy] = WORDS[reason];
    super(`${subject} ${wrong}${detail === '' ? '' : ` (${detail})`}: ${remedy}`, options);
    this.reason = reason;
  }
}

export const isNotHeld = (error: unknown): boolean => error instanceof StoreError && error.reason === 'not_held';

/** Whether the store certainly wrote nothing. After any other error of a commit its changes may be written, or be so later. */
export const isUndone = (error: unknown): boolean =>
  error instanceof StoreError && !['away', 'slow', 'io'].includes(error.reason);

export const isGuardFailed = (error: unknown): boolean =>
  error instanceof StoreError && error.reason === 'guard_failed';

/** SQLite's primary result codes (sqlite.org/rescode.html). 1, a plain error, means here that a table is not as it was made. */
const OF_SQLITE: Readonly<Record<number, StoreReason>> = {
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

/** SQLITE_IOERR_SHMSIZE: the WAL's shared memory is a file that could not grow. */
const SHM_SIZE = 4874;

const OF_SYSTEM: Readonly<Record<string, StoreReason>> = {
  EACCES: 'readonly',
  EPERM: 'readonly',
  EROFS: 'readonly',
  ENOSPC: 'full',
  EDQUOT: 'full',
  EIO: 'io',
  EMFILE: 'io',
  ENFILE: 'io',
};

/** SQLite's extended result code of an error; undefined when it is not SQLite's. */
export function sqliteCode(error: unknown): number | undefined {
  return error instanceof Error && 'errcode' in error && typeof error.errcode === 'number' ? error.errcode : undefined;
}

/** The same error in this room's words. What neither SQLite nor the system said is a bug and comes back as it is. */
export function toStoreError(error: unknown, path: string): unknown {
  if (!(error instanceof Error) || error instanceof StoreError) return error;
  const code = sqliteCode(error);
  if (code !== undefined) {
    const reason = code === SHM_SIZE ? 'full' : (OF_SQLITE[code & 0xff] ?? 'io');
    return new StoreError(reason, path, `SQLite ${code}: ${error.message}`, { cause: error });
  }
  const { code: name, syscall } = error as NodeJS.ErrnoException;
  if (name === undefined || syscall === undefined) return error;
  return new StoreError(OF_SYSTEM[name] ?? 'path', path, `${name}, ${syscall}`, { cause: error });
}
