import type { LoadedConfig } from '../config/load.ts';
import type { ReloadAnswer, Served } from '../http/server.ts';
import { createClosing } from '../kit/closing.ts';
import type { Log } from '../kit/log.ts';
import { createSerially } from '../kit/serially.ts';
import { createLoopSet } from '../scheduler/loop-set.ts';
import { startStaggered } from '../scheduler/start-staggered.ts';
import { NO_ACCOUNT } from '../store/store.ts';
import type { Account } from './account.ts';
import { buildGeneration, type Change, type Generation } from './generation.ts';
import { type Base, closeSent, closeUnlessKept, type LastReload, openBase, type PartsDeps, settle } from './parts.ts';
import { writeAgentUrl } from './peer-key.ts';
import { version } from './version.ts';

/** Everything that a configuration asks for, but for the port; the configuration can change. */
export interface Runtime {
  readonly log: Log;
  /** What the port answers with; always of the configuration in use. */
  readonly served: Omit<Served, 'reload' | 'reloadFaults'>;
  /** The configuration in use. */
  readonly loaded: LoadedConfig;
  /** Writes where the port answers, for commands. Never rejects. */
  announce(url: string): Promise<void>;
  /** What came of the last reload; undefined before the first. */
  lastReload(): LastReload | undefined;
  /** A reload has ended so. */
  reloaded(answer: ReloadAnswer): void;
  /** Whether the last attempt to load the configuration succeeded. */
  configRead(isValid: boolean): void;
  /** Starts the loops, the accounts a few at a time. */
  start(): void;
  /**
   * Goes over to another configuration; what has not changed goes on as it is. `commit` is called when all of it could be built,
   * and may still refuse it. Gives what has changed. Rejects when something can't be had; then all goes on as before. To be called
   * after `start`.
   */
  reload(next: LoadedConfig, commit: () => Promise<void>): Promise<readonly string[]>;
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

/** Interval at which budget use and what was recorded are stored, milliseconds. */
const SAVE_EVERY = 15_000;

const namesOf = ({ config }: LoadedConfig) => config.accounts.map(({ name }) => name);

/** Starts accounts, a few at a time. */
function createStarter(clock: Base['clock']) {
  const stopping = new AbortController();
  const starting = new Set<Promise<void>>();
  return {
    start(accounts: readonly Account[]): void {
      const start = (account: Account) => account.start();
      const common = { concurrency: STARTING, timeout: LONGEST_START, clock, signal: stopping.signal };
      const all = startStaggered(accounts, { ...common, start }).finally(() => starting.delete(all));
      starting.add(all);
    },
    /** No other begins. */
    async stop(): Promise<void> {
      stopping.abort();
      await Promise.all(starting);
    },
  };
}

/** Builds every part; nothing runs before `start`. Throws, with nothing left open, when a part can't be had. */
export async function createRuntime(loaded: LoadedConfig, deps: PartsDeps): Promise<Runtime> {
  const closing = createClosing();
  try {
    const base = await openBase(loaded, deps, closing);
    const { log, process, clock, random } = base;
    for (const { message, ...place } of loaded.warnings) log.warn(place, message);
    const names = () => current.accounts.all.map(({ name }) => name);
    const { holding } = base;
    /** Accounts that run; where replicas share the store, those that the database says are this one's, and none before it does. */
    let running: ReadonlySet<string> = holding ? new Set() : new Set([NO_ACCOUNT, ...namesOf(loaded)]);
    const isRunning = (account: string) => running.has(account);
    let current: Generation = (await buildGeneration(loaded, base, { names, isHeld: isRunning })).generation;
    // A reload and a hand-over each build on what is in use.
    const inTurn = createSerially();
    const loops = createLoopSet({ clock, random });
    const starter = createStarter(clock);
    current.pushMetrics.take(current.shown);
    closing.add('what is exported', () => closeSent(current));
    closing.add('accounts', () =>
      settle(
        current.accounts.all.map(account => account.close()),
        base,
      ),
    );
    closing.add('alerts', () => current.alerting.close());
    async function stop(): Promise<void> {
      await handOvers?.stop();
      // They save when the parts are closed, once: each time may wait for another process's lock.
      const accounts = current.accounts.all.map(account => account.stop());
      await Promise.all([loops.close(), starter.stop(), ...accounts]);
    }
    closing.add('loops', stop);

    const saving = { every: SAVE_EVERY, firstDelay: SAVE_EVERY, body: () => current.save() };
    const loopsOf = (generation: Generation) => [saving, ...generation.loops];

    /** Ends what is no longer wanted, and puts the next in its place. Nothing in it can be refused. */
    async function swap(next: Generation, { fresh, old }: Change): Promise<void> {
      const before = current;
      const going = new Set(loopsOf(next).map(({ body }) => body));
      // Whatever acts by the old configuration has ended before anything acts by the new one.
      await loops.run(loopsOf(before).filter(({ body }) => going.has(body)));
      await Promise.all(old.map(account => account.stop()));
      next.traces.take();
      next.pushMetrics.take(next.shown);
      next.alerting.take();
      next.autoCancel?.take();
      next.recording.take();
      log.use(next.loaded.config.log);
      base.secrets.use(next.loaded.config);
      if (next.loaded !== before.loaded) process.configLoaded(next.loaded.hash, clock.now());
      current = next;
      await loops.run(loopsOf(next));
      starter.start(fresh);
      await clearAway(before, next, old);
    }

    async function clearAway(before: Generation, next: Generation, old: readonly Account[]): Promise<void> {
      // Of one that another replica has, nothing can be saved: that replica goes on from what is committed.
      const own = old.filter(({ name }) => holding?.leaving().get(name) !== 'lost');
      await settle(
        own.map(account => account.close()),
        base,
      );
      await next.alerting.letGo();
      await base.dispatchers.keep(next.accounts.dispatchers);
      const failed = (error: unknown) =>
        log.warn({ error: String(error) }, 'what is no longer needed was left in the store');
      await next.alerting.outbox.dropGone().catch(failed);
      await closeUnlessKept(before, next);
    }

    /** Goes over to a configuration and accounts, unless one of them can't be had or `commit` refuses: then all goes on as before. */
    async function goOver(
      next: LoadedConfig,
      accounts: ReadonlySet<string>,
      commit?: () => Promise<void>,
    ): Promise<readonly string[]> {
      let built: Awaited<ReturnType<typeof buildGeneration>> | undefined;
      try {
        built = await buildGeneration(next, base, { names, isHeld: name => accounts.has(name) }, current);
        await commit?.();
      } catch (error) {
        await built?.change.undo();
        await base.dispatchers.keep(current.accounts.dispatchers);
        throw error;
      }
      running = accounts;
      await swap(built.generation, built.change);
      return built.change.changes;
    }

    function abort(lost: readonly string[]): void {
      const gone = new Set(lost);
      for (const account of current.accounts.all) if (gone.has(account.name)) void account.stop();
    }

    const handOvers =
      holding &&
      (await import('./hand-over.ts')).createHandOvers({
        ...base,
        holding,
        configured: () => namesOf(current.loaded),
        running: () => running,
        abort,
        goOver: async accounts => void (await goOver(current.loaded, accounts)),
        inTurn,
      });

    return {
      log,
      served: {
        version,
        clock,
        get externalUrl() {
          return current.served.externalUrl;
        },
        get accounts() {
          return current.served.accounts;
        },
        exposition: (...which) => current.served.exposition(...which),
        status: () => current.served.status(),
        get replicas() {
          return current.served.replicas;
        },
        explain: (...which) => current.served.explain(...which),
        peerKey: base.peerKey,
        journal: since => current.served.journal(since),
        alerts: () => current.served.alerts(),
        overview: query => current.served.overview(query),
        account: name => current.served.account(name),
        history: (...which) => current.served.history(...which),
        autoCancel: account => current.served.autoCancel(account),
        agent: () => current.served.agent(),
        watch() {
          let [watched, hasChanged] = [current, current.served.watch()];
          return () => {
            if (watched === current) return hasChanged();
            [watched, hasChanged] = [current, current.served.watch()];
            return true;
          };
        },
        command: (...which) => current.served.command(...which),
      },
      get loaded() {
        return current.loaded;
      },
      async announce(url) {
        // Replicas have a table of their addresses.
        if (base.store.replicas) return;
        await writeAgentUrl(base.store, url).catch((error: unknown) =>
          log.warn({ error: String(error) }, 'the address of this agent could not be stored'),
        );
      },
      lastReload: () => base.reloads.last,
      reloaded: answer => {
        base.reloads.last = { at: clock.now(), changed: [], faults: [], ...answer };
      },
      configRead: process.configRead,
      start() {
        void loops.run(loopsOf(current));
        starter.start(current.accounts.all);
        handOvers?.start();
      },
      async reload(next, commit) {
        const changes = await inTurn(() => {
          // What was added is taken by a hand-over, when the database says that it is this replica's.
          const accounts = holding ? [...running].filter(holding.held) : [NO_ACCOUNT, ...namesOf(next)];
          return goOver(next, new Set(accounts), commit);
        });
        holding?.use(namesOf(next));
        void holding?.renew();
        return changes;
      },
      stop,
      close: closing.close,
    };
  } catch (error) {
    await closing.close();
    throw error;
  }
}
