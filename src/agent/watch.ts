import { createHash } from 'node:crypto';
import { glob, readFile } from 'node:fs/promises';
import { dirname, isAbsolute, join, resolve } from 'node:path';
import type { LoadedConfig } from '../config/load.ts';

/** Text of a file, or why it can't be read: another reason is another state. */
async function stateOf(file: string): Promise<string> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    return `\0${(error as NodeJS.ErrnoException).code}`;
  }
}

/** Account files that exist now, in the order of loading. Asynchronous: a slow file system must not block other work. */
async function accountFiles(file: string, patterns: readonly string[]): Promise<readonly string[]> {
  const found: string[] = [];
  for (const pattern of patterns) {
    const names: string[] = [];
    for await (const name of glob(pattern, { cwd: dirname(file) })) names.push(name);
    found.push(...names.sort().map(name => (isAbsolute(name) ? name : join(dirname(file), name))));
  }
  return [...new Map(found.map(path => [resolve(path), path])).values()];
}

/** Equal for equal content of a configuration's files. */
export interface FilesState {
  /** As `LoadedConfig.hash`. */
  readonly hash: string;
  /** Hash of the other files that it names, except secrets and the web-config file, which are read when they are needed. */
  readonly others: string;
}

/** Reads the files that a configuration consists of. Never rejects. */
export async function readState({ file, config }: Pick<LoadedConfig, 'file' | 'config'>): Promise<FilesState> {
  const hash = createHash('sha256').update(await stateOf(file));
  const files = await accountFiles(file, config.accountFiles).catch(() => []);
  for (const path of files) hash.update(await stateOf(path));
  const others = createHash('sha256');
  const named = config.accounts.map(({ upstream }) => upstream.caFile);
  for (const path of new Set(named)) if (path !== null) others.update(`${path}\0${await stateOf(path)}\0`);
  return { hash: hash.digest('hex').slice(0, 16), others: others.digest('hex') };
}

export const isSameState = (a: FilesState | undefined, b: FilesState | undefined) =>
  a?.hash === b?.hash && a?.others === b?.others;

interface WatchDeps {
  loaded(): Pick<LoadedConfig, 'file' | 'config'>;
  /** State of the files at the last attempt to load them; undefined to repeat the attempt. */
  tried(): FilesState | undefined;
  reload(): Promise<unknown>;
}

/** Maximum number of skipped checks: five minutes at one check every five seconds. */
const MOST_LEFT_OUT = 60;

/**
 * Returns the body of a loop that reloads when files have changed, once two consecutive readings are equal: an editor, or a mounted
 * volume, may be writing. An invalid configuration is tried again when it changes; after other failures, less and less often.
 */
export function createWatch({ loaded, tried, reload }: WatchDeps): () => Promise<void> {
  let seen: FilesState | undefined;
  /** Checks that are skipped before a failure is tried again, and their number after the next failure. */
  let [left, next] = [0, 1];
  return async () => {
    const now = await readState(loaded());
    const isCalm = isSameState(now, seen);
    seen = now;
    if (!isCalm) [left, next] = [0, 1];
    else if (left > 0) left -= 1;
    else if (!isSameState(now, tried())) {
      await reload();
      // Each attempt stops what has changed, and starts it again when it fails.
      if (tried() === undefined) [left, next] = [next, Math.min(next * 2, MOST_LEFT_OUT)];
    }
  };
}
