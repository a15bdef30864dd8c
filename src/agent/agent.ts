import { type LoadedConfig, withPath } from '../config/load.ts';
import type { Config } from '../config/schema.ts';
import { readWebConfig } from '../config/web-config.ts';
import { SAMPLE_EVERY } from '../history/recorder.ts';
import type { ReadWebConfig } from '../http/access.ts';
import { parseListen } from '../http/options.ts';
import type { ReloadResult } from '../http/served.ts';
import type { ServerSettings } from '../http/server.ts';
import { createClosing } from '../kit/closing.ts';
import { version } from '../kit/version.ts';
import { createLoops } from '../scheduler/loop.ts';
import type { Served } from '../status/served.ts';
import { startHttpServer } from '../status/server.ts';
import { openBase, type PartsDeps } from './base.ts';
import { writeAgentUrl } from './peer-key.ts';
import { createReloading, createWatch, type Reloading, readState } from './reload.ts';
import { createServing } from './served.ts';
import { Supervisor } from './supervisor.ts';

export interface AgentDeps extends PartsDeps {
  /** Interval at which the configuration files are checked (ms); undefined disables watching. */
  readonly watchEvery?: number;
}

export type Agent = Awaited<ReturnType<typeof startAgent>>;

export type AgentCore = Awaited<ReturnType<typeof openCore>>;

/** Opens all parts and accounts without starting them. Closes everything again if one fails. */
export async function openCore(loaded: LoadedConfig, deps: PartsDeps) {
  const closing = createClosing();
  try {
    const base = await openBase(loaded, deps, closing);
    for (const { message, ...place } of loaded.warnings) base.log.warn(place, withPath(place.path, message));
    const supervisor = await Supervisor.open(loaded, base);
    closing.add('accounts', () => supervisor.close());
    const serving = createServing(supervisor, base);
    await supervisor.alerting.watchAgent(serving.checkAgent);
    const loops = createLoops(base);
    const stop = async () => void (await Promise.all([loops.close(), supervisor.stop()]));
    closing.add('loops', stop);
    return {
      ...serving,
      supervisor,
      base,
      /** `lost`: called when another process has become the leader. This process must then end. */
      start(lost?: () => void): void {
        supervisor.start(lost);
        void loops.start(SAMPLE_EVERY, SAMPLE_EVERY, serving.logNotifications);
      },
      stop,
      close: closing.close,
    };
  } catch (error) {
    await closing.close();
    throw error;
  }
}

function serverSettings({ server }: Config): ServerSettings {
  const { listen, probesListen, replicaUrl: _, ...rest } = server;
  return { ...rest, ...parseListen(listen), probes: probesListen === null ? null : parseListen(probesListen) };
}

/** Starts the agent and opens its port. Closes everything again if a part fails. */
export async function startAgent(loaded: LoadedConfig, deps: AgentDeps) {
  const { watchEvery, clock, random, env, bounds } = deps;
  // Read the files' state first, to detect changes made during startup.
  const tried = watchEvery === undefined ? undefined : { ...(await readState(loaded)), hash: loaded.filesHash };
  const core = await openCore(loaded, deps);
  const { supervisor, base } = core;
  const { log, store, reloads } = base;
  const closing = createClosing();
  closing.add('core', core.close);
  const settingsOf = ({ config }: LoadedConfig) => ({ ...serverSettings(config), ...bounds });
  let reloading: Reloading | undefined;
  /** Reloads the configuration. If the new one is invalid, returns the errors and keeps the current one. Never rejects. */
  async function reload(): Promise<ReloadResult> {
    if (!reloading) return { faults: [{ file: loaded.file, message: 'the agent is starting' }] };
    const result = await reloading.reload();
    reloads.last = { at: clock.now(), changed: [], faults: [], ...result };
    return result;
  }
  const read: ReadWebConfig = file => readWebConfig(file).config;
  const served: Served = Object.assign(core.served, { reload, reloadErrors: () => reloads.last?.faults ?? [] });
  // Open the port first: an agent that cannot be scraped must not query the service.
  const server = await startHttpServer(settingsOf(loaded), served, log, read).catch(async (error: unknown) => {
    await closing.close();
    throw error;
  });
  closing.add('port', server.close);
  // CLI commands need the URL. A leader's URL is part of its lease.
  if (!store.lease)
    await writeAgentUrl(store, server.url).catch((error: unknown) =>
      log.warn({ error: String(error) }, 'failed to store the address of this agent'),
    );
  closing.add('loops', core.stop);
  const lost = Promise.withResolvers<void>();
  core.start(lost.resolve);
  supervisor.applyToPort = next => server.apply(settingsOf(next));
  reloading = createReloading({ supervisor, log, configRead: base.process.configRead, env, tried });
  const { close: endReloading, tried: lastTried } = reloading;
  closing.add('reload', endReloading);
  if (watchEvery !== undefined) {
    const watching = createLoops({ clock, random });
    const watch = createWatch({ loaded: () => supervisor.loaded, tried: lastTried, reload });
    void watching.start(watchEvery, watchEvery, watch);
    closing.add('watch', watching.close);
  }
  log.info({ version, url: server.url, accounts: served.accounts.length }, 'delivery-watch is listening');
  return {
    url: server.url,
    status: () => served.views().status(),
    reload,
    /** Resolves when another process has become the leader. This process must then end at once. */
    lost: lost.promise,
    /** Stops all loops, ends requests in flight, and closes everything in reverse order. */
    async close(): Promise<void> {
      log.info({}, 'stopping');
      // Start the shutdown timeout before anything waits for a running reload, which an unresponsive database may delay.
      base.leadership?.drain();
      await closing.close();
      log.info({}, 'stopped');
    },
  };
}
