import { toSeconds } from '../collectors/collector.ts';
import {
  type CollectOptions,
  collectors,
  type EventsFacts,
  retentionOf,
  type ScheduleFacts,
} from '../collectors/index.ts';
import type { ShownFacts } from '../collectors/open-for-account.ts';
import type { ServiceTime } from '../collectors/service-time.ts';
import { createRecentChanges } from '../history/recent.ts';
import { pathAddress } from '../kit/text.ts';
import type { Source } from '../metrics/family.ts';
import type { Objectives } from '../metrics/objectives.ts';
import type { AccountMeter } from '../metrics/own.ts';
import type { AccountHistory } from '../model/history.ts';
import type { AutoCancelNumbers } from '../model/journal.ts';
import type { AccountStatus } from '../model/status.ts';
import type { ShownAlert } from '../rules/alerting.ts';
import { checkAccount } from '../rules/checks/run.ts';
import type { Visible } from '../scheduler/board.ts';
import type { AccountOptions } from '../upstream/options.ts';
import type { AccountView } from './api/account.ts';
import type { DataState, Problem, State } from './api/parts.ts';
import { deadLettersView } from './dead-letters.ts';
import { eventsView } from './events.ts';
import { flowControlView } from './flow-control.ts';
import type { ProblemLog } from './problem-log.ts';
import { problemsOf } from './problems.ts';
import { dataStatusOf, roundsOf } from './truth.ts';
import { iso, isoTime, orNull, wellFormed } from './values.ts';

type Schedule = AccountView['schedules'][number];

function scheduleStateOf(facts: ScheduleFacts | undefined): Schedule['state'] {
  const { judged, lastDelivered = 0, lastFailed = 0 } = facts ?? {};
  if (judged?.as === 'missed') return 'missed';
  // Check for a failure first: the message may fail before its start counts as late.
  if (lastFailed > lastDelivered) return 'failing';
  return judged === undefined || judged.as === 'unread' ? 'unknown' : judged.as;
}

const schedules = ({ now, committed }: Visible<EventsFacts>): Schedule[] =>
  [...(committed?.schedules ?? [])].map(([name, { missed, late }]) => {
    const facts = now?.schedules.get(name);
    return {
      name: name.toWellFormed(),
      state: scheduleStateOf(facts),
      lastStarted: isoTime(facts?.lastStarted),
      lastDelivered: isoTime(facts?.lastDelivered),
      lastFailed: isoTime(facts?.lastFailed),
      next: isoTime(facts?.next),
      missed,
      late,
    };
  });

export const callsView = (
  { meter, budgetRemaining, isTokenRejected }: Pick<Viewed['account'], 'meter' | 'budgetRemaining' | 'isTokenRejected'>,
  budgetPerDay: number,
): AccountView['calls'] => ({
  requests: [...meter.requests.series.values()]
    .filter(({ value }) => value > 0)
    .map(({ labels: { endpoint, outcome }, value }) => ({ endpoint, outcome, count: value })),
  bytes: meter.bytes.total(),
  waitedSeconds: meter.budgetWait.total(),
  budgetRemaining: orNull(budgetRemaining()),
  budgetPerDay,
  tokenRejected: orNull(isTokenRejected()),
});

export interface StatusSettings
  extends Pick<AccountOptions, 'name' | 'baseUrl' | 'region' | 'labels' | 'budget' | 'retention'> {
  readonly objectives: Objectives;
  readonly collect: CollectOptions;
}

export interface ShownSource {
  readonly name: string;
  readonly shown: () => ShownFacts;
  readonly status: () => AccountStatus;
  readonly isTokenRejected: () => boolean | undefined;
  readonly meter: Pick<AccountMeter, 'requests' | 'bytes' | 'budgetWait' | 'rowsRejected' | 'listsMissing'>;
  readonly budgetRemaining: () => number | undefined;
  readonly history: Pick<AccountHistory, 'recent'>;
  readonly problems: Pick<ProblemLog, 'firstSeen'>;
  readonly serviceClock: Pick<ServiceTime, 'at' | 'skew'>;
  /** Why auto-cancel could not be opened. */
  readonly autoCancelFailure?: Error | undefined;
}

export interface Viewed {
  readonly account: ShownSource;
  readonly settings: StatusSettings;
  readonly autoCancel: (() => AutoCancelNumbers) | undefined;
  /** Metric sources of the account. Cached rows of the overview expire when one of them changes. */
  readonly sources: readonly Source[];
}

export type AccountViewBase = Omit<AccountView, 'problems' | 'alerts' | 'state'>;

const NOTHING = { now: undefined, committed: undefined };

/** Returns the state of an account. Problems of severity `info` do not affect it. */
export function stateOf(problems: readonly Pick<Problem, 'severity'>[], data: readonly DataState[]): State {
  if (problems.some(({ severity }) => severity === 'critical')) return 'critical';
  if (problems.some(({ severity }) => severity === 'warning')) return 'warning';
  return data.every(each => each === 'not_read') ? 'unknown' : 'ok';
}

/** `brief` omits quantiles, which are needed neither for checks nor for the overview. */
type Detail = 'whole' | 'brief';

/** Builds an account's view at `now` (ms since the Unix epoch) and runs its checks. */
export function checkedView(viewed: Viewed, now: number, detail: Detail = 'whole') {
  const { account, settings, autoCancel } = viewed;
  const { baseUrl, region, labels, budget, objectives } = settings;
  const { firstSeen } = account.problems;
  const recent = (series: string, over: number) => account.history.recent(series, over);
  const changes = createRecentChanges({ recent }, now);
  const status = account.status();
  const facts = account.shown();
  const plan = facts.account?.now;
  const dataOf = (collector: string) => dataStatusOf(status, collector);
  const limits = { most: plan?.limits.dlq_size, retention: retentionOf(settings, plan) };
  const view: AccountViewBase = {
    now: iso(now),
    serviceNow: iso(account.serviceClock.at(now)),
    clockSkewSeconds: orNull(toSeconds(account.serviceClock.skew())),
    account: account.name,
    up: status.up,
    baseUrl: pathAddress(baseUrl),
    region: orNull(region),
    plan: wellFormed(plan?.record?.plan),
    labels: Object.fromEntries(Object.entries(labels).map(([name, value]) => [name, value.toWellFormed()])),
    rounds: roundsOf(status),
    deadLetters: deadLettersView(dataOf('dlq'), facts.dlq ?? NOTHING, limits, changes),
    events: eventsView(dataOf('events'), facts.events ?? NOTHING, objectives, changes, detail === 'whole'),
    flowControl: flowControlView(dataOf('flow_control'), facts.flow_control?.now, changes),
    schedules: schedules(facts.events ?? NOTHING),
    calls: callsView(account, budget.requestsPerDay),
  };
  const { meter, autoCancelFailure } = account;
  const acting = { autoCancel: autoCancel?.(), autoCancelFailure };
  const checked = checkAccount({ view, now, objectives, meter, ...acting, recent, firstSeen });
  const problems = problemsOf(checked, account.name, { now, firstSeen });
  const read = collectors.map(({ name }) => dataOf(name)).filter(({ enabled }) => enabled);
  const data = read.map(({ data }) => data);
  const times = read.flatMap(({ at }) => at ?? []);
  return { view, checked, problems, data, times, state: stateOf(problems, data) };
}

export function accountView(viewed: Viewed, alerts: readonly ShownAlert[], now: number): AccountView {
  const { view, problems, state } = checkedView(viewed, now);
  return { ...view, state, problems, alerts: [...alerts] };
}
