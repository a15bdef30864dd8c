import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { ENVIRONMENT, environmentText } from '../config/default-file.ts';
import { namedFiles, ownFiles } from '../config/files.ts';
import type { LoadedConfig } from '../config/load.ts';

/** Returns the content of a file, or an error code. */
async function stateOf(file: string): Promise<string> {
  if (file === ENVIRONMENT) return environmentText(process.env);
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    return `\0${(error as NodeJS.ErrnoException).code}`;
  }
}

export interface FilesState {
  readonly hash: string | undefined;
  /** Hash of the watched files that settings name. */
  readonly others: string;
}

/** Hashes the files of a configuration. Never rejects. */
export async function readState({ file, config }: Pick<LoadedConfig, 'file' | 'config'>): Promise<FilesState> {
  const hash = createHash('sha256');
  for (const path of await ownFiles(file, config).catch(() => [file])) hash.update(await stateOf(path));
  const others = createHash('sha256');
  const watched = namedFiles(config).filter(({ isWatched }) => isWatched);
  for (const path of new Set(watched.map(each => each.file))) others.update(`${path}\0${await stateOf(path)}\0`);
  return { hash: hash.digest('hex'), others: others.digest('hex') };
}

export const isSameState = (a: FilesState | undefined, b: FilesState | undefined) =>
  a?.hash === b?.hash && a?.others === b?.others;

interface WatchDeps {
  loaded(): Pick<LoadedConfig, 'file' | 'config'>;
  /** Returns the state of the files at the last load attempt; undefined if the load must be retried. */
  tried(): FilesState | undefined;
  reload(): Promise<unknown>;
}

/** Maximum number of skipped checks: five minutes at the default interval. */
const MAX_SKIPPED = 60;

/**
 * Returns a loop body that reloads changed files once two consecutive checks agree, because a file may still be written.
 * Retries an invalid configuration when it changes, and other failures with increasing delays.
 */
export function createWatch({ loaded, tried, reload }: WatchDeps): () => Promise<void> {
  let seen: FilesState | undefined;
  let [left, next] = [0, 1];
  return async () => {
    const now = await readState(loaded());
    const isCalm = isSameState(now, seen);
    seen = now;
    if (!isCalm) [left, next] = [0, 1];
    else if (left > 0) left -= 1;
    else if (!isSameState(now, tried())) {
      await reload();
      if (tried() === undefined) [left, next] = [next, Math.min(next * 2, MAX_SKIPPED)];
    }
  };
}
