import type { LoadedConfig } from '../config/load.ts';
import type { Served } from '../http/server.ts';
import type { Clock } from '../kit/clock.ts';
import { createClosing } from '../kit/closing.ts';
import type { Log } from '../kit/log.ts';
import { CONTENT_TYPES, createExposition } from '../metrics/exposition.ts';
import { createLoops } from '../scheduler/loop.ts';
import { startStaggered } from '../scheduler/start-staggered.ts';
import { type Alerting, openAlerting } from './alerting.ts';
import { type AutoCancel, createAutoCancel } from './auto-cancel.ts';
import { createParts, type Parts, type PartsDeps } from './parts.ts';
import { version } from './version.ts';

/** Everything that one configuration asks for, but for the port. */
export interface Runtime {
  readonly log: Log;
  /** What the port answers with. */
  readonly served: Served;
  /** Whether the configuration file was valid when it was last read. */
  configRead(isValid: boolean): void;
  /** Starts the loops, the accounts a few at a time. */
  start(): void;
  /** Ends the loops, aborting what is under way. What was read is still served. */
  stop(): Promise<void>;
  /** Stops, and closes everything in reverse order. */
  close(): Promise<void>;
}

/**
 * Accounts whose first rounds are under way at the same time. Each reads minutes of history and its whole queue, and holds
 * what it has read of them until they end: a thousand at once would take hundreds of megabytes and the event loop with them.
 */
const STARTING = 8;

/** A service that does not answer holds up the accounts behind it for no longer than this, milliseconds. */
const LONGEST_START = 1000;

/** Interval at which budget use is stored, milliseconds. */
const SAVE_EVERY = 15_000;

/** Interval at which traces of ended messages are sent, milliseconds. */
const LIFECYCLES_EVERY = 2000;

/** Milliseconds between two checks of auto-cancel for due work; an idle check is free. */
const ACT_EVERY = 1000;

/** Milliseconds between two checks of the alert senders for due work; an idle check is free. */
const SEND_EVERY = 1000;

/** Milliseconds after the start in which the first heartbeat is tried. */
const FIRST_HEARTBEAT = 10_000;

/** Everything that requests are answered from. */
function createServed({
  config,
  accounts,
  autoCancel,
  alerting,
  process,
  clock,
  log,
}: Pick<LoadedConfig, 'config'> &
  Pick<Parts, 'accounts' | 'process' | 'log'> & {
    readonly autoCancel: AutoCancel | undefined;
    readonly alerting: Alerting;
    readonly clock: Clock;
  }): Served {
  const sources = [
    ...accounts.flatMap(({ sources }) => sources),
    ...(autoCancel?.sources ?? []),
    ...alerting.sources,
    process.source,
  ];
  // One bug must not cost every account's scrape.
  const exposition = createExposition(sources, ({ account }, error) =>
    log.error({ account, stack: error instanceof Error ? error.stack : String(error) }, 'bug'),
  );
  return {
    version,
    externalUrl: config.server.externalUrl,
    accounts: accounts.map(({ name }) => name),
    async exposition(scope, format, gzip) {
      if (typeof scope === 'string') await process.refresh();
      return { contentType: CONTENT_TYPES[format], body: await exposition.renderInSlices({ scope, format, gzip }) };
    },
    status: () => accounts.map(account => account.status()),
    explain: (id, account) => autoCancel?.explain(id, account) ?? [],
    journal: since => autoCancel?.journal(since) ?? Promise.resolve([]),
    alerts: alerting.alerts,
    command: (command, signal) =>
      autoCancel?.command(command, signal) ?? Promise.resolve({ ok: false, why: 'auto-cancel is off' }),
    reload: () => Promise.reject(new Error('a restart applies another configuration')),
    clock,
  };
}

/** Builds every part; nothing runs before `start`. Throws, with nothing left open, when a part can't be had. */
export async function createRuntime(loaded: LoadedConfig, deps: PartsDeps): Promise<Runtime> {
  const { config } = loaded;
  const { clock, random } = deps;
  const closing = createClosing();
  try {
    const { log, process, accounts, store, tracer, save, exportLifecycles } = await createParts(loaded, deps, closing);
    const lifecycles = await exportLifecycles();
    const common = { config, accounts, store, clock, log, tracer };
    const alerting = await openAlerting({ ...common, env: deps.env, random });
    closing.add('alerts', () => alerting.close());
    const { outbox, states: alertStates } = alerting;
    // Between the two: auto-cancel reads the alerts' states, and alerts its numbers.
    const autoCancel = await createAutoCancel({ ...common, outbox, alertStates });
    const evaluations = alerting.evaluations(autoCancel?.sources ?? []);
    const served = createServed({ config, accounts, autoCancel, alerting, process, clock, log });
    const loops = createLoops({ clock, random });
    const stopping = new AbortController();
    let starting: Promise<void> | undefined;
    async function stop(): Promise<void> {
      stopping.abort();
      // They save when the parts are closed, once: each time may wait for another process's lock.
      await Promise.all([loops.close(), starting, ...accounts.map(account => account.stop())]);
    }
    closing.add('loops', stop);
    return {
      log,
      served,
      configRead: process.configRead,
      start() {
        loops.start(SAVE_EVERY, SAVE_EVERY, save);
        if (lifecycles) {
          loops.start(LIFECYCLES_EVERY, LIFECYCLES_EVERY, signal =>
            lifecycles(signal).catch(error => log.warn({ error: String(error) }, 'message traces wait for the store')),
          );
        }
        for (const act of autoCancel?.loops ?? []) loops.start(ACT_EVERY, ACT_EVERY, act);
        // At different times: a thousand accounts at once would hold up everything else.
        const { evaluateEvery } = config.alerts;
        for (const evaluate of evaluations) loops.start(evaluateEvery, evaluateEvery * random(), evaluate);
        for (const send of alerting.senders) loops.start(SEND_EVERY, SEND_EVERY, send);
        const { every = 0 } = config.heartbeat ?? {};
        // Soon after the start, and not with every other agent that was started with this one.
        if (alerting.heartbeat) loops.start(every, Math.min(every, FIRST_HEARTBEAT) * random(), alerting.heartbeat);
        starting = startStaggered(accounts, {
          concurrency: STARTING,
          timeout: LONGEST_START,
          clock,
          signal: stopping.signal,
          start: account => account.start(),
        });
      },
      stop,
      close: closing.close,
    };
  } catch (error) {
    await closing.close();
    throw error;
  }
}
