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

/** Files that the patterns find now, each once, in the order in which they are loaded. */
async function accountFiles(file: string, patterns: readonly string[]): Promise<string[]> {
  const folder = dirname(file);
  const found: string[] = [];
  for (const pattern of patterns) {
    const names: string[] = [];
    for await (const name of glob(pattern, { cwd: folder })) names.push(name);
    found.push(...names.sort().map(name => (isAbsolute(name) ? name : join(folder, name))));
  }
  return [...new Map(found.map(path => [resolve(path), path])).values()];
}

/** Tells states of a configuration's files from each other. */
export interface FilesState {
  /** As `LoadedConfig.hash`. */
  readonly hash: string;
  /** Of the files that it names besides, but for secrets and the web-config file, which are read whenever they are needed. */
  readonly others: string;
}

/** Reads the files that a configuration consists of. Never rejects. */
export async function readState({ file, config }: Pick<LoadedConfig, 'file' | 'config'>): Promise<FilesState> {
  const hash = createHash('sha256').update(await stateOf(file));
  const more = await accountFiles(file, config.accountFiles).catch(() => []);
  for (const path of more) hash.update(await stateOf(path));
  const others = createHash('sha256');
  const named = config.accounts.map(({ upstream }) => upstream.caFile);
  for (const path of new Set(named)) if (path !== null) others.update(`${path}\0${await stateOf(path)}\0`);
  return { hash: hash.digest('hex').slice(0, 16), others: others.digest('hex') };
}

export const isSameState = (a: FilesState | undefined, b: FilesState | undefined) =>
  a?.hash === b?.hash && a?.others === b?.others;

export interface WatchDeps {
  /** The configuration in use. */
  loaded(): Pick<LoadedConfig, 'file' | 'config'>;
  /** What the files were like at the last attempt to load them; undefined: it shall be made again. */
  tried(): FilesState | undefined;
  reload(): Promise<unknown>;
}

/** Five minutes, where the files are looked at every five seconds. */
const MOST_LEFT_OUT = 60;

/**
 * Gives the body of a loop that reloads when files have changed, once two readings in a row are the same: an editor, or a
 * mounted volume, may be half-way. What can't be loaded is tried again when it changes; what fails for another reason, less and
 * less often.
 */
export function createWatch({ loaded, tried, reload }: WatchDeps): () => Promise<void> {
  let seen: FilesState | undefined;
  /** Looks that are left out before a failure is tried again, and how many will be after the next one. */
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
