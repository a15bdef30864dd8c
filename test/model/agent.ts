/**
 * One process of the agent: the supervisor and its accounts, without a port. It runs on a simulated machine, which may
 * kill or stop it.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { type Account, type AccountDeps, openAccount } from '../../src/agent/account.ts';
import type { AgentBase } from '../../src/agent/base.ts';
import { Supervisor } from '../../src/agent/supervisor.ts';
import type { AccountSettings, Config } from '../../src/config/schema.ts';
import { createSecretValues } from '../../src/config/secrets.ts';
import type { Clock } from '../../src/kit/clock.ts';
import type { Tracer } from '../../src/kit/tracer.ts';
import { createExposition } from '../../src/metrics/exposition.ts';
import type { ProcessMetrics } from '../../src/metrics/process.ts';
import { Leadership } from '../../src/replicas/leadership.ts';
import { createStoreHandle } from '../../src/replicas/session.ts';
import { createNotificationLog } from '../../src/status/agent.ts';
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
import { SECOND } from './settings.ts';
import { owners, type Time } from './time.ts';
import type { Asking } from './witness.ts';

/** The round that sends a request. */
export interface RoundActor {
  readonly collector: string;
  readonly round: string;
}
export type Actor = RoundActor | 'acting';

export const actors = new AsyncLocalStorage<Actor>();

/** An open account of a process. */
export interface Process extends Asking {
  /** The active configuration, which a reload replaces. */
  readonly config: Config;
  /**
   * The previous instance, which a reload of the same operating-system process has closed. Its numbers stay exposed until
   * this instance completes a read.
   */
  readonly before: Process | undefined;
  readonly startedAt: number;
  readonly clock: Clock;
  /** Time and size of each clock change while the account was open. */
  readonly steps: { readonly at: number; readonly by: number; readonly wallBefore: number }[];
  /** Whether the loops of rounds, auto-cancel and alert evaluation have started. */
  readonly isRunning: boolean;
  readonly isClosed: boolean;
  /** Number of received responses other than 401. */
  accepted: number;
  /** Returns the remaining lease time (ms), during which no other process can hold the account. */
  leaseLeft(): number;
  scrape(): Promise<string>;
  /** Returns the start of the last complete round, by the process's own clock (ms since the Unix epoch). */
  observedAt(collector: string, round: string): number | undefined;
  firing(): readonly string[];
  /** Start of the latest alert evaluation (ms since the world's start). The evaluation may still be waiting for the store. */
  readonly evaluatedAt: number;
}

/** An operating-system process. */
export interface Host {
  readonly id: string;
  readonly life: ProcessLife;
  /** The account while this process has it open or opens it. */
  readonly account: Process | undefined;
  /** Whether the process has started completely. */
  readonly isUp: boolean;
  /** Replaces the configuration. If it rejects, the previous configuration stays active. */
  reload(config: Config): Promise<void>;
  /** Stops the process as SIGTERM does. */
  close(): Promise<void>;
}

export interface Machine {
  readonly time: Time;
  readonly service: Service;
  /** Offset of the wall clock from the world's time (ms). */
  offset: number;
  /** Whether several processes share the store. */
  readonly isShared: boolean;
  random(): number;
}

export interface HostHooks {
  /** Called before a process does anything. */
  begun(host: Host): void;
  step(host: Host): void;
  isCutOff(host: Host): boolean;
  witness(process: Process): ReturnType<Asking['witness']>;
  store(agent: AgentClient, host: Host): Store;
  log(line: string): void;
  roundBegins(process: Process, actor: RoundActor): void;
  roundEnded(process: Process, actor: RoundActor, success: boolean, reason: string | undefined): void;
  evaluated(process: Process): void;
  /** Called when the account is closed. Its rounds in flight count as lost. */
  closed(process: Process): void;
  /** Called when another process leads instead of this one. */
  lost(host: Host): void;
}

/**
 * The agent's intervals (ms), longer than the defaults, so that a run takes fewer steps and more events occur between two
 * checks. The history is rarely sampled, because the oracles do not check it.
 */
const INTERVALS = { save: 60 * SECOND, act: 10 * SECOND, orders: 5 * SECOND, sample: 3600 * SECOND, retry: 5 * SECOND };

type Mutable<T> = { -readonly [Key in keyof T]: T[Key] };

function createProcess(host: Host, machine: Machine, hooks: HostHooks, clock: Clock, config: () => Config) {
  const process: Mutable<Process> = {
    get config() {
      return config();
    },
    before: undefined,
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
    leaseLeft: () => Number.POSITIVE_INFINITY,
    step: () => hooks.step(host),
    witness: () => hooks.witness(process),
    scrape: async () => '',
    observedAt: () => undefined,
    firing: () => [],
    evaluatedAt: machine.time.now,
  };
  return process;
}

/** Stub of the process metrics, which are not simulated. */
const NO_PROCESS_METRICS = {
  requestSeconds: { observe: () => undefined },
  spans: { inc: () => undefined },
  source: { families: [], revision: () => 0, samples: () => new Map() },
  refresh: async () => undefined,
  configLoaded: () => undefined,
  configRead: () => undefined,
} as unknown as ProcessMetrics;

/** Starts a process. Resolves when its parts are built. Never resolves if the process dies first. */
export async function startHost(config: Config, id: string, machine: Machine, hooks: HostHooks): Promise<Host> {
  const life = createProcessLife();
  return owners.run(life, () => createHost(config, id, life, machine, hooks));
}

async function createHost(config: Config, id: string, life: ProcessLife, machine: Machine, hooks: HostHooks) {
  const clock = createProcessClock(machine, life);
  const random = () => machine.random();
  let process: Mutable<Process> | undefined;
  let closed: Process | undefined;
  let account: Account | undefined;
  let supervisor: Supervisor | undefined;
  let isUp = false;
  let isEnding = false;
  const loaded = (next: Config) => ({ file: 'model.yaml', config: next, hash: 'model', warnings: [] });
  const host: Host = {
    id,
    life,
    get account() {
      return process;
    },
    get isUp() {
      return isUp;
    },
    reload: next => owners.run(life, async () => void (await supervisor?.reload(loaded(next)))),
    close: () => owners.run(life, close),
  };
  hooks.begun(host);
  hooks.step(host);
  const write = (line: string) => {
    if (life.isAlive) hooks.log(line);
  };
  const log = { ...createQuietLog(write), use: () => undefined };
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
  const { lease } = opened;
  const leadership = lease && new Leadership({ lease, clock, random, log });
  const storeFor = (isRevoked?: () => boolean) => createStoreHandle(opened, leadership, isRevoked);
  const store = storeFor();

  const quiet = createQuietTracer(write);
  /** Tracer that observes rounds and alert evaluations through their spans. */
  const tracer: Tracer = {
    span(name, attributes, work, kind) {
      const of = process;
      const { collector, round } = attributes as { readonly collector?: string; readonly round?: string };
      if (of && name === 'evaluate alerts')
        return quiet.span(name, attributes, span => evaluated(of, work(span)), kind);
      // Rounds of the collector `account` send no requests, so they are not observed.
      if (!of || !name.startsWith('collect ') || !collector || !round || collector === 'account')
        return quiet.span(name, attributes, work, kind);
      const actor: RoundActor = { collector, round };
      return quiet.span(name, attributes, span => ran(of, actor, () => actors.run(actor, () => work(span))), kind);
    },
  };

  async function evaluated<T>(of: Mutable<Process>, work: Promise<T>): Promise<T> {
    of.evaluatedAt = machine.time.now;
    const result = await work;
    if (of.isAlive && !of.isClosed && !isEnding) hooks.evaluated(of);
    return result;
  }

  async function ran<T>(of: Process, actor: RoundActor, work: () => Promise<T>): Promise<T> {
    hooks.roundBegins(of, actor);
    const result = await work();
    if (!of.isAlive || of.isClosed || isEnding) return result;
    const status = roundOf(actor.collector, actor.round);
    hooks.roundEnded(of, actor, status?.success === true, status?.failure?.reason);
    return result;
  }

  const roundOf = (collector: string, round: string) =>
    account
      ?.state(collector)
      ?.status()
      .rounds.find(each => each.round === round);

  async function open(
    settings: AccountSettings,
    deps: AccountDeps,
    last?: Parameters<typeof openAccount>[2],
  ): Promise<Account> {
    const next = createProcess(host, machine, hooks, clock, () => supervisor?.loaded.config ?? config);
    if (last) next.before = closed;
    process = next;
    const dispatcher = machine.service.dispatcherFor(next);
    // With PostgreSQL as store, the account's plan is read from the store.
    const stored = { ...deps.config, store: { ...deps.config.store, kind: 'postgres' as const } };
    const dispatchers = { for: () => dispatcher };
    try {
      const own = await openAccount(settings, { ...deps, config: stored as Config, dispatchers }, last);
      account = own;
      Object.assign(next, {
        leaseLeft: () => deps.leadership?.remaining() ?? Number.POSITIVE_INFINITY,
        observedAt: (collector: string, round: string) => roundOf(collector, round)?.dataAt,
        scrape,
        firing: () =>
          supervisor?.alerting
            .alerts()
            .flatMap(({ state, labels }) => (state === 'firing' ? (labels.alertname ?? '') : [])) ?? [],
      });
      return {
        ...own,
        start() {
          next.isRunning = true;
          return own.start();
        },
        stop() {
          if (process === next && !isEnding) {
            process = undefined;
            closed = next;
            next.isClosed = true;
            hooks.closed(next);
          }
          return own.stop();
        },
      };
    } catch (error) {
      if (process === next) process = undefined;
      throw error;
    }
  }

  const exposition = createExposition([]);
  async function scrape(): Promise<string> {
    exposition.use(supervisor?.state().shown ?? []);
    return (await exposition.render({ scope: 'everything', format: 'text', gzip: false })).toString();
  }

  const base: AgentBase = {
    env: {},
    clock,
    random,
    log,
    tracer,
    store,
    storeFor,
    leadership,
    leaseMeter: undefined,
    process: NO_PROCESS_METRICS,
    peerKey: undefined,
    secrets: createSecretValues(config, {}),
    dispatchers: {
      for: () => undefined as never,
      keep: async () => undefined,
      destroy: async () => undefined,
    },
    reloads: { last: undefined },
    notified: createNotificationLog(),
    openAccount: open,
    intervals: INTERVALS,
  };

  async function close(): Promise<void> {
    isEnding = true;
    await supervisor?.stop();
    await supervisor?.close();
    await leadership?.close();
    await store.close();
  }

  supervisor = await Supervisor.open(loaded(config), base);
  isUp = true;
  supervisor.start(() => hooks.lost(host));
  return host;
}
