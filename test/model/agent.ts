/** One process of the agent: its parts as `createRuntime` builds them, without a port, on a simulated machine that may kill or stop it. */
import { AsyncLocalStorage } from 'node:async_hooks';
import { type Account, openAccount } from '../../src/app/account.ts';
import { type Alerting, openAlerting } from '../../src/app/alerting.ts';
import { type AutoCancel, createAutoCancel } from '../../src/app/auto-cancel.ts';
import { createHandOvers } from '../../src/app/hand-over.ts';
import { createHolding, telling } from '../../src/app/holding.ts';
import type { Config } from '../../src/config/schema.ts';
import { createSecretValues } from '../../src/config/secrets.ts';
import type { Clock } from '../../src/kit/clock.ts';
import type { Log } from '../../src/kit/log.ts';
import { createSerially } from '../../src/kit/serially.ts';
import type { Tracer } from '../../src/kit/tracer.ts';
import { createExposition } from '../../src/metrics/exposition.ts';
import { accountInfoFamily } from '../../src/metrics/own.ts';
import { createLoops, type Loops } from '../../src/scheduler/loop.ts';
import type { Store } from '../../src/store/store.ts';
import type { AgentClient } from './disk.ts';
import {
  createProcessClock,
  createProcessLife,
  createQuietLog,
  createQuietTracer,
  type ProcessLife,
} from './process-life.ts';
import type { Service } from './service.ts';
import { ACCOUNT, SECOND } from './settings.ts';
import { owners, type Time } from './time.ts';
import type { Asking } from './witness.ts';

/** The round that a request belongs to. */
export interface RoundActor {
  readonly collector: string;
  readonly round: string;
}
export type Actor = RoundActor | 'acting';

export const actors = new AsyncLocalStorage<Actor>();

/** The account as a process has it open. A process that loses its lease and acquires it again opens another one. */
export interface Process extends Asking {
  /** The configuration in use, which a reload replaces. */
  readonly config: Config;
  readonly startedAt: number;
  readonly clock: Clock;
  /** Times at which its clock was set while it was open, and by how much. */
  readonly steps: { readonly at: number; readonly by: number; readonly wallBefore: number }[];
  /** Rounds, acting and evaluating have begun. */
  readonly isRunning: boolean;
  readonly isClosed: boolean;
  /** Responses other than 401 that it has received. */
  accepted: number;
  /** Milliseconds for which no other process can have the account open. */
  leaseLeft(): number;
  scrape(): string;
  /** When the round began that was read to its end last, by the process's own clock. */
  observedAt(collector: string, round: string): number | undefined;
  firing(): readonly string[];
  /** When the latest evaluation of its alerts began; its end may wait long for the store. */
  readonly evaluatedAt: number;
}

/** A process of the operating system. */
export interface Host {
  readonly id: string;
  readonly life: ProcessLife;
  /** The account, while it is open or being opened here. */
  readonly account: Process | undefined;
  /** Whether it has started. */
  readonly isUp: boolean;
  /** Replaces the configuration. Rejects when that fails; then the previous one stays. */
  reload(config: Config): Promise<void>;
  /** Ends as after SIGTERM. */
  close(): Promise<void>;
}

export interface Machine {
  readonly time: Time;
  readonly service: Service;
  /** Wall time less the world's. */
  offset: number;
  /** Whether replicas share the store. */
  readonly isShared: boolean;
  random(): number;
}

export interface HostHooks {
  /** It exists, and has done nothing yet. */
  begun(host: Host): void;
  step(host: Host): void;
  isCutOff(host: Host): boolean;
  witness(process: Process): ReturnType<Asking['witness']>;
  store(agent: AgentClient, host: Host): Store;
  log(line: string): void;
  roundBegins(process: Process, actor: RoundActor): void;
  roundEnded(process: Process, actor: RoundActor, success: boolean, reason: string | undefined): void;
  evaluated(process: Process): void;
  /** The account is closed; the rounds in flight count as lost. */
  closed(process: Process): void;
}

/** Between two checks of auto-cancel for due work; after a walk it checks at once. */
const ACT_EVERY = 40 * SECOND;
/** Between two checks for orders of operators. Longer than the agent's, so that more may happen between two. */
const ORDERS_EVERY = 5 * SECOND;
const SAVE_EVERY = 60 * SECOND;

type Mutable<T> = { -readonly [Key in keyof T]: T[Key] };

/** The account of a host, with the loops of its rounds. */
interface Session {
  readonly process: Mutable<Process>;
  readonly account: Account;
  readonly rounds: Loops;
}

/** The parts for one configuration and one set of open accounts. */
interface Generation {
  readonly config: Config;
  readonly session: Session | undefined;
  readonly alerting: Alerting;
  readonly autoCancel: AutoCancel | undefined;
}

interface Parts {
  readonly machine: Machine;
  readonly hooks: HostHooks;
  readonly host: Host;
  readonly clock: Clock;
  readonly random: () => number;
  readonly store: Store;
  readonly holding: ReturnType<typeof createHolding> | undefined;
  readonly log: Log;
  readonly tracer: Tracer;
}

function createProcess(config: Config, { host, clock, machine, hooks, holding }: Parts): Mutable<Process> {
  const process: Mutable<Process> = {
    config,
    startedAt: machine.time.now,
    clock,
    steps: [],
    get isAlive() {
      return host.life.isAlive;
    },
    get isStopped() {
      return host.life.isStopped;
    },
    wake: run => host.life.wake(run),
    isRunning: false,
    isClosed: false,
    accepted: 0,
    leaseLeft: () => holding?.remaining(ACCOUNT) ?? Number.POSITIVE_INFINITY,
    step: () => hooks.step(host),
    witness: () => hooks.witness(process),
    scrape: () => '',
    observedAt: () => undefined,
    firing: () => [],
    evaluatedAt: machine.time.now,
  };
  return process;
}

async function openSession(process: Mutable<Process>, { machine, ...parts }: Parts): Promise<Session> {
  const { config } = process;
  const dispatcher = machine.service.dispatcherFor(process);
  const [settings] = config.accounts as [Config['accounts'][number]];
  const account = await openAccount(settings, {
    ...parts,
    config,
    env: {},
    secrets: createSecretValues(config, {}),
    dispatchers: { for: () => dispatcher },
    accountInfo: accountInfoFamily([settings.labels]),
    requestSeconds: { observe: () => undefined },
    backfill: undefined,
    traceQueue: () => undefined,
  });
  const roundOf = (collector: string, round: string) =>
    account
      .state(collector)
      ?.status()
      .rounds.find(each => each.round === round);
  process.observedAt = (collector, round) => roundOf(collector, round)?.dataAt;
  return { process, account, rounds: createLoops(parts) };
}

function startRounds({ process, account, rounds }: Session, { hooks }: Parts, afterWalk: () => void): void {
  for (const { collector, round, every, run } of account.rounds) {
    // It reads a file, and requests nothing from the service.
    if (collector === 'account') continue;
    void rounds.start(every, 0, async signal => {
      const actor: RoundActor = { collector, round };
      hooks.roundBegins(process, actor);
      await actors.run(actor, () => run(signal));
      if (!process.isAlive || signal.aborted) return;
      const status = account
        .state(collector)
        ?.status()
        .rounds.find(each => each.round === round);
      hooks.roundEnded(process, actor, status?.success === true, status?.failure?.reason);
      if (round === 'full') afterWalk();
    });
  }
  process.isRunning = true;
}

/** Builds the next generation without starting its loops. */
async function build(config: Config, process: Mutable<Process> | undefined, parts: Parts, before?: Generation) {
  const kept = before?.session?.process === process ? before?.session : undefined;
  const session = kept ?? (process && (await openSession(process, parts)));
  const { holding } = parts;
  const common = { ...parts, config, accounts: session ? [session.account] : [] };
  const alerting = await openAlerting({ ...common, env: {} }, before?.alerting);
  const { outbox, states: alertStates } = alerting;
  const autoCancel = await createAutoCancel(
    { ...common, outbox, alertStates, leaseLeft: account => holding?.remaining(account) },
    before?.autoCancel,
    before !== undefined,
  );
  return { config, session, alerting, autoCancel };
}

/** The loops of a generation. `act`: checks for due work at once. */
function startLoops({ config, session, alerting, autoCancel }: Generation, { clock, random, hooks, machine }: Parts) {
  const loops = createLoops({ clock, random });
  const [orders, ...runs] = autoCancel?.loops ?? [];
  let acting: Promise<void> | undefined;
  function act(signal: AbortSignal): Promise<void> {
    acting ??= actors.run('acting', async () => {
      for (const run of runs) await run(signal);
      acting = undefined;
    });
    return acting;
  }
  const stopping = new AbortController();
  if (orders) void loops.start(ORDERS_EVERY, ORDERS_EVERY, orders);
  void loops.start(ACT_EVERY, ACT_EVERY, () => act(stopping.signal));
  if (session) {
    const { process, account } = session;
    void loops.start(SAVE_EVERY, SAVE_EVERY, () => account.save().catch(() => undefined));
    const { evaluateEvery } = config.alerts;
    for (const evaluate of alerting.evaluations(autoCancel?.sources ?? [])) {
      void loops.start(evaluateEvery, evaluateEvery / 2, async () => {
        process.evaluatedAt = machine.time.now;
        await evaluate();
        if (process.isAlive && !process.isClosed) hooks.evaluated(process);
      });
    }
    const sources = [...account.sources, ...(autoCancel?.sources ?? []), ...alerting.sources];
    const exposition = createExposition(sources);
    process.scrape = () => exposition.render({ scope: 'everything', format: 'text', gzip: false }).toString();
    process.firing = () =>
      alerting.alerts().flatMap(({ state, labels }) => (state === 'firing' ? (labels.alertname ?? '') : []));
  }
  return {
    act: () => void act(stopping.signal),
    async close() {
      stopping.abort();
      await Promise.all([loops.close(), acting]);
    },
  };
}

/** Resolves after the parts are built; never, if the process dies before. */
export async function startHost(config: Config, id: string, machine: Machine, hooks: HostHooks): Promise<Host> {
  const life = createProcessLife();
  return owners.run(life, () => createHost(config, id, life, machine, hooks));
}

async function createHost(config: Config, id: string, life: ProcessLife, machine: Machine, hooks: HostHooks) {
  const clock = createProcessClock(machine, life);
  const random = () => machine.random();
  let process: Mutable<Process> | undefined;
  let current: Generation | undefined;
  let loops: ReturnType<typeof startLoops> | undefined;
  const host: Mutable<Host> = {
    id,
    life,
    get account() {
      return process;
    },
    get isUp() {
      return current !== undefined;
    },
    reload: next => owners.run(life, () => inTurn(() => switchTo(next, process !== undefined))),
    close: () => owners.run(life, close),
  };
  hooks.begun(host);
  hooks.step(host);
  const write = (line: string) => {
    if (life.isAlive) hooks.log(line);
  };
  const log = createQuietLog(write);
  const client: AgentClient = {
    id,
    get isAlive() {
      return life.isAlive;
    },
    awake: life.awake,
    step: () => hooks.step(host),
    monotonic: clock.monotonic,
    isCutOff: () => hooks.isCutOff(host),
  };
  const opened = hooks.store(client, host);
  const { replicas } = opened;
  const holding = replicas && createHolding({ replicas, accounts: [ACCOUNT], clock, random, log });
  const store = holding ? telling(opened, holding) : opened;
  const parts: Parts = { machine, hooks, host, clock, random, store, holding, log, tracer: createQuietTracer(write) };
  const inTurn = createSerially();

  /** Switches to the parts for this configuration, with or without the account, as `createRuntime` does. */
  async function switchTo(next: Config, isHeld: boolean): Promise<void> {
    const before = current;
    const last = process;
    if (isHeld) process ??= createProcess(next, parts);
    let generation: Generation;
    try {
      generation = await build(next, isHeld ? process : undefined, parts, before);
    } catch (error) {
      process = last;
      throw error;
    }
    await loops?.close();
    const gone = before?.session === generation.session ? undefined : before?.session;
    await gone?.rounds.close();
    if (before) generation.alerting.take();
    if (before) generation.autoCancel?.take();
    current = generation;
    if (process) process.config = next;
    loops = startLoops(generation, parts);
    const { act } = loops;
    if (generation.session && before?.session !== generation.session)
      startRounds(generation.session, parts, () => (loops?.act ?? act)());
    if (gone) {
      process = undefined;
      gone.process.isClosed = true;
      hooks.closed(gone.process);
      if (holding?.leaving().get(ACCOUNT) !== 'lost') await gone.account.save().catch(() => undefined);
    }
    if (before) await generation.alerting.letGo();
  }

  const handOvers =
    holding &&
    createHandOvers({
      holding,
      random,
      log,
      configured: () => [ACCOUNT],
      running: () => running,
      abort: lost => {
        if (lost.includes(ACCOUNT)) void current?.session?.rounds.close();
      },
      async goOver(accounts) {
        await switchTo(current?.config ?? config, accounts.has(ACCOUNT));
        running = accounts;
      },
      inTurn,
    });
  let running: ReadonlySet<string> = new Set();

  async function close(): Promise<void> {
    await handOvers?.stop();
    await Promise.all([loops?.close(), current?.session?.rounds.close()]);
    await current?.alerting.close();
    await current?.session?.account.save().catch(() => undefined);
    await holding?.close();
    await store.close();
  }

  await inTurn(() => switchTo(config, !holding));
  handOvers?.start();
  return host;
}
