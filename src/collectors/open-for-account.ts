import type { Runtime } from '../kit/runtime.ts';
import type { Source } from '../metrics/family.ts';
import type { Objectives } from '../metrics/objectives.ts';
import type { AccountLimits } from '../model/account.ts';
import type { MessageSpans } from '../model/message-span.ts';
import { type CollectorState, createCollectorState, type Freshness, type Inherited } from '../scheduler/board.ts';
import type { StalenessOptions } from '../scheduler/options.ts';
import { createRetries } from '../scheduler/retry.ts';
import { createRunner } from '../scheduler/runner.ts';
import { accountRecordReader } from '../store/account-row.ts';
import { readRows } from '../store/errors.ts';
import type { StoreOptions } from '../store/options.ts';
import type { Store } from '../store/store.ts';
import type { Priority, Reader, ReadRound, ServiceClock } from '../upstream/api.ts';
import type { AccountOptions } from '../upstream/options.ts';
import { createAccountPlan } from './account-plan.ts';
import { type Cadence, type Collector, collectorSource, withAbsence, withReader } from './collector.ts';
import type { CallbackTracking } from './dlq/callback-tracker.ts';
import type { DlqFacts } from './dlq/families.ts';
import type { EventsFacts } from './events/families.ts';
import { schedulesOf } from './events/schedule-options.ts';
import { type CollectOptions, createCollectors, readAny, type ShownFacts } from './index.ts';

export interface AccountRound {
  readonly collector: string;
  readonly round: string;
  readonly every: number;
  readonly leastRequests: number;
  readonly why: Cadence['why'];
  /** Never throws. */
  run(signal: AbortSignal): Promise<void>;
  /** Returns the delay before a failed run is repeated (ms); undefined if the last run succeeded. */
  retry(): number | undefined;
}

interface OpenCollector<Facts = unknown> {
  readonly state: CollectorState<Facts>;
  readonly rounds: readonly AccountRound[];
  readonly source: Source;
}

export interface CollectedAccount extends Pick<AccountOptions, 'name' | 'baseUrl' | 'retention' | 'paths'> {
  readonly collect: CollectOptions;
  readonly objectives: Pick<Objectives, 'onTimeWithin'>;
}

export interface CollectorsSettings {
  readonly staleness: StalenessOptions;
  readonly schedules: Parameters<typeof schedulesOf>[0];
  readonly store: StoreOptions;
  readonly log: { readonly deadLetters: boolean };
}

export interface CollectorsDeps extends Runtime {
  readonly config: CollectorsSettings;
  readonly store: Store;
  /** Whether the database is unavailable; undefined if the store is not shared. */
  readonly leadership?: { isUnavailable(): boolean } | undefined;
  /** Undefined if messages are not traced. */
  readonly messageSpans?: MessageSpans | undefined;
}

/**
 * `at`: returns a reader that uses the account's budget; `pause`: time for which no request may be sent (ms); `before`: state
 * stored by an earlier process; `inherited`: state of each collector before a reload.
 */
type Deps = CollectorsDeps & {
  readonly at: (priority: Priority, round: ReadRound) => Reader;
  readonly serviceClock: ServiceClock;
  readonly pause: () => number;
  readonly before: { readonly freshness?: Readonly<Record<string, Readonly<Record<string, Freshness>>>> | undefined };
  readonly callbacks: CallbackTracking;
  /** Returns the configured limits of the account's plan, which may change. */
  readonly limits: () => AccountLimits;
  readonly inherited: ReadonlyMap<string, Inherited> | undefined;
};

async function openCollector<Facts, Memory, Walk>(
  account: string,
  collector: Collector<Facts, Memory, Walk>,
  { config, store, leadership, clock, random, log, tracer, at, pause, before: stored, inherited: all }: Deps,
): Promise<OpenCollector<Facts>> {
  const { name, rounds, auxiliary, isOptional, inherit } = collector;
  const restored = stored.freshness?.[name];
  // Options do not change the type of a collector's facts.
  const last = all?.get(name) as Inherited<Facts> | undefined;
  const inherited = last && (inherit?.(last) ?? last);
  const which = { account, collector: name, auxiliary, isOptional, restored, inherited };
  const state = createCollectorState<Facts>(which, rounds, config.staleness, clock);
  const restore = (rows: ReadonlyMap<string, string>) =>
    readRows(`${name}/`, rows, some => collector.restore(some, inherited?.facts));
  const run = await createRunner({
    observer: { ...withReader(collector, at), restore },
    state,
    store,
    clock,
    log,
    tracer,
    retry: createRetries(pause, random),
    isStoreUnavailable: leadership?.isUnavailable,
  });
  return {
    state,
    rounds: Object.entries(rounds).map(([round, { every, requests, why }]) => ({
      collector: name,
      round,
      every,
      leastRequests: requests,
      why,
      run: signal => run(round, signal),
      retry: () => state.retry(round),
    })),
    source: collectorSource(account, collector, state.shown),
  };
}

const isEvents = (each: OpenCollector): each is OpenCollector<EventsFacts> => each.state.collector === 'events';
const isDlq = (each: OpenCollector): each is OpenCollector<DlqFacts> => each.state.collector === 'dlq';

/** Returns the time after which a filter's data is withdrawn (ms), computed as for a round. */
const withdrawnAfter = (every: number, { withdrawAfter, withdrawAtMost }: StalenessOptions) =>
  Math.max(2 * every, Math.min(withdrawAfter * every, withdrawAtMost));

export async function openCollectors(account: CollectedAccount, deps: Deps) {
  const { name, baseUrl, collect, retention, objectives, paths } = account;
  const { config, clock, serviceClock, callbacks, messageSpans } = deps;
  const opened: OpenCollector[] = [];
  const services = {
    schedules: schedulesOf(config.schedules, name),
    retention: retention.dlq ?? undefined,
    withdrawFiltersAfter: withdrawnAfter(callbacks.walkEvery ?? collect.dlq.rescanEvery, config.staleness),
    callbacks,
    clockOffset: () => clock.now() - clock.monotonic(),
    traces: messageSpans && { account: name, baseUrl, send: messageSpans },
    isLogged: config.log.deadLetters,
    onTimeWithin: objectives.onTimeWithin,
    serviceClock,
    doubleStarts: () => opened.find(isEvents)?.state.visible().committed?.doubleStarts,
    now: clock.now,
  };
  const plan = createAccountPlan({
    recorded: accountRecordReader(config.store, name, deps),
    configured: deps.limits,
    usage: paths.account === null ? undefined : collect.account,
  });
  const readOther = (api: Reader, signal: AbortSignal) => readAny(collect, serviceClock.at(clock.now()), api, signal);
  for (const collector of createCollectors(collect, services)) {
    const opening = collector.isOptional ? withAbsence(collector, readOther) : collector;
    opened.push(await openCollector(name, opening, deps));
  }
  // The path of the account's record is configured, so a 404 is a failure.
  opened.push(await openCollector(name, plan, deps));
  return {
    all: opened,
    shown: () => Object.fromEntries(opened.map(({ state }) => [state.collector, state.shown()])) as ShownFacts,
    dlqFacts: (): DlqFacts | undefined => opened.find(isDlq)?.state.visible().now,
  };
}
