import { rulesOf, trackingOf } from '../auto-cancel/tracking.ts';
import { accountPlan, planOf } from '../collectors/index.ts';
import { type AccountRound, type CollectorsDeps, openCollectors } from '../collectors/open-for-account.ts';
import type { AccountSettings, Config } from '../config/schema.ts';
import { Recorder } from '../history/recorder.ts';
import type { AccountMeter } from '../metrics/own.ts';
import type { AccountLimits } from '../model/account.ts';
import { accountStatus, type CollectorState, type Inherited } from '../scheduler/board.ts';
import { createLoops, type Loops } from '../scheduler/loop.ts';
import { createAccountSource } from '../status/account-metrics.ts';
import type { Budget } from '../upstream/budget.ts';
import { type ClientDeps, createAccountClient } from './account-client.ts';
import { createUpkeep, openAccountRows } from './account-rows.ts';

export interface AccountDeps extends ClientDeps, CollectorsDeps {
  readonly config: Config;
  readonly leadership?: ClientDeps['leadership'] & CollectorsDeps['leadership'];
}

/** An open account. Close it before opening another one with the same name. */
export type Account = Awaited<ReturnType<typeof openAccount>>;

/** State inherited from an earlier instance of the account. Must not reference that instance. */
interface Predecessor {
  readonly meter: AccountMeter;
  readonly service: string;
  readonly budget: Pick<Budget, 'wait'>;
  inherit(): ReadonlyMap<string, Inherited>;
}

async function startLoops(rounds: readonly AccountRound[], loops: Loops): Promise<void> {
  const starting = rounds.map(({ every, run, retry }) => {
    const first = Promise.withResolvers<void>();
    const running = loops.start(every, 0, signal => run(signal).finally(first.resolve), retry);
    return Promise.race([first.promise, running]);
  });
  await Promise.all(starting);
}

/**
 * Opens an account from its stored rows, without sending requests. `last`: the instance stopped by a reload. Its counters
 * continue; its other state continues if the service is the same. Rejects with StoreError.
 */
export async function openAccount(given: AccountSettings, deps: AccountDeps, last?: Predecessor) {
  let settings = given;
  const { name, collect, baseUrl: service } = settings;
  const { config, store, clock } = deps;
  const rows = await openAccountRows(store, name);
  const isOtherService = last !== undefined && last.service !== service;
  const before = isOtherService ? { spent: rows.before.spent } : rows.before;
  const client = createAccountClient(settings, before, last?.meter, deps);
  const { log, at, serviceClock, budget } = client;
  if (last && !isOtherService) budget.pause(last.budget.wait());
  const collectors = await openCollectors(settings, {
    ...deps,
    log,
    at,
    serviceClock,
    before,
    callbacks: trackingOf(rulesOf(config, name), collect.dlq.rescanEvery),
    pause: budget.wait,
    limits: () => settings.limits,
    inherited: isOtherService ? undefined : last?.inherit(),
  });
  const plan = () => planOf(collectors.shown().account);
  const states: readonly CollectorState[] = collectors.all.map(({ state }) => state);
  const known = () => ({
    spent: budget.spent(),
    tokenRejected: client.isTokenRejected(),
    lists: client.lists(),
  });
  const history = await Recorder.open({ account: name, store, clock, log });
  const upkeep = createUpkeep({ states, rows, history, known });
  await upkeep.afterRound();

  const loops = createLoops(deps);
  const rounds = collectors.all.flatMap(({ rounds }) =>
    rounds.map((round): AccountRound => {
      const run = async (signal: AbortSignal) => {
        await round.run(signal);
        await upkeep.afterRound();
      };
      return { ...round, run };
    }),
  );
  const status = () => accountStatus(name, states);
  const facts = collectors.all.map(({ source }) => source);
  return {
    ...client,
    name,
    createWriter: () => client.createWriter(settings.actionToken ?? settings.token),
    /** For callers that run rounds individually instead of calling `start`. */
    rounds,
    facts,
    sources: [...facts, createAccountSource({ settings: () => settings, client, status, plan })],
    service,
    autoCancelFailure: undefined as Error | undefined,
    /** Applies changed settings that do not affect reading. */
    async use(next: AccountSettings): Promise<void> {
      if (next === settings) return;
      settings = next;
      await rounds.find(({ collector }) => collector === accountPlan.name)?.run(new AbortController().signal);
    },
    inherit: () => new Map(states.map(state => [state.collector, state.inherit()])),
    shown: collectors.shown,
    status,
    /** Returns the number of requests left in the configured budget of this UTC day. */
    budgetRemaining: budget.remaining,
    /** Returns the state of a collector; undefined if the collector is not enabled. */
    state: (collector: string) => states.find(each => each.collector === collector),
    /** Undefined before the first complete walk and after withdrawal. */
    dlqFacts: collectors.dlqFacts,
    history,
    /** Undefined until the account's record is read. */
    plan,
    limits: (): AccountLimits => plan()?.limits ?? {},
    /** Starts all rounds. Resolves when each has run once. Call it only once. */
    start: () => startLoops(rounds, loops),
    /** Rejects with StoreError. */
    save: upkeep.save,
    /** Stops the rounds and aborts requests in flight. */
    stop: () => loops.close(),
    async close(): Promise<void> {
      await loops.close();
      await upkeep.save();
    },
  };
}
