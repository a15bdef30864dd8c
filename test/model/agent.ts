/** The parts of the agent as `startAgent` puts them together, without its port, on a simulated machine on which they may die at any time. */
import { AsyncLocalStorage } from 'node:async_hooks';
import { openAccount } from '../../src/app/account.ts';
import { openAlerting } from '../../src/app/alerting.ts';
import { createAutoCancel } from '../../src/app/auto-cancel.ts';
import type { Config } from '../../src/config/schema.ts';
import { createSecretValues } from '../../src/config/secrets.ts';
import type { Clock } from '../../src/kit/clock.ts';
import type { Log } from '../../src/kit/log.ts';
import type { Tracer } from '../../src/kit/tracer.ts';
import { createExposition } from '../../src/metrics/exposition.ts';
import { accountInfoFamily } from '../../src/metrics/own.ts';
import { runLoop } from '../../src/scheduler/loop.ts';
import type { Store } from '../../src/store/store.ts';
import type { Asking, Service } from './service.ts';
import { SECOND, START } from './settings.ts';
import type { Time } from './time.ts';

/** What something is done for. */
export interface RoundActor {
  readonly collector: string;
  readonly round: string;
}
export type Actor = RoundActor | 'acting';

export const actors = new AsyncLocalStorage<Actor>();

/** One process, from its start to its death. */
export interface Process extends Asking {
  readonly config: Config;
  readonly startedAt: number;
  readonly clock: Clock;
  /** Times at which its clock was set while it lived, and by how much. */
  readonly steps: { readonly at: number; readonly by: number; readonly wallBefore: number }[];
  isAlive: boolean;
  /** Rounds, acting and evaluating have begun. */
  isRunning: boolean;
  scrape(): string;
  /** When the round began that was read to its end last, by the process's own clock. */
  observedAt(collector: string, round: string): number | undefined;
  firing(): readonly string[];
  /** When the latest evaluation of its alerts began; its end may wait long for the store. */
  evaluatedAt: number;
  /** Ends as SIGTERM lets it. */
  close(): Promise<void>;
}

export interface Machine {
  readonly time: Time;
  readonly service: Service;
  /** Wall time less the world's. */
  offset: number;
  random(): number;
}

export interface ProcessHooks {
  step(process: Process): void;
  witness: Asking['witness'];
  store(process: Process): Store;
  log(line: string): void;
  roundBegins(actor: RoundActor): void;
  roundEnded(actor: RoundActor, success: boolean, reason: string | undefined): void;
  evaluated(process: Process): void;
}

/** Between two looks of auto-cancel whether something is due; after a walk it looks at once. */
const ACT_EVERY = 40 * SECOND;
const SAVE_EVERY = 60 * SECOND;

function createQuietLog(tell: (line: string) => void): Log {
  const at = (level: string) => (fields: object, message: string) =>
    tell(`${level} ${message} ${JSON.stringify(fields)}`);
  const log: Log = { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error'), child: () => log };
  return log;
}

function createQuietTracer(tell: (line: string) => void): Tracer {
  return {
    span(name, attributes, work) {
      tell(`span ${name} ${Object.values(attributes).join(' ')}`);
      return work({ set: more => tell(`span ${Object.values(more).join(' ')}`), fail: tell });
    },
    headers: () => ({}),
  };
}

/** Its first moments, in which it reads what is stored, are over when this resolves; never, when it dies in them. */
export async function startProcess(config: Config, machine: Machine, hooks: ProcessHooks): Promise<Process> {
  const { time, service } = machine;
  const startedAt = time.now;
  const clock: Clock = {
    now: () => START + time.now + machine.offset,
    monotonic: () => time.now - startedAt,
    sleep: (ms, signal) =>
      new Promise((resolve, reject) => {
        if (signal?.aborted) return reject(signal.reason);
        const onAbort = () => {
          off();
          reject(signal?.reason);
        };
        const off = time.after(ms, () => {
          signal?.removeEventListener('abort', onAbort);
          if (process.isAlive) resolve();
        });
        signal?.addEventListener('abort', onAbort, { once: true });
      }),
  };
  const process: Process = {
    config,
    startedAt,
    clock,
    steps: [],
    isAlive: true,
    isRunning: false,
    step: () => hooks.step(process),
    witness: hooks.witness,
    scrape: () => '',
    observedAt: () => undefined,
    firing: () => [],
    evaluatedAt: startedAt,
    close: async () => undefined,
  };
  hooks.step(process);
  const tell = (line: string) => {
    if (process.isAlive) hooks.log(line);
  };
  const log = createQuietLog(tell);
  const tracer = createQuietTracer(tell);
  const random = () => machine.random();
  const store = hooks.store(process);
  const dispatcher = service.dispatcherFor(process);
  const [settings] = config.accounts as [Config['accounts'][number]];
  const account = await openAccount(settings, {
    config,
    env: {},
    secrets: createSecretValues(config, {}),
    dispatchers: { for: () => dispatcher },
    accountInfo: accountInfoFamily([settings.labels]),
    requestSeconds: { observe: () => undefined },
    store,
    clock,
    random,
    backfill: undefined,
    traceQueue: () => undefined,
    log,
    tracer,
  });
  const common = { config, accounts: [account], store, clock, log, tracer };
  const alerting = await openAlerting({ ...common, env: {}, random });
  const { outbox, states: alertStates } = alerting;
  const autoCancel = await createAutoCancel({ ...common, outbox, alertStates });
  const sources = [...account.sources, ...(autoCancel?.sources ?? []), ...alerting.sources];
  const exposition = createExposition(sources);

  const stopping = new AbortController();
  const loops: Promise<void>[] = [];
  const loop = (every: number, firstDelay: number, body: (signal: AbortSignal) => Promise<void>) => {
    loops.push(runLoop({ every, firstDelay, clock, random, signal: stopping.signal, body }));
  };
  let acting: Promise<void> | undefined;
  /** As its loops do, the commands before the decisions, never twice at a time. */
  function act(signal: AbortSignal): Promise<void> {
    acting ??= actors.run('acting', async () => {
      for (const each of autoCancel?.loops ?? []) await each(signal);
      acting = undefined;
    });
    return acting;
  }
  function runRounds(): void {
    for (const { collector, round, every, run } of account.rounds) {
      // It reads a file, and nothing of the service.
      if (collector === 'account') continue;
      loop(every, 0, async signal => {
        const actor: RoundActor = { collector, round };
        hooks.roundBegins(actor);
        await actors.run(actor, () => run(signal));
        if (!process.isAlive || signal.aborted) return;
        const status = account
          .state(collector)
          ?.status()
          .rounds.find(each => each.round === round);
        hooks.roundEnded(actor, status?.success === true, status?.failure?.reason);
        if (round === 'full') void act(signal);
      });
    }
  }
  runRounds();
  loop(ACT_EVERY, ACT_EVERY, act);
  loop(SAVE_EVERY, SAVE_EVERY, () => account.save().catch(() => undefined));
  for (const evaluate of alerting.evaluations(autoCancel?.sources ?? [])) {
    loop(config.alerts.evaluateEvery, config.alerts.evaluateEvery / 2, async () => {
      process.evaluatedAt = time.now;
      await evaluate();
      if (process.isAlive) hooks.evaluated(process);
    });
  }
  process.scrape = () => exposition.render({ scope: 'everything', format: 'text', gzip: false }).toString();
  process.observedAt = (collector, round) =>
    account
      .state(collector)
      ?.status()
      .rounds.find(each => each.round === round)?.dataAt;
  process.firing = () =>
    alerting.alerts().flatMap(({ state, labels }) => (state === 'firing' ? (labels.alertname ?? '') : []));
  process.close = async () => {
    stopping.abort();
    await Promise.all(loops);
    await acting;
    await alerting.close();
    await account.save().catch(() => undefined);
    await store.close();
  };
  process.isRunning = true;
  return process;
}
