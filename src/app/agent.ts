import type { LoadedConfig } from '../config/load.ts';
import type { Config } from '../config/schema.ts';
import { readWebConfig } from '../config/web-config.ts';
import { parseListen } from '../http/options.ts';
import {
  type ReadWebConfig,
  type ReloadAnswer,
  type Served,
  type ServerSettings,
  startHttpServer,
} from '../http/server.ts';
import { createClosing } from '../kit/closing.ts';
import type { AccountStatus } from '../model/status.ts';
import { createLoops } from '../scheduler/loop.ts';
import type { PartsDeps } from './parts.ts';
import { createReloading, type Reloading } from './reload.ts';
import { createRuntime, type Runtime } from './runtime.ts';
import { version } from './version.ts';
import { createWatch, readState } from './watch.ts';

export interface AgentDeps extends PartsDeps {
  /** Milliseconds between two looks at the files of the configuration; without it they are not watched. */
  readonly watchEvery?: number;
}

export interface Agent {
  /** `http://host:port` of the status page. */
  readonly url: string;
  status(): readonly AccountStatus[];
  /** Reads the configuration file again and goes over to it, or says why it can't be used and stays with the one in use. Never rejects. */
  reload(): Promise<ReloadAnswer>;
  /** Ends the loops, aborting what is under way, and closes everything in reverse order. */
  close(): Promise<void>;
}

/** What the section `server` asks of the port. */
function serverSettings({ server }: Config): ServerSettings {
  const { listen, probesListen, replicaUrl: _, ...rest } = server;
  return { ...rest, ...parseListen(listen), probes: probesListen === null ? null : parseListen(probesListen) };
}

/** What the port answers from, always by the configuration in use. */
function servedBy({ served }: Runtime, reloads: Pick<Served, 'reload' | 'reloadFaults'>): Served {
  return {
    ...served,
    get externalUrl() {
      return served.externalUrl;
    },
    get accounts() {
      return served.accounts;
    },
    get replicas() {
      return served.replicas;
    },
    ...reloads,
  };
}

/** Builds every part, opens the port and starts the loops. Throws, with nothing left open, when a part can't be had. */
export async function startAgent(loaded: LoadedConfig, deps: AgentDeps): Promise<Agent> {
  const { watchEvery, clock, random, env, bounds } = deps;
  // Before anything is made of them: what changes from now on is seen.
  const tried = watchEvery === undefined ? undefined : { ...(await readState(loaded)), hash: loaded.hash };
  const runtime = await createRuntime(loaded, deps);
  const { log } = runtime;
  const closing = createClosing();
  closing.add('runtime', runtime.close);
  const settingsOf = ({ config }: LoadedConfig) => ({ ...serverSettings(config), ...bounds });
  let reloading: Reloading | undefined;
  const reload: Served['reload'] = async () => {
    const starting = { file: loaded.file, message: 'the agent is starting' };
    if (!reloading) return { faults: [starting] };
    const answer = await reloading.reload();
    runtime.reloaded(answer);
    return answer;
  };
  // The port first: an agent that can't be scraped shall not call the service either.
  const read: ReadWebConfig = file => readWebConfig(file).config;
  const server = await startHttpServer(
    settingsOf(loaded),
    servedBy(runtime, { reload, reloadFaults: () => runtime.lastReload()?.faults ?? [] }),
    log,
    read,
  ).catch(async (error: unknown) => {
    await closing.close();
    throw error;
  });
  closing.add('port', server.close);
  await runtime.announce(server.url);
  closing.add('loops', runtime.stop);
  runtime.start();
  const openPort = async (next: LoadedConfig) => {
    await server.apply(settingsOf(next));
    await runtime.announce(server.url);
  };
  reloading = createReloading({ runtime, env, tried, openPort });
  const { close: endReloading, tried: lastTried } = reloading;
  closing.add('reload', endReloading);
  if (watchEvery !== undefined) {
    const watching = createLoops({ clock, random });
    const watch = createWatch({ loaded: () => runtime.loaded, tried: lastTried, reload });
    void watching.start(watchEvery, watchEvery, watch);
    closing.add('watch', watching.close);
  }
  const accounts = runtime.served.accounts.length;
  log.info({ version, url: server.url, accounts }, 'delivery-watch is listening');
  return {
    get url() {
      return server.url;
    },
    status: runtime.served.status,
    reload,
    async close() {
      log.info({}, 'stopping');
      await closing.close();
      log.info({}, 'stopped');
    },
  };
}
