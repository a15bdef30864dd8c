import { ConfigError, type LoadedConfig, loadConfig } from '../config/load.ts';
import type { Config } from '../config/schema.ts';
import { readWebConfig } from '../config/web-config.ts';
import { parseListen } from '../http/options.ts';
import { type ServerSettings, startHttpServer } from '../http/server.ts';
import { createClosing } from '../kit/closing.ts';
import type { AccountStatus } from '../model/status.ts';
import type { PartsDeps } from './parts.ts';
import { createRuntime } from './runtime.ts';
import { version } from './version.ts';

export interface Agent {
  /** `http://host:port` of the status page. */
  readonly url: string;
  status(): readonly AccountStatus[];
  /** Reads the configuration file again, logs and shows whether it is valid, and goes on with the one in use. */
  recheck(): void;
  /** Ends the loops, aborting what is under way, and closes everything in reverse order. */
  close(): Promise<void>;
}

/** What the section `server` asks of the port. */
function serverSettings({ server }: Config): ServerSettings {
  const { listen, probesListen, ...rest } = server;
  return { ...rest, ...parseListen(listen), probes: probesListen === null ? null : parseListen(probesListen) };
}

/** Builds every part, opens the port and starts the loops. Throws, with nothing left open, when a part can't be had. */
export async function startAgent(loaded: LoadedConfig, deps: PartsDeps): Promise<Agent> {
  const runtime = await createRuntime(loaded, deps);
  const { log, served } = runtime;
  const closing = createClosing();
  closing.add('runtime', runtime.close);
  const settings = { ...serverSettings(loaded.config), ...deps.bounds };
  // The port first: an agent that can't be scraped shall not call the service either.
  const server = await startHttpServer(settings, served, log, file => readWebConfig(file).config).catch(
    async (error: unknown) => {
      await closing.close();
      throw error;
    },
  );
  closing.add('port', server.close);
  closing.add('loops', runtime.stop);
  runtime.start();
  log.info({ version, url: server.url, accounts: served.accounts.length }, 'delivery-watch is listening');
  return {
    url: server.url,
    status: served.status,
    recheck() {
      try {
        const { hash, warnings } = loadConfig(loaded.file, deps.env);
        for (const { message, ...place } of warnings) log.warn(place, message);
        const state = hash === loaded.hash ? 'is the one in use' : 'is valid; a restart applies it';
        log.info({ file: loaded.file, hash }, `the configuration file ${state}`);
        runtime.configRead(true);
      } catch (error) {
        if (!(error instanceof ConfigError)) log.error({ stack: String(error) }, 'bug');
        else for (const { message, ...place } of error.faults) log.error(place, message);
        log.error(
          { file: loaded.file },
          'the configuration file cannot be used; the agent keeps the configuration that it started with',
        );
        runtime.configRead(false);
      }
    },
    async close() {
      log.info({}, 'stopping');
      await closing.close();
      log.info({}, 'stopped');
    },
  };
}
