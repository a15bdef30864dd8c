import { callbackOptions, rulesOf } from '../auto-cancel/callbacks.ts';
import type { DlqFacts, PlanFacts } from '../collectors/index.ts';
import {
  type AccountRound,
  type CollectorsDeps,
  openCollectors,
  type ShownFacts,
} from '../collectors/open-for-account.ts';
import type { Config } from '../config/schema.ts';
import { openRecorder, type Recorder } from '../history/recorder.ts';
import type { Source } from '../metrics/family.ts';
import type { AccountLimits } from '../model/account.ts';
import type { Change } from '../model/change.ts';
import type { AccountStatus } from '../model/status.ts';
import { accountStatus, type CollectorState, continued } from '../scheduler/board.ts';
import { createLoops } from '../scheduler/loop.ts';
import { createProblemLog, type ProblemLog } from '../status/problem-log.ts';
import { type AccountClient, type AccountSettings, type ClientDeps, createAccountClient } from './account-client.ts';
import { createAccountSource, createSuspectedSource } from './account-metrics.ts';
import { createUpkeep, type LastKnown, openAccountRows } from './account-rows.ts';

export interface AccountDeps extends ClientDeps, CollectorsDeps {
  readonly config: Config;
  readonly holding?: ClientDeps['holding'] & CollectorsDeps['holding'];
}

/** One account: its rounds, and what it shows. Of two with one name, the second may be opened when the first is closed. */
export interface Account
  extends Pick<AccountClient, 'at' | 'clockSkew' | 'createWriter' | 'isTokenKnown' | 'isTokenRejected' | 'spent'> {
  readonly name: string;
  /** Its rounds, for running them one by one, instead of `start`. */
  readonly rounds: readonly AccountRound[];
  /** What the service said. */
  readonly facts: readonly Source[];
  /** That, and what the agent says of the account. */
  readonly sources: readonly Source[];
  /** Of its rounds. */
  status(): AccountStatus;
  /** The same as it is shown: of a round that was not tried yet, what it was under other settings. */
  shownStatus(): AccountStatus;
  /** How many of its rounds have ended, well or not, since it was opened. */
  roundsEnded(): number;
  /** The facts that /metrics, the page and the API show. */
  shown(): ShownFacts;
  readonly meter: AccountClient['meter'];
  /** Requests left in the configured budget of this UTC day. */
  budgetRemaining(): number;
  /** How true the data of a collector is; undefined while it is not enabled. */
  state(collector: string): CollectorState | undefined;
  /** What is shown of the dead-letter queue; undefined before the first complete walk, and when it has become too old. */
  dlqFacts(): DlqFacts | undefined;
  /** What it showed, minute by minute; `use` says how much of it is kept. */
  readonly history: Recorder;
  /** Since when what is wrong with it is. */
  readonly problems: ProblemLog;
  /** The account's plan; undefined before its record was read. */
  plan(): PlanFacts | undefined;
  /** What is known of its plan's limits. */
  limits(): AccountLimits;
  /** Runs its rounds again and again. Resolves when each was run once. To be called once. */
  start(): Promise<void>;
  /**
   * Puts what was spent of the day's budget, how fresh the data is, and the history into the store, and `more` rows with it.
   * Rejects with StoreError.
   */
  save(more?: readonly Change[]): Promise<void>;
  /** Ends its rounds and aborts requests in flight. None starts afterwards. */
  stop(): Promise<void>;
  /** Stops, and saves. Nothing is asked afterwards. Rejects with StoreError. */
  close(): Promise<void>;
}

/** `shownBefore`: facts and not the account before, which would keep the one before that reachable. */
function openFor(
  settings: AccountSettings,
  deps: AccountDeps,
  { at, log }: AccountClient,
  before: LastKnown,
  shownBefore: ShownFacts | undefined,
) {
  const callbacks = callbackOptions(rulesOf(deps.config, settings.name), settings.collect.dlq.rescanEvery, deps.clock);
  return openCollectors(settings, { ...deps, log, at, before, callbacks, shownBefore });
}

/**
 * Reads what is stored of the account, and asks the service nothing. `last`: the same account under other settings, stopped
 * and saved; its counters go on, and its gauges stay until they are read. Rejects with StoreError.
 */
export async function openAccount(settings: AccountSettings, deps: AccountDeps, last?: Account): Promise<Account> {
  const { name } = settings;
  const { store, clock } = deps;
  const rows = await openAccountRows(store, name);
  const client = createAccountClient(settings, rows.before, last?.meter, deps);
  const { log } = client;
  const collectors = await openFor(settings, deps, client, rows.before, last?.shown());
  const states = collectors.all.map(({ state }) => state);
  const problems = createProblemLog(clock.now(), rows.before.problems);
  const known = () => ({
    spent: client.budget.spent(),
    tokenRejected: client.isTokenRejected(),
    problems: problems.stored(),
  });
  const history = await openRecorder({ account: name, store, clock, log });
  const upkeep = createUpkeep({ account: name, states, rows, history, known, clock, log });
  // From now on it is tried, whatever becomes of this process.
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
  let isStarted = false;
  const status = () => accountStatus(name, states);
  const before = last?.shownStatus();
  const shownStatus = () => continued(status(), before);
  const suspected = createSuspectedSource(name, () => collectors.shown().dlq?.now);
  const facts = [...collectors.all.map(({ source }) => source), ...(settings.collect.dlq.enabled ? [suspected] : [])];
  const parts = { settings, client, status: shownStatus, plan: collectors.plan };
  async function run(): Promise<void> {
    await Promise.all(
      rounds.map(({ every, run }) => {
        const first = Promise.withResolvers<void>();
        const running = loops.start(every, 0, signal => run(signal).finally(first.resolve));
        return Promise.race([first.promise, running]);
      }),
    );
  }
  return {
    name,
    rounds,
    facts,
    sources: [...facts, createAccountSource(parts)],
    roundsEnded: () => ended,
    shown: collectors.shown,
    status,
    shownStatus,
    meter: client.meter,
    budgetRemaining: client.budget.remaining,
    state: collector => states.find(each => each.collector === collector),
    dlqFacts: collectors.dlqFacts,
    history,
    problems,
    plan: collectors.plan,
    limits: () => collectors.plan()?.limits ?? {},
    at: client.at,
    createWriter: client.createWriter,
    isTokenKnown: client.isTokenKnown,
    clockSkew: client.clockSkew,
    isTokenRejected: client.isTokenRejected,
    spent: client.spent,
    async start() {
      if (isStarted) return;
      isStarted = true;
      await run();
    },
    save: upkeep.save,
    stop: () => loops.close(),
    async close() {
      await loops.close();
      await upkeep.save();
    },
  };
}
