import { ConfigError, type LoadedConfig, type LocatedError, loadConfig, withPath } from '../config/load.ts';
import type { ReloadError, ReloadResult } from '../http/served.ts';
import { identityOf } from '../kit/identity.ts';
import type { Runtime } from '../kit/runtime.ts';
import type { Supervisor } from './supervisor.ts';
import { type FilesState, isSameState, readState } from './watch.ts';

export type Reloading = ReturnType<typeof createReloading>;

export interface ReloadDeps extends Pick<Runtime, 'log' | 'env'> {
  readonly supervisor: Pick<Supervisor, 'loaded' | 'reload'>;
  /** Records whether the last attempt could load the configuration. */
  configRead(isValid: boolean): void;
  readonly tried: FilesState | undefined;
}

const FIXED: readonly (readonly [path: string[], of: (config: LoadedConfig['config']) => unknown])[] = [
  [['store', 'kind'], ({ store }) => store.kind],
  [['store', 'path'], ({ store }) => store.path],
  [['store', 'url'], ({ store }) => store.url],
  [['store', 'schema'], ({ store }) => store.schema],
  [['store', 'lease'], ({ store }) => store.lease],
  [['server', 'replicaUrl'], ({ server }) => server.replicaUrl],
  [['server', 'listen'], ({ server }) => server.listen],
  [['server', 'probesListen'], ({ server }) => server.probesListen],
  [['server', 'webConfigFile'], ({ server }) => server.webConfigFile],
];

function refusals(before: LoadedConfig, next: LoadedConfig): LocatedError[] {
  const { file } = next;
  return FIXED.flatMap(([path, of]): LocatedError[] => {
    if (identityOf(of(before.config)) === identityOf(of(next.config))) return [];
    const place = next.place?.(path) ?? { file, line: 1, column: 1, path: path.join('.') };
    return [{ ...place, message: `can't change while the agent runs; a restart applies it` }];
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

  /** Loads the configuration. Repeats a failed load if the files changed during it. */
  async function load(): Promise<LoadedConfig> {
    for (;;) {
      tried = await readState(supervisor.loaded);
      try {
        return loadConfig(supervisor.loaded.file, env);
      } catch (error) {
        if (isSameState(tried, await readState(supervisor.loaded))) throw error;
      }
    }
  }

  async function attempt(): Promise<ReloadResult> {
    const { file } = supervisor.loaded;
    try {
      const next = await load();
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
