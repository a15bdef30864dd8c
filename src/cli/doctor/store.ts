import { accessSync, constants, existsSync, readFileSync, realpathSync, statfsSync, statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import type { Env } from '../../kit/secret.ts';
import { attachDatabase } from '../../store/database.ts';
import { PROBLEMS, StoreError } from '../../store/errors.ts';
import type { StoreOptions } from '../../store/options.ts';
import { type Diagnosis, fail, ok, skip, warn } from './checklist.ts';

const MIB = 2 ** 20;
/** Free disk space below which the check fails (bytes): the write-ahead log alone may need 16 MiB. */
const SPACE_FAILS = 32 * MIB;
const SPACE_WARNS = 512 * MIB;

const mib = (bytes: number) => `${Math.round(bytes / MIB).toLocaleString('en-US')} MiB`;

/** Returns the nearest existing parent folder. */
function folderOf(path: string): string {
  let folder = dirname(resolve(path));
  while (!existsSync(folder) && folder !== dirname(folder)) folder = dirname(folder);
  return folder;
}

/**
 * Returns the id of the process that locks the store; undefined if unknown. Reads Linux's list of locks, because trying to take
 * the lock could prevent an agent from starting.
 */
export function holderOf({ kind, path }: StoreOptions): number | undefined {
  if (kind !== 'sqlite') return undefined;
  try {
    const { ino } = statSync(`${realpathSync(path)}-lock`);
    // See proc_locks(5): `1: POSIX  ADVISORY  WRITE 7807 fe:00:2146760 1073741824 1073742335`.
    const held = new RegExp(`^\\d+: POSIX +ADVISORY +WRITE (\\d+) \\w+:\\w+:${ino} `, 'm');
    const [, pid] = held.exec(readFileSync('/proc/locks', 'utf8')) ?? [];
    return pid === undefined ? undefined : Number(pid);
  } catch {
    return undefined;
  }
}

function toFinding({ message, reason }: StoreError): Diagnosis {
  const [, todo] = PROBLEMS[reason];
  const detail = message.replace(`: ${todo}`, '');
  return fail(detail, todo);
}

async function checkPostgres({ url, schema }: StoreOptions, env: Env): Promise<Diagnosis> {
  if (url === null) return skip('needs store.url');
  const { inspectPostgres } = await import('../../store/postgres-inspect.ts');
  try {
    const { subject, version, leader } = await inspectPostgres({ url, schema }, { env });
    if (version === undefined)
      return ok(`${subject} has no tables in schema ${schema} yet; the agent creates them when it starts`);
    return ok(`${subject}, schema ${version}; ${leader === undefined ? 'no process leads' : `${leader} leads`}`);
  } catch (error) {
    if (error instanceof StoreError) return toFinding(error);
    throw error;
  }
}

/** Reads the store without a lock, because an agent may be running. */
export function checkStore(options: StoreOptions, env: Env): Diagnosis | Promise<Diagnosis> {
  const { kind, path } = options;
  if (kind === 'memory') return ok('in memory: counters restart at 0 with each process');
  if (kind === 'postgres') return checkPostgres(options, env);
  try {
    if (!existsSync(path) || statSync(path).size === 0) {
      const folder = folderOf(path);
      accessSync(folder, constants.W_OK | constants.X_OK);
      if (!statSync(folder).isDirectory()) return fail(`${folder} is not a folder`, PROBLEMS.path[1]);
      return ok(`${resolve(path)} does not exist yet; it can be created`);
    }
    const { db, file, close } = attachDatabase(path);
    try {
      accessSync(dirname(file), constants.W_OK | constants.X_OK);
      const version = db.prepare('PRAGMA user_version').get()?.user_version;
      const { mode, size } = statSync(file);
      const holder = holderOf(options);
      const held = holder === undefined ? '' : `; process ${holder} holds it`;
      const detail = `${file}, schema ${version}, ${mib(size)}${held}`;
      return mode & 0o077 ? warn(`${detail}; other users may open it`, `chmod 600 ${file}`) : ok(detail);
    } finally {
      close();
    }
  } catch (error) {
    if (error instanceof StoreError) return toFinding(error);
    const { code = 'error' } = error as NodeJS.ErrnoException;
    return fail(`the folder of ${resolve(path)} can't be written (${code})`, PROBLEMS.readonly[1]);
  }
}

export function checkDisk({ kind, path }: StoreOptions): Diagnosis {
  if (kind !== 'sqlite') return skip(`the store is in ${kind === 'memory' ? 'memory' : 'PostgreSQL'}`);
  const folder = folderOf(path);
  const { bavail, bsize } = statfsSync(folder);
  const free = bavail * bsize;
  const detail = `${mib(free)} free at ${folder}`;
  const todo = 'free disk space: without it, counters are frozen and auto-cancel sends nothing';
  if (free < SPACE_FAILS) return fail(detail, todo);
  return free < SPACE_WARNS ? warn(detail, todo) : ok(detail);
}
