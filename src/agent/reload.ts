import { ConfigError, type Fault, type LoadedConfig, loadConfig } from '../config/load.ts';
import type { ReloadAnswer } from '../http/served.ts';
import { identityOf } from '../kit/identity.ts';
import type { Log } from '../kit/log.ts';
import type { Env } from '../kit/secret.ts';
import type { Supervisor } from './supervisor.ts';
import { type FilesState, isSameState, readState } from './watch.ts';

/** Brings the configuration into use that its files hold now. */
export interface Reloading {
  /** One at a time; calls while one is under way share the next. Never rejects. */
  reload(): Promise<ReloadAnswer>;
  /** What the files were like at the last attempt; undefined where that failed for another reason than what is in them. */
  tried(): FilesState | undefined;
  /** Waits for the one that is under way, which may be refused now; so is every further one. */
  close(): Promise<void>;
}

export interface ReloadDeps {
  readonly supervisor: Pick<Supervisor, 'loaded' | 'reload'>;
  readonly log: Log;
  /** Reports whether the last attempt to load the configuration succeeded. */
  configRead(isValid: boolean): void;
  readonly env: Env;
  /** How the files were when the configuration in use was loaded. */
  readonly tried: FilesState | undefined;
  /** Lets the port go over to the configuration. Rejects, with nothing changed, when that can't be. */
  openPort(next: LoadedConfig): Promise<void>;
}

const FIXED: readonly (readonly [path: string[], of: (config: LoadedConfig['config']) => unknown])[] = [
  [['store', 'kind'], ({ store }) => store.kind],
  [['store', 'path'], ({ store }) => store.path],
  [['store', 'url'], ({ store }) => store.url],
  [['store', 'schema'], ({ store }) => store.schema],
  [['store', 'lease'], ({ store }) => store.lease],
  [['server', 'replicaUrl'], ({ server }) => server.replicaUrl],
];

/** What can't change while the process runs, as faults. */
function refusals(before: LoadedConfig, next: LoadedConfig): Fault[] {
  const { file } = next;
  return FIXED.flatMap(([path, of]): Fault[] => {
    if (identityOf(of(before.config)) === identityOf(of(next.config))) return [];
    const place = next.place?.(path) ?? { file, line: 1, column: 1, path: path.join('.') };
    return [{ ...place, message: `can't change while the agent runs; a restart applies it` }];
  });
}

/** A failure that is not a fault of the configuration's text. */
function faultOf(error: unknown, file: string) {
  return { file, message: error instanceof Error ? error.message : String(error) };
}

export function createReloading({ supervisor, log, env, openPort, ...deps }: ReloadDeps): Reloading {
  let tried = deps.tried;
  let isClosed = false;
  let running: Promise<ReloadAnswer> | undefined;
  let following: Promise<ReloadAnswer> | undefined;

  function assertOpen(): void {
    if (isClosed) throw new Error('the agent is stopping');
  }

  async function apply(next: LoadedConfig): Promise<ReloadAnswer> {
    assertOpen();
    const changed = await supervisor.reload(next, async () => {
      assertOpen();
      await openPort(next);
    });
    const message =
      changed.length > 0 ? 'the configuration is reloaded' : 'the configuration is reloaded; nothing has changed';
    log.info({ file: next.file, hash: next.hash, changed }, message);
    return { changed };
  }

  function refuse(faults: readonly (ReturnType<typeof faultOf> | Fault)[]): ReloadAnswer {
    for (const { message, ...place } of faults) log.error(place, message);
    const { file, hash } = supervisor.loaded;
    log.error({ file, hash }, 'the configuration is not reloaded; the agent goes on with the one in use');
    deps.configRead(false);
    return {
      faults: faults.map(fault =>
        'line' in fault
          ? {
              file: fault.file,
              line: fault.line,
              column: fault.column,
              message: [fault.path, fault.message].filter(Boolean).join(': '),
            }
          : fault,
      ),
    };
  }

  /** Loads the files; once more where they were being written. */
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

  async function attempt(): Promise<ReloadAnswer> {
    const { file } = supervisor.loaded;
    try {
      const next = await load();
      for (const { message, ...place } of next.warnings) log.warn(place, message);
      tried = { ...(await readState(next)), hash: next.hash };
      const refused = refusals(supervisor.loaded, next);
      return refused.length > 0 ? refuse(refused) : await apply(next);
    } catch (error) {
      if (error instanceof ConfigError) return refuse(error.faults);
      tried = undefined;
      return refuse([faultOf(error, file)]);
    }
  }

  function begin(): Promise<ReloadAnswer> {
    const answer = attempt().finally(() => {
      running = undefined;
    });
    running = answer;
    return answer;
  }

  return {
    reload() {
      // First: when the one that ran has ended, the next does not run at once.
      if (following) return following;
      if (!running) return begin();
      following = running.then(() => {
        following = undefined;
        return begin();
      });
      return following;
    },
    tried: () => tried,
    async close() {
      isClosed = true;
      await (following ?? running);
    },
  };
}
