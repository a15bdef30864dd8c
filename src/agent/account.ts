import { callbackOptions, rulesOf } from '../auto-cancel/callbacks.ts';
import {
  type AccountRound,
  type CollectorsDeps,
  openCollectors,
  type ShownFacts,
} from '../collectors/open-for-account.ts';
import type { Config } from '../config/schema.ts';
import { openRecorder } from '../history/recorder.ts';
import type { AccountMeter } from '../metrics/own.ts';
import type { AccountLimits } from '../model/account.ts';
import type { AccountStatus } from '../model/status.ts';
import { accountStatus, type CollectorState, withEarlierRounds } from '../scheduler/board.ts';
import { createLoops, type Loops } from '../scheduler/loop.ts';
import { createAccountSource, createSuspectedSource } from '../status/account-metrics.ts';
import { createProblemLog } from '../status/problem-log.ts';
import { type AccountSettings, type ClientDeps, createAccountClient } from './account-client.ts';
import { createUpkeep, openAccountRows } from './account-rows.ts';

export interface AccountDeps extends ClientDeps, CollectorsDeps {
  readonly config: Config;
  readonly holding?: ClientDeps['holding'] & CollectorsDeps['holding'];
}

/** An open account. Close it before opening another one with the same name. */
export type Account = Awaited<ReturnType<typeof openAccount>>;

/** State inherited from an earlier instance of the account. Must not reference that instance. */
interface Predecessor {
  readonly meter: AccountMeter;
  shown(): ShownFacts;
  shownStatus(): AccountStatus;
}

async function startLoops(rounds: readonly AccountRound[], loops: Loops): Promise<void> {
  const starting = rounds.map(({ every, run }) => {
    const first = Promise.withResolvers<void>();
    const running = loops.start(every, 0, signal => run(signal).finally(first.resolve));
    return Promise.race([first.promise, running]);
  });
  await Promise.all(starting);
}

/**
 * Opens an account from its stored rows, without sending requests. `last`: the stopped instance before a reload, whose
 * counters continue. Rejects with StoreError.
 */
export async function openAccount(settings: AccountSettings, deps: AccountDeps, last?: Predecessor) {
  const { name, collect } = settings;
  const { config, store, clock } = deps;
  const rows = await openAccountRows(store, name);
  const { before } = rows;
  const client = createAccountClient(settings, before, last?.meter, deps);
  const { log, at, budget } = client;
  const callbacks = callbackOptions(rulesOf(config, name), collect.dlq.rescanEvery, clock);
  const collectors = await openCollectors(settings, {
    ...deps,
    log,
    at,
    before,
    callbacks,
    shownBefore: last?.shown(),
  });
  const plan = () => collectors.shown().account?.now;
  const states: readonly CollectorState[] = collectors.all.map(({ state }) => state);
  const problems = createProblemLog(clock.now(), before.problems);
  const known = () => ({
    spent: budget.spent(),
    tokenRejected: client.isTokenRejected(),
    problems: problems.stored(),
    lists: client.lists(),
  });
  const history = await openRecorder({ account: name, store, clock, log });
  const upkeep = createUpkeep({ account: name, states, rows, history, known, clock, log });
  await upkeep.afterRound();

  let ended = 0;
  const rounds = collectors.all.flatMap(({ rounds }) =>
    rounds.map(
      (round): AccountRound => ({
        ...round,
        async run(signal) {
          await round.run(signal);
          await upkeep.afterRound();
          ended += 1;
        },
      }),
    ),
  );
  const loops = createLoops(deps);
  const status = () => accountStatus(name, states);
  const statusBefore = last?.shownStatus();
  const shownStatus = () => withEarlierRounds(status(), statusBefore);
  const suspected = createSuspectedSource(name, () => collectors.shown().dlq?.now);
  const facts = [...collectors.all.map(({ source }) => source), ...(collect.dlq.enabled ? [suspected] : [])];
  return {
    ...client,
    name,
    /** For callers that run rounds individually instead of calling `start`. */
    rounds,
    facts,
    sources: [...facts, createAccountSource({ settings, client, status: shownStatus, plan })],
    roundsEnded: () => ended,
    shown: collectors.shown,
    status,
    shownStatus,
    /** Returns the number of requests left in the configured budget of this UTC day. */
    budgetRemaining: budget.remaining,
    /** Returns the state of a collector; undefined if the collector is not enabled. */
    state: (collector: string) => states.find(each => each.collector === collector),
    /** Undefined before the first complete walk and after withdrawal. */
    dlqFacts: collectors.dlqFacts,
    history,
    problems,
    /** Undefined until the account's record is read. */
    plan,
    limits: (): AccountLimits => plan()?.limits ?? {},
    /** Starts all rounds. Resolves when each has run once. Call it only once. */
    start: () => startLoops(rounds, loops),
    /** Saves the state together with further rows. Rejects with StoreError. */
    save: upkeep.save,
    /** Stops the rounds and aborts requests in flight. */
    stop: () => loops.close(),
    async close(): Promise<void> {
      await loops.close();
      await upkeep.save();
    },
  };
}
