import { type Account, openAccount } from '../../agent/account.ts';
import { openBase, type PartsDeps } from '../../agent/parts.ts';
import { Supervisor } from '../../agent/supervisor.ts';
import { events } from '../../collectors/events/events.ts';
import { onlyCollector } from '../../collectors/index.ts';
import type { LoadedConfig } from '../../config/load.ts';
import type { Config } from '../../config/schema.ts';
import { withClosing } from '../../kit/closing.ts';
import { Secret } from '../../kit/secret.ts';
import { type BuiltinAlert, builtinAlert, sentAlerts } from '../../rules/checks/alerts.ts';
import { ACCOUNT_CHECKS } from '../../rules/checks/run.ts';
import { type AlertCondition, isAbout, selectorsOf } from '../../rules/options.ts';
import { createMemoryStore } from '../../store/memory.ts';
import { openForReading, passive } from '../read-alone.ts';
import { PastLog } from './past-log.ts';

type AccountSettings = Config['accounts'][number];
type Labels = Readonly<Record<string, string>>;

const MINUTE = 60_000;

/** Families that depend on when the log is read. */
const OF_READING: ReadonlySet<string> = new Set(['gaps', 'late', 'duplicates', 'newest', 'since', 'seriesDropped']);
const IN_LOG: ReadonlySet<string> = new Set(
  Object.entries(events.families).flatMap(([key, { name }]) => (OF_READING.has(key) ? [] : [name])),
);

/** Times in ms since the Unix epoch. */
export interface AlertChange {
  readonly at: number;
  readonly account: string;
  readonly rule: string;
  /** Labels without the account and the name of the rule. */
  readonly labels: Labels;
  readonly state: 'firing' | 'resolved';
  readonly value: number;
  /** Start of the alert, if it is resolved. */
  readonly startedAt?: number;
}

/** Totals of a rule. Durations in milliseconds. */
export interface RuleResult {
  readonly rule: string;
  readonly fired: number;
  readonly firingFor: number;
  readonly unknownFor: number;
  /** Why the rule was not evaluated; undefined if it was. */
  readonly unknown?: string;
}

export interface AccountResult {
  readonly account: string;
  /** The evaluated range (ms since the Unix epoch); undefined if the log is empty or not read. */
  readonly range: { readonly from: number; readonly to: number } | undefined;
  readonly events: number;
  readonly rejected: number;
  readonly requests: number;
  readonly rules: readonly RuleResult[];
}

export interface BacktestDeps extends Pick<PartsDeps, 'env' | 'clock' | 'random'> {
  readonly signal: AbortSignal;
  readonly onChange: (change: AlertChange) => void;
  /** Called instead of rejecting if an account fails. The others are still evaluated. */
  readonly onFailure: (account: string, error: unknown) => void;
  /** Called as the evaluation proceeds. `at`: end of the evaluated part (ms since the Unix epoch). */
  readonly onProgress: (progress: { readonly account: string; readonly at: number; readonly requests: number }) => void;
}

const NOTHING = { fired: 0, firingFor: 0, unknownFor: 0 };

type Alerts = Config['alerts'];

/** Names the data that a condition needs but the event log lacks; undefined if nothing is missing. */
function missingFor(when: AlertCondition): string | undefined {
  if (when.kind === 'stale') return 'when data was stale';
  return selectorsOf(when).find(({ metric }) => !IN_LOG.has(metric))?.metric;
}

/** Built-in alerts that depend on when the log is read. */
const ON_READING: ReadonlySet<string> = new Set<BuiltinAlert>(['DeliveryEventLogStale', 'DeliveryEventLogGap']);
const CONTENTS = { events: 'when it was read', dlq: 'the dead-letter queue', flow_control: 'flow control' };

/** Names the data that a built-in alert needs but the event log lacks; undefined if nothing is missing. */
function missingForBuiltin(name: BuiltinAlert): string | undefined {
  const check = ACCOUNT_CHECKS.find(({ alert }) => alert === name);
  if (check?.collector === 'events' && !ON_READING.has(name)) return undefined;
  return check?.collector ? CONTENTS[check.collector] : 'the state of the agent';
}

/** Separates alerts that need only the event log from all others. */
function selectAlerts({ builtin, rules }: Alerts, account: string) {
  const own = rules.filter(({ when }) => isAbout(when, account));
  const names = sentAlerts(builtin);
  const all = [
    ...names.map(rule => ({ rule: rule as string, missing: missingForBuiltin(rule) })),
    ...own.map(({ name: rule, when }) => ({ rule, missing: missingFor(when) })),
  ];
  const disable = names.filter(missingForBuiltin).flatMap(name => builtinAlert(name).kinds);
  return {
    alerts: {
      builtin: builtin && { ...builtin, disable: [...builtin.disable, ...disable] },
      rules: own.filter(({ when }) => missingFor(when) === undefined),
    },
    determined: all.flatMap(({ rule, missing }) => (missing === undefined ? [rule] : [])),
    others: all.flatMap(({ rule, missing }): RuleResult[] =>
      missing === undefined ? [] : [{ rule, ...NOTHING, unknown: `the event log does not contain ${missing}` }],
    ),
  };
}

type Selected = ReturnType<typeof selectAlerts>;

/** Returns a configuration that reads only one account's event log. */
function configOf(config: Config, settings: AccountSettings, alerts: Selected['alerts']): Config {
  const collect = onlyCollector('events', {
    ...settings.collect,
    events: { ...settings.collect.events, lateSweep: settings.collect.events.overlap },
  });
  const upstream = { ...settings.upstream, proxy: null, caFile: null };
  const token = { literal: new Secret('replay') };
  return {
    ...passive(config),
    accounts: [{ ...settings, collect, upstream, token, actionToken: null, management: null }],
    alerts: { ...config.alerts, ...alerts, enabled: true, notifiers: [], silences: [] },
  };
}

/** Runs each task at its interval of simulated time, in the given order. */
async function drive(
  tasks: readonly { readonly every: number; run(at: number): Promise<void> }[],
  { from, to }: { readonly from: number; readonly to: number },
): Promise<void> {
  const due = tasks.map(() => from);
  for (let at = from; at <= to; at = Math.min(...due)) {
    for (const [index, { every, run }] of tasks.entries()) {
      if (at < (due[index] as number)) continue;
      await run(at);
      due[index] = at + every;
    }
  }
}

function createRecord(account: string, every: number, onChange: BacktestDeps['onChange']) {
  const firing = new Map<string, AlertChange>();
  const results = new Map<string, { fired: number; firingFor: number; unknownFor: number }>();
  const resultOf = (rule: string) => {
    const known = results.get(rule) ?? { ...NOTHING };
    results.set(rule, known);
    return known;
  };
  return {
    note(at: number, { alerting }: Supervisor): void {
      for (const [rule, state] of alerting.states(account)) if (state === 'unknown') resultOf(rule).unknownFor += every;
      for (const { state, labels: all, value } of alerting.alerts(account)) {
        const { alertname: rule = '', account: _, ...labels } = all;
        const key = JSON.stringify(all);
        const before = firing.get(key);
        const change = { at, account, rule, labels, value };
        if (state === 'firing' && !before) {
          firing.set(key, { ...change, state });
          resultOf(rule).fired += 1;
          onChange({ ...change, state });
        } else if (state === 'resolved' && before) {
          firing.delete(key);
          resultOf(rule).firingFor += at - before.at;
          onChange({ ...change, state, startedAt: before.at });
        }
      }
    },
    end(at: number, rules: readonly string[]): RuleResult[] {
      for (const { rule, at: startedAt } of firing.values()) resultOf(rule).firingFor += at - startedAt;
      return rules.map(rule => ({ rule, ...resultOf(rule) }));
    },
  };
}

type Range = NonNullable<AccountResult['range']>;

/** Replays the log to an agent that starts at the beginning of the range. Rejects with UpstreamError. */
function replay(
  loaded: LoadedConfig,
  settings: AccountSettings,
  log: PastLog,
  range: Range,
  { alerts, determined }: Selected,
  { random, signal, onChange }: BacktestDeps,
  onProgress: (at: number) => void,
): Promise<RuleResult[]> {
  const { name } = settings;
  return withClosing(async closing => {
    const config = configOf(loaded.config, settings, alerts);
    const { evaluateEvery } = config.alerts;
    let now = range.from;
    const clock = { now: () => now, monotonic: () => now, sleep: async () => undefined };
    const reader = log.reader(clock.now);
    const parts: PartsDeps = {
      env: {},
      clock,
      random,
      openStore: async () => createMemoryStore(),
      openAccount: (settings, deps, last) => openAccount(settings, { ...deps, reader }, last),
    };
    const base = await openBase({ ...loaded, config }, parts, closing);
    const agent = await Supervisor.open({ ...loaded, config }, base);
    closing.add('accounts', () => agent.close());
    closing.add('loops', () => agent.stop());
    const [running] = agent.state().running;
    if (!running) throw new Error(`${name} could not be opened`);
    const record = createRecord(name, evaluateEvery, onChange);
    const rounds = running.account.rounds.map(({ every, run }) => ({ every, run: () => run(signal) }));
    const sample = { every: base.intervals.sample, run: () => running.sample() };
    const evaluate = {
      every: evaluateEvery,
      async run(at: number) {
        for (const evaluate of agent.alerting.evaluations) await evaluate(signal);
        record.note(at, agent);
        onProgress(at);
      },
    };
    await drive(
      [...rounds, sample, evaluate].map(({ every, run }) => ({
        every,
        async run(at) {
          signal.throwIfAborted();
          now = at;
          await run(at);
          if (log.failure !== undefined) throw log.failure;
        },
      })),
      range,
    );
    return record.end(range.to, determined);
  });
}

/** Evaluates one account from `since` (ms since the Unix epoch). Rejects with UpstreamError. */
async function backtestAccount(
  loaded: LoadedConfig,
  settings: AccountSettings,
  account: Account,
  since: number,
  deps: BacktestDeps,
): Promise<AccountResult> {
  const { name, collect, retention } = settings;
  const selected = selectAlerts(loaded.config.alerts, name);
  const now = deps.clock.now();
  const kept = retention.events === null ? Number.NEGATIVE_INFINITY : now - retention.events;
  const to = now - collect.events.overlap;
  const log = new PastLog(account, collect.events, { from: Math.max(since, kept), to }, deps.signal);
  const result = (range: AccountResult['range'], evaluated: readonly RuleResult[]): AccountResult => {
    const { events, rejected } = log.found;
    const { requests } = account.spent();
    return { account: name, range, events, rejected, requests, rules: [...evaluated, ...selected.others] };
  };
  const noneFor = (unknown: string) =>
    result(
      undefined,
      selected.determined.map(rule => ({ rule, ...NOTHING, unknown })),
    );
  if (!collect.events.enabled) return noneFor('collect.events is disabled');
  // If the retention is unknown, an empty log proves nothing about times before its first event.
  const first = retention.events === null ? await log.oldest() : kept;
  const from = Math.ceil(Math.max(since, first ?? to) / MINUTE) * MINUTE;
  if (from >= to) return noneFor('the event log lists nothing');
  const onProgress = (at: number) => deps.onProgress({ account: name, at, requests: account.spent().requests });
  const range = { from, to };
  return result(range, await replay(loaded, settings, log, range, selected, deps, onProgress));
}

/**
 * Evaluates the rules on past events since a time (ms since the Unix epoch), as an agent with an empty store would. Uses the
 * daily budget; stores and sends nothing. Rejects with StoreError, or with the signal's reason.
 */
export function backtest(loaded: LoadedConfig, since: number, deps: BacktestDeps): Promise<AccountResult[]> {
  return withClosing(async closing => {
    const { accounts } = await openForReading(loaded, deps, closing);
    const results: AccountResult[] = [];
    for (const settings of loaded.config.accounts) {
      const account = accounts.find(({ name }) => name === settings.name);
      if (!account) continue;
      try {
        results.push(await backtestAccount(loaded, settings, account, since, deps));
      } catch (error) {
        deps.signal.throwIfAborted();
        deps.onFailure(settings.name, error);
      }
    }
    return results;
  });
}
