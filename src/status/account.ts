import { type ServiceTime, toSeconds } from '../collectors/collector.ts';
import {
  type CollectOptions,
  collectors,
  hasFailed,
  type ListedSchedule,
  planOf,
  type ShownFacts,
} from '../collectors/index.ts';
import { bareAddress, parseUrl, pathAddress } from '../kit/text.ts';
import type { Objectives } from '../metrics/objectives.ts';
import type { AccountMeter } from '../metrics/own.ts';
import type { AccountHistory } from '../model/history.ts';
import type { AutoCancelNumbers } from '../model/journal.ts';
import type { AccountStatus } from '../model/status.ts';
import type { ShownAlert } from '../rules/alerting.ts';
import { type CheckInput, checkInputOf } from '../rules/checks/account.ts';
import { checkAccount } from '../rules/checks/run.ts';
import type { ProblemState } from '../rules/problem-states.ts';
import type { AccountOptions } from '../upstream/options.ts';
import type { AccountView } from './api/account.ts';
import type { DataState, Problem, State } from './api/parts.ts';
import { deadLettersView } from './dead-letters.ts';
import { eventsView } from './events.ts';
import { flowControlView } from './flow-control.ts';
import { problemsOf } from './problems.ts';
import { iso, isoTime, orNull } from './values.ts';

type Schedule = CheckInput['schedules'][number];

const SCHEDULE_STATES: readonly Schedule['state'][] = ['missed', 'failing', 'late', 'unknown', 'paused', 'ok'];
const MAX_SCHEDULES = 200;

/** Returns the host of a URL, or the name of a URL group. */
const destinationOf = (destination: string | undefined) =>
  orNull(destination === undefined ? undefined : (parseUrl(destination)?.host ?? bareAddress(destination)));

function lastRunOf({ row }: ListedSchedule): AccountView['schedules'][number]['lastRun'] {
  const { lastRunStates: states } = row;
  if (hasFailed(row)) return 'failed';
  if (!states) return null;
  if (states.in_progress + states.unknown > 0) return states.in_progress > 0 ? 'in_progress' : 'unknown';
  return states.fail > 0 ? 'partly_failed' : states.success > 0 ? 'succeeded' : 'unknown';
}

const scheduleView = ({ listed, ...schedule }: Schedule): AccountView['schedules'][number] => ({
  name: schedule.name,
  id: orNull(listed?.row.scheduleId),
  destination: destinationOf(listed?.row.destination),
  cron: orNull(listed?.row.cron),
  timeZone: orNull(listed?.row.tz),
  lastRun: listed ? lastRunOf(listed) : null,
  error: orNull(listed?.row.error),
  state: schedule.state,
  lastStarted: isoTime(schedule.lastStarted),
  lastDelivered: isoTime(schedule.lastDelivered),
  lastFailed: isoTime(schedule.lastFailed),
  next: isoTime(schedule.next),
  missed: schedule.missed,
  late: orNull(schedule.late),
  unexpected: orNull(listed?.history.unexpected),
});

function runsView({ shown }: CheckInput): AccountView['runs'] {
  const facts = shown.runs?.now;
  if (!facts) return null;
  const { olderThan, count, hasMore, oldest } = facts;
  return {
    olderThanSeconds: olderThan / 1000,
    count: orNull(count),
    hasMore,
    oldest: oldest
      ? { runId: oldest.runId, url: orNull(oldest.url && bareAddress(oldest.url)), createdAt: iso(oldest.createdAt) }
      : null,
  };
}

/** Maximum number of listed queues. */
const MAX_QUEUES = 100;

function queuesView(input: CheckInput): AccountView['queues'] {
  const { enabled, data } = input.dataOf('queues');
  const { shown = [], beyondCap = 0, beyondCapLag = 0 } = input.shown.queues?.now ?? {};
  const rows = shown.slice(0, MAX_QUEUES).map(({ name, lag, paused, parallelismLimit }) => ({
    queue: name.toWellFormed(),
    lag: orNull(lag),
    paused: orNull(paused),
    parallelismLimit: orNull(parallelismLimit),
  }));
  return { enabled, data, beyondCap, beyondCapLag, rows };
}

function usageView({ shown }: CheckInput): AccountView['usage'] {
  const { usage, limits } = shown.account?.now ?? {};
  if (!usage) return null;
  return {
    at: iso(usage.at),
    requestsToday: orNull(usage.requestsToday),
    requestsPerDay: orNull(limits?.requests_per_day),
    deadLetters: orNull(usage.dlqMessages),
  };
}

const roundView = ({
  every,
  durationSeconds,
  ...round
}: CheckInput['rounds'][number]): AccountView['rounds'][number] => ({
  collector: round.collector,
  round: round.round,
  everySeconds: every / 1000,
  state: round.state,
  dataAt: isoTime(round.dataAt),
  tookSeconds: orNull(durationSeconds),
  consecutiveFailures: round.consecutiveFailures,
  failure: orNull(round.failure),
  retryAt: isoTime(round.retryAt),
});

export interface StatusSettings
  extends Pick<AccountOptions, 'name' | 'baseUrl' | 'region' | 'labels' | 'budget' | 'retention'> {
  readonly objectives: Objectives;
  readonly collect: CollectOptions;
}

/** Account state that checks, views and the heartbeat read. */
export interface ShownAccount {
  readonly name: string;
  readonly shown: () => ShownFacts;
  readonly status: () => AccountStatus;
  readonly isTokenKnown: () => boolean;
  readonly isTokenRejected: () => boolean | undefined;
  readonly meter: AccountMeter;
  readonly budgetRemaining: () => number | undefined;
  readonly history: AccountHistory;
  readonly serviceClock: Pick<ServiceTime, 'at' | 'skew'>;
  /** Why auto-cancel could not be opened. */
  readonly autoCancelFailure?: Error | undefined;
  /** Why the account could not be opened. */
  readonly notOpened?: CheckInput['notOpened'];
}

export interface Viewed {
  readonly account: ShownAccount;
  readonly settings: StatusSettings;
  readonly autoCancel: (() => AutoCancelNumbers) | undefined;
  /** Returns the states of the account's problems. */
  readonly problemStates: () => readonly ProblemState[];
}

/** Returns the state of an account. Problems of severity `info` do not affect it. */
export function stateOf(problems: readonly Pick<Problem, 'severity'>[], data: readonly DataState[]): State {
  if (problems.some(({ severity }) => severity === 'critical')) return 'critical';
  if (problems.some(({ severity }) => severity === 'warning')) return 'warning';
  return data.every(each => each === 'not_read') ? 'unknown' : 'ok';
}

/** Returns the input of an account's checks at `now` (ms since the Unix epoch). */
export function checkInputAt(
  { account, settings, autoCancel }: Pick<Viewed, 'account' | 'settings' | 'autoCancel'>,
  now: number,
): CheckInput {
  const { serviceClock, meter, notOpened, autoCancelFailure } = account;
  const shown = account.shown();
  return checkInputOf({
    now,
    serviceNow: serviceClock.at(now),
    clockSkew: serviceClock.skew(),
    settings,
    status: account.status(),
    notOpened,
    shown,
    meter,
    budgetRemaining: account.budgetRemaining(),
    isTokenRejected: account.isTokenRejected(),
    autoCancel: autoCancel?.(),
    autoCancelFailure,
    recent: (series, over) => account.history.recent(series, over),
  });
}

/** Runs an account's checks at `now` (ms since the Unix epoch). */
export function checkedFacts(viewed: Viewed, now: number) {
  const facts = checkInputAt(viewed, now);
  const problems = problemsOf(checkAccount(facts), viewed.account.name, { now, states: viewed.problemStates() });
  const essential = collectors.filter(({ isOptional }) => !isOptional);
  const read = essential.map(({ name }) => facts.dataOf(name)).filter(({ enabled }) => enabled);
  const data = read.map(({ data }) => data);
  const times = read.flatMap(({ at }) => at ?? []);
  return { facts, problems, data, times, state: stateOf(problems, data) };
}

export function accountView(viewed: Viewed, alerts: readonly ShownAlert[], now: number): AccountView {
  const { account, settings } = viewed;
  const { facts, problems, state } = checkedFacts(viewed, now);
  return {
    now: iso(now),
    serviceNow: iso(facts.serviceNow),
    clockSkewSeconds: orNull(toSeconds(facts.clockSkew)),
    account: account.name,
    state,
    up: account.status().up,
    baseUrl: pathAddress(settings.baseUrl),
    region: orNull(settings.region),
    plan: orNull(planOf(facts.shown.account)?.record?.plan),
    labels: { ...settings.labels },
    problems,
    alerts: [...alerts],
    rounds: facts.rounds.map(roundView),
    deadLetters: deadLettersView(facts),
    events: eventsView(facts),
    flowControl: flowControlView(facts),
    queues: queuesView(facts),
    schedules: facts.schedules
      .toSorted((a, b) => SCHEDULE_STATES.indexOf(a.state) - SCHEDULE_STATES.indexOf(b.state))
      .slice(0, MAX_SCHEDULES)
      .map(scheduleView),
    usage: usageView(facts),
    runs: runsView(facts),
    calls: {
      budgetRemaining: orNull(account.budgetRemaining()),
      budgetPerDay: settings.budget.requestsPerDay,
      tokenRejected: orNull(account.isTokenRejected()),
    },
  };
}
