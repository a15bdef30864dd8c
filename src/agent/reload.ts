import { createHash } from 'node:crypto';
import { readFile, stat } from 'node:fs/promises';
import { ENVIRONMENT, environmentText } from '../config/default-file.ts';
import { valueAt } from '../config/errors.ts';
import { namedFiles, ownFiles } from '../config/files.ts';
import { ConfigError, type LoadedConfig, type LocatedError, loadConfig, withPath } from '../config/load.ts';
import type { ReloadError, ReloadResult } from '../http/served.ts';
import { identityOf } from '../kit/identity.ts';
import { whyNotRead } from '../kit/regular-file.ts';
import type { Runtime } from '../kit/runtime.ts';
import type { Supervisor } from './supervisor.ts';

/** Returns the content of a file, or an error code. */
async function stateOf(file: string): Promise<string> {
  if (file === ENVIRONMENT) return environmentText(process.env);
  try {
    // A pipe would block a thread.
    return whyNotRead(await stat(file), Number.POSITIVE_INFINITY) ?? (await readFile(file, 'utf8'));
  } catch (error) {
    return `\0${(error as NodeJS.ErrnoException).code}`;
  }
}

interface FilesState {
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

const isSameState = (a: FilesState | undefined, b: FilesState | undefined) =>
  a?.hash === b?.hash && a?.others === b?.others;

export type Reloading = ReturnType<typeof createReloading>;

export interface ReloadDeps extends Pick<Runtime, 'log' | 'env'> {
  readonly supervisor: Pick<Supervisor, 'loaded' | 'reload'>;
  /** Records whether the last attempt could load the configuration. */
  configRead(isValid: boolean): void;
  readonly tried: FilesState | undefined;
}

/** Settings that change only with a restart. */
const FIXED = [
  ...['kind', 'path', 'url', 'schema', 'lease'].map(key => ['store', key]),
  ...['replicaUrl', 'listen', 'probesListen', 'webConfigFile'].map(key => ['server', key]),
];

function refusals(before: LoadedConfig, next: LoadedConfig): LocatedError[] {
  const { file } = next;
  return FIXED.flatMap((path): LocatedError[] => {
    if (identityOf(valueAt(before.config, path)) === identityOf(valueAt(next.config, path))) return [];
    const place = next.place?.(path) ?? { file, line: 1, column: 1, path: path.join('.') };
    return [{ ...place, message: `can't change while the agent runs; restart the agent to apply the change` }];
  });
}

type Refusal = LocatedError | { readonly file: string; readonly message: string };

function toReloadError(error: Refusal): ReloadError {
  if (!('line' in error)) return error;
  const { path, message, ...place } = error;
  return { ...place, message: withPath(path, message) };
}

export function createReloading({ supervisor, log, env, configRead, ...deps }: ReloadDeps) {
  let tried = deps.tried;
  let isClosed = false;
  let running: Promise<ReloadResult> | undefined;
  let following: Promise<ReloadResult> | undefined;

  function assertOpen(): void {
    if (isClosed) throw new Error('the agent is stopping');
  }

  async function apply(next: LoadedConfig): Promise<ReloadResult> {
    assertOpen();
    const changed = await supervisor.reload(next);
    const message = changed.length > 0 ? 'configuration reloaded' : 'configuration reloaded without changes';
    log.info({ file: next.file, hash: next.hash, changed }, message);
    return { changed };
  }

  function refuse(faults: readonly Refusal[]): ReloadResult {
    for (const fault of faults) {
      const { message: _, ...place } = fault;
      log.error(place, toReloadError(fault).message);
    }
    const { file, hash } = supervisor.loaded;
    log.error({ file, hash }, 'failed to reload configuration; the current one stays in use');
    configRead(false);
    return { faults: faults.map(toReloadError) };
  }

  async function attempt(): Promise<ReloadResult> {
    const { file } = supervisor.loaded;
    try {
      tried = await readState(supervisor.loaded);
      const next = loadConfig(file, env);
      for (const { message, ...place } of next.warnings) log.warn(place, withPath(place.path, message));
      tried = { ...(await readState(next)), hash: next.filesHash };
      const refused = refusals(supervisor.loaded, next);
      return refused.length > 0 ? refuse(refused) : await apply(next);
    } catch (error) {
      if (error instanceof ConfigError) return refuse(error.errors);
      tried = undefined;
      return refuse([{ file, message: error instanceof Error ? error.message : String(error) }]);
    } finally {
      running = undefined;
    }
  }

  function start(): Promise<ReloadResult> {
    following = undefined;
    running = attempt();
    return running;
  }

  return {
    /** Reloads the configuration. Calls during a reload share the next one. Never rejects. */
    reload(): Promise<ReloadResult> {
      // Check `following` first: `running` is undefined between the end of a run and the start of the next.
      if (following) return following;
      if (!running) return start();
      following = running.then(start);
      return following;
    },
    /** Returns the state of the files at the last attempt; undefined if it failed for a reason other than their content. */
    tried: (): FilesState | undefined => tried,
    /** Rejects further reloads and waits for the current one. */
    async close(): Promise<void> {
      isClosed = true;
      await (following ?? running);
    },
  };
}

interface WatchDeps {
  loaded(): Pick<LoadedConfig, 'file' | 'config'>;
  /** Returns the state of the files at the last load attempt; undefined if the load must be retried. */
  tried(): FilesState | undefined;
  reload(): Promise<unknown>;
}

/** Maximum number of skipped checks: five minutes at the default interval. */
const MAX_SKIPPED = 60;

/**
 * Returns a loop body that reloads changed files when two consecutive checks agree, because a file may be incomplete at first.
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
