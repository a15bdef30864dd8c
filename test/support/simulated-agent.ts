/**
 * The parts of the agent that watch failure callbacks and act on them, in a killable simulated process with a simulated
 * clock.
 */
import { type AutoCancel, AutoCancelAccounts } from '../../src/auto-cancel/accounts.ts';
import { rulesOf, trackingOf } from '../../src/auto-cancel/tracking.ts';
import { createDlq } from '../../src/collectors/dlq/dlq.ts';
import { type DlqFacts, withReader } from '../../src/collectors/index.ts';
import type { Config } from '../../src/config/schema.ts';
import type { Clock } from '../../src/kit/clock.ts';
import { createCollectorState } from '../../src/scheduler/board.ts';
import { createRunner } from '../../src/scheduler/runner.ts';
import { openSqliteStore } from '../../src/store/sqlite.ts';
import type { Store } from '../../src/store/store.ts';
import type { Reader, Writer } from '../../src/upstream/api.ts';
import { giveOrder, type Order, operatorClock } from './operators.ts';
import { createTestLog, createTestTracer, noJournals } from './silent.ts';

/** Kills a simulated process at one of its external effects. */
export interface Guillotine {
  /** Performs an external effect. Never resolves if the process is already dead or dies at this effect. */
  pass<T>(work: () => Promise<T>): Promise<T>;
  /** Kills the process at the `left`th effect from now: after performing that effect if `isDone`, otherwise before. */
  arm(left: number, isDone: boolean): void;
  readonly isDead: boolean;
  /** Resolves when the process dies. */
  readonly death: Promise<void>;
}

export function createGuillotine(): Guillotine {
  const { promise: death, resolve: die } = Promise.withResolvers<void>();
  const never = new Promise<never>(() => undefined);
  let [left, isDone, isDead] = [Number.POSITIVE_INFINITY, false, false];
  return {
    async pass(work) {
      if (isDead) return never;
      left -= 1;
      if (left > 0) {
        const done = await work();
        return isDead ? never : done;
      }
      isDead = true;
      if (isDone) await work().catch(() => undefined);
      die();
      return never;
    },
    arm(count, after) {
      [left, isDone] = [count, after];
    },
    get isDead() {
      return isDead;
    },
    death,
  };
}

export interface SimulatedAgent {
  /** Performs one complete walk of the dead-letter queue. */
  walk(): Promise<void>;
  /** Performs one step of auto-cancel, which the agent runs every second: executes commands, reads back, decides. */
  act(): Promise<void>;
  readonly autoCancel: AutoCancel;
  /** Whether this breaker is open. */
  isOpen(breaker: string): boolean;
  /** Sends the agent a command, as an operator's separate process would. */
  tell(order: Order): Promise<void>;
  /** Closes the store. Later effects are discarded. */
  end(): Promise<void>;
}

export interface SimulatedAgentOptions {
  readonly config: Config;
  readonly clock: Clock;
  readonly reader: Reader;
  readonly writer: Writer;
  readonly guillotine: Guillotine;
}

/** Starts the agent. `config` must have one account and a file store. */
export async function startSimulatedAgent(options: SimulatedAgentOptions): Promise<SimulatedAgent> {
  const { config, clock, reader, writer, guillotine } = options;
  const [{ name, collect }] = config.accounts as [Config['accounts'][number]];
  const opened = await openSqliteStore({ path: config.store.path });
  const store: Store = {
    ...opened,
    commit: (...what) => guillotine.pass(() => opened.commit(...what)),
  };
  const [log, tracer] = [createTestLog(), createTestTracer()];
  const { rescanEvery } = collect.dlq;
  const collector = createDlq(collect.dlq, {
    callbacks: trackingOf(rulesOf(config, name), rescanEvery),
    clockOffset: () => clock.now() - clock.monotonic(),
  });
  const { full } = collector.rounds;
  if (!full) throw new Error('the queue has no full round');
  const which = { account: name, collector: 'dlq' };
  const slot = createCollectorState<DlqFacts>(which, { full }, config.staleness, clock);
  const events = createCollectorState(
    { account: name, collector: 'events' },
    { tail: { every: 15_000 } },
    config.staleness,
    clock,
  );
  const run = await createRunner({
    observer: withReader(collector, () => reader),
    state: slot,
    store,
    clock,
    log,
    tracer,
  });
  const account = {
    name,
    state: (collector: string) => ({ dlq: slot, events })[collector],
    dlqFacts: () => slot.visible().now,
    at: () => reader,
    serviceClock: { largestSkew: () => 0 },
    createWriter: () => writer,
  };
  const common = { store, clock, random: () => 0, log, tracer, journals: noJournals };
  const intervals = { act: 1000, orders: 1000 };
  const accounts = new AutoCancelAccounts(config, { ...common, alertStates: () => new Map(), intervals });
  // Auto-cancel uses no other parts of an account.
  const acting = await accounts.open(account as unknown as Parameters<typeof accounts.open>[0], undefined);
  const autoCancel = accounts.view();
  if (!acting || !autoCancel) throw new Error('auto-cancel is off');
  const { own, source, run: actOnce } = acting;
  const { signal } = new AbortController();
  await accounts.follow(signal);
  const alive = (work: Promise<unknown>) => Promise.race([work, guillotine.death]).then(() => undefined);
  const bug = () => log.lines.find(({ message }) => message === 'bug');
  async function act(): Promise<void> {
    events.observed('tail', { at: clock.now(), facts: {} });
    events.succeeded('tail', { durationSeconds: 0 });
    await accounts.follow(signal);
    if (own.isUsed) await actOnce(signal);
    if (bug()) throw new Error(JSON.stringify(bug()));
  }
  return {
    walk: () => alive(run('full', signal)),
    act: () => alive(act()),
    autoCancel,
    isOpen(breaker) {
      source.revision();
      const open = source.samples().get('delivery_auto_cancel_breaker_open') ?? [];
      return open.some(({ labels, value }) => labels.breaker === breaker && value === 1);
    },
    async tell(order) {
      // The operator waits on a separate clock, while the agent keeps running.
      const waiting = operatorClock(clock, () => alive(accounts.follow(signal)));
      await alive(giveOrder(order, { store: opened, accounts: [name], clock: waiting, waitMs: 10_000 }));
    },
    end: () => opened.close(),
  };
}
