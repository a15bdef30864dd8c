import { ConfigError, type LoadedConfig, loadConfig } from '../config/load.ts';
import { parseListen } from '../http/options.ts';
import { type Served, startHttpServer } from '../http/server.ts';
import { createClosing } from '../kit/closing.ts';
import { CONTENT_TYPES, createExposition } from '../metrics/exposition.ts';
import type { AccountStatus } from '../model/status.ts';
import { runLoop } from '../scheduler/loop.ts';
import { startInTurn } from '../scheduler/start-in-turn.ts';
import { createAlerting } from './alerting.ts';
import { type AutoCancel, createAutoCancel } from './auto-cancel.ts';
import { createParts, type PartsDeps } from './parts.ts';
import { version } from './version.ts';

export interface Agent {
  /** `http://host:port` of the status page. */
  readonly url: string;
  status(): readonly AccountStatus[];
  /** Reads the configuration file anew and logs whether it could be used; changes nothing. */
  recheck(): void;
  /** Ends the loops, aborting what is under way, and closes everything in reverse order. */
  close(): Promise<void>;
}

/**
 * Accounts whose first rounds are under way at the same time. Each reads minutes of history and its whole queue, and holds
 * what it has read of them until they end: a thousand at once would take hundreds of megabytes and the event loop with them.
 */
const STARTING = 8;

/** A service that does not answer holds up the accounts behind it for no longer than this, milliseconds. */
const LONGEST_START = 1000;

/** What is spent of the budgets is stored so often, milliseconds. */
const SAVE_EVERY = 15_000;

/** Traces of messages that have ended are sent so often, milliseconds. */
const LIFECYCLES_EVERY = 2000;

/** Auto-cancel looks so often whether something is due, milliseconds: it costs nothing when nothing is. */
const ACT_EVERY = 1000;

/** Whoever tells of alerts looks so often whether there is something to tell, milliseconds: that costs nothing either. */
const TELL_EVERY = 1000;

/** Builds every part and starts the loops. Throws, with nothing left open, when a part can't be had. */
export async function startAgent(loaded: LoadedConfig, deps: PartsDeps): Promise<Agent> {
  const { config } = loaded;
  const { clock, random } = deps;
  const closing = createClosing();
  try {
    const { log, process, accounts, store, tracer, save, exportLifecycles } = await createParts(loaded, deps, closing);
    const lifecycles = await exportLifecycles();
    let autoCancel: AutoCancel | undefined;
    const alerting = await createAlerting({
      config,
      env: deps.env,
      accounts,
      moreSources: () => autoCancel?.sources ?? [],
      store,
      clock,
      random,
      log,
      tracer,
    });
    closing.add('alerts', () => alerting.close());
    const { outbox, braking: alertStates } = alerting;
    autoCancel = await createAutoCancel({ config, accounts, store, clock, log, tracer, outbox, alertStates });
    const sources = [
      ...accounts.flatMap(({ sources }) => sources),
      ...(autoCancel?.sources ?? []),
      ...alerting.sources,
      process.source,
    ];
    // One bug must not cost everybody's scrape.
    const exposition = createExposition(sources, ({ account }, error) =>
      log.error({ account, stack: error instanceof Error ? error.stack : String(error) }, 'bug'),
    );
    const status = () => accounts.map(account => account.status());
    const served: Served = {
      version,
      externalUrl: config.server.externalUrl,
      accounts: config.accounts.map(({ name }) => name),
      async exposition(scope, format, gzip) {
        if (typeof scope === 'string') await process.refresh();
        return { contentType: CONTENT_TYPES[format], body: await exposition.renderInSlices({ scope, format, gzip }) };
      },
      status,
      explain: (id, account) => autoCancel?.explain(id, account) ?? [],
      journal: since => autoCancel?.journal(since) ?? Promise.resolve([]),
      alerts: alerting.alerts,
      clock,
    };
    // The port first: an agent that can't be scraped shall not call the service either.
    const { listen, maxConnections, allowedHosts } = config.server;
    const settings = { ...parseListen(listen), maxConnections, allowedHosts, ...deps.bounds };
    const server = await startHttpServer(settings, served, log);
    closing.add('port', () => server.close());

    // One controller a loop: a listener on a signal costs as much as it has listeners, and each sleep adds one.
    const stops: AbortController[] = [];
    const loops: Promise<void>[] = [];
    const loop = (every: number, firstDelay: number, body: (signal: AbortSignal) => Promise<void>) => {
      const stop = new AbortController();
      const running = runLoop({ every, firstDelay, clock, random, signal: stop.signal, body });
      stops.push(stop);
      loops.push(running);
      return running;
    };
    loop(SAVE_EVERY, SAVE_EVERY, save);
    if (lifecycles) {
      loop(LIFECYCLES_EVERY, LIFECYCLES_EVERY, signal =>
        lifecycles(signal).catch(error => log.warn({ error: String(error) }, 'traces of messages wait for the store')),
      );
    }
    for (const act of autoCancel?.loops ?? []) loop(ACT_EVERY, ACT_EVERY, act);
    // At different times: a thousand accounts at once would hold up everything else.
    const { evaluateEvery } = config.alerts;
    for (const evaluate of alerting.evaluations) loop(evaluateEvery, evaluateEvery * random(), evaluate);
    for (const tell of alerting.tellers) loop(TELL_EVERY, TELL_EVERY, tell);
    const stopping = new AbortController();
    const starting = startInTurn(accounts, {
      lanes: STARTING,
      patience: LONGEST_START,
      clock,
      signal: stopping.signal,
      start: ({ rounds }) =>
        Promise.all(
          rounds.map(({ round, every, run }) => {
            const first = Promise.withResolvers<void>();
            const running = loop(every, 0, signal => run(round, signal).finally(first.resolve));
            return Promise.race([first.promise, running]);
          }),
        ),
    });
    closing.add('loops', async () => {
      stopping.abort();
      for (const stop of stops) stop.abort();
      await starting;
      await Promise.all(loops);
    });
    log.info({ version, url: server.url, accounts: accounts.length }, 'delivery-watch is listening');
    return {
      url: server.url,
      status,
      recheck() {
        try {
          const { hash, warnings } = loadConfig(loaded.file, deps.env);
          for (const { message, ...place } of warnings) log.warn(place, message);
          const state = hash === loaded.hash ? 'is the one in use' : 'is valid; a restart applies it';
          log.info({ file: loaded.file, hash }, `the configuration file ${state}`);
        } catch (error) {
          if (!(error instanceof ConfigError)) log.error({ stack: String(error) }, 'bug');
          else for (const { message, ...place } of error.faults) log.error(place, message);
          log.error(
            { file: loaded.file },
            'the configuration file can not be used; the agent goes on with what it read at its start',
          );
        }
      },
      async close() {
        log.info({}, 'stopping');
        await closing.close();
        log.info({}, 'stopped');
      },
    };
  } catch (error) {
    await closing.close();
    throw error;
  }
}
