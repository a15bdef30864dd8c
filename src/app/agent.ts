import type { LoadedConfig } from '../config/load.ts';
import { parseListen } from '../http/options.ts';
import { type HttpServer, type Served, startHttpServer } from '../http/server.ts';
import type { Clock } from '../kit/clock.ts';
import { createClosing } from '../kit/closing.ts';
import { CONTENT_TYPES, createExposition } from '../metrics/exposition.ts';
import { createProcessMetrics } from '../metrics/process.ts';
import type { AccountStatus } from '../model/status.ts';
import { runLoop } from '../scheduler/loop.ts';
import { createMemoryStore } from '../store/memory.ts';
import { createLog } from '../telemetry/log.ts';
import { createTracer } from '../telemetry/tracing.ts';
import { ENDPOINTS } from '../upstream/call.ts';
import { createDispatcher } from '../upstream/send.ts';
import { createAccount } from './account.ts';
import { version } from './version.ts';

export interface AgentDeps {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly clock: Clock;
  /** A number from 0 up to 1. */
  readonly random: () => number;
}

export interface Agent {
  /** `http://host:port` of the status page. */
  readonly url: string;
  status(): readonly AccountStatus[];
  /** Ends the loops, aborting what is under way, and closes everything in reverse order. */
  close(): Promise<void>;
}

/** First starts are spread over this many milliseconds an account, so that a thousand accounts do not start at once. */
const START_SPREAD = 10;

/** Builds every part and starts the loops. Throws, with nothing left open, when a part can't be had. */
export async function startAgent(loaded: LoadedConfig, { env, clock, random }: AgentDeps): Promise<Agent> {
  const { file, config, hash, warnings } = loaded;
  const log = createLog(config.log);
  for (const { line, column, path, message } of warnings) log.warn({ file, line, column, path }, message);
  const closing = createClosing();
  closing.add('log', () => log.info({}, 'stopped'));
  try {
    const store = createMemoryStore();
    closing.add('store', () => store.close());
    const dispatcher = createDispatcher(config.upstream);
    closing.add('connections', () => dispatcher.destroy());
    const process = createProcessMetrics({
      version,
      configHash: hash,
      configLoadedAt: clock.now(),
      endpoints: ENDPOINTS,
    });
    const tracer = createTracer(version);

    const accounts = await Promise.all(
      config.accounts.map(account =>
        createAccount(account, {
          config,
          env,
          dispatcher,
          requestSeconds: process.requestSeconds,
          store,
          clock,
          random,
          log,
          tracer,
        }),
      ),
    );

    const exposition = createExposition([...accounts.flatMap(({ sources }) => sources), process.source]);
    const status = () => accounts.map(account => account.status());
    const served: Served = {
      version,
      externalUrl: config.server.externalUrl,
      accounts: config.accounts.map(({ name }) => name),
      async exposition(scope, format, gzip) {
        if (typeof scope === 'string') await process.refresh();
        return { contentType: CONTENT_TYPES[format], body: exposition.render({ scope, format, gzip }) };
      },
      status,
      clock,
    };

    const stop = new AbortController();
    const spread = config.accounts.length * START_SPREAD;
    const loops = accounts.flatMap(({ rounds }) =>
      rounds.map(({ round, every, run }) =>
        runLoop({
          every,
          firstDelay: random() * Math.min(every, spread),
          clock,
          random,
          signal: stop.signal,
          body: signal => run(round, signal),
        }),
      ),
    );
    closing.add('loops', () => {
      stop.abort();
      return Promise.all(loops);
    });
    const server: HttpServer = await startHttpServer(parseListen(config.server.listen), served, log);
    closing.add('port', () => server.close());
    closing.add('log', () => log.info({}, 'stopping'));

    log.info({ version, url: server.url, accounts: accounts.length }, 'delivery-watch is listening');
    return { url: server.url, status, close: () => closing.close() };
  } catch (error) {
    await closing.close();
    throw error;
  }
}
