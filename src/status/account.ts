import { type CollectOptions, type EventsFacts, retentionOf, type ScheduleFacts } from '../collectors/index.ts';
import type { ShownFacts } from '../collectors/open-for-account.ts';
import { createRecent, rememberedAt } from '../history/recent.ts';
import { pathAddress } from '../kit/text.ts';
import type { Source } from '../metrics/family.ts';
import type { Objectives } from '../metrics/objectives.ts';
import type { AccountMeter } from '../metrics/own.ts';
import type { AccountHistory } from '../model/history.ts';
import type { AutoCancelNumbers } from '../model/journal.ts';
import type { AccountStatus } from '../model/status.ts';
import { checkAccount } from '../rules/checks/run.ts';
import type { Visible } from '../scheduler/board.ts';
import type { AccountOptions } from '../upstream/options.ts';
import type { AccountView } from './api/account.ts';
import { type DataState, type FromReplica, NOT_SHARED, type Problem, type State } from './api/parts.ts';
import { deadLetters } from './dead-letters.ts';
import { events } from './events.ts';
import { flowControl } from './flow-control.ts';
import type { ProblemLog } from './problem-log.ts';
import { problemsOf } from './problems.ts';
import type { ShownAlert } from './served.ts';
import { roundsOf, type Truth, truthOf } from './truth.ts';
import { isoTime, orNull, wellFormed } from './values.ts';

type Schedule = AccountView['schedules'][number];

function scheduleStateOf(facts: ScheduleFacts | undefined): Schedule['state'] {
  const { judged, lastDelivered = 0, lastFailed = 0 } = facts ?? {};
  if (judged?.as === 'missed') return 'missed';
  // A message may fail before its start counts as late.
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

/** Requests to the service. `budgetPerDay`: as configured. */
export const calls = (
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
  readonly shownStatus: () => AccountStatus;
  readonly isTokenRejected: () => boolean | undefined;
  readonly meter: Pick<AccountMeter, 'requests' | 'bytes' | 'budgetWait' | 'rowsRejected' | 'listsMissing'>;
  readonly budgetRemaining: () => number | undefined;
}

export interface Viewed extends Pick<AccountHistory, 'recent'>, Pick<ProblemLog, 'firstSeen'> {
  readonly account: ShownSource;
  readonly settings: StatusSettings;
  readonly autoCancel: (() => AutoCancelNumbers) | undefined;
  /** Its sources in the exposition: the view changes with them. */
  readonly sources: readonly Source[];
}

/** An account's view without members that are derived from it. */
export type ShownAccount = Omit<AccountView, 'complete' | 'problems' | 'alerts' | 'state' | keyof FromReplica>;

const NOTHING = { now: undefined, committed: undefined };

/** The state of an account. Problems of severity `info` do not change it. */
export function stateOf(problems: readonly Pick<Problem, 'severity'>[], data: readonly DataState[]): State {
  if (problems.some(({ severity }) => severity === 'critical')) return 'critical';
  if (problems.some(({ severity }) => severity === 'warning')) return 'warning';
  return data.every(each => each === 'not_read') ? 'unknown' : 'ok';
}

/** `whole` adds quantiles for the account's page, which no check needs. */
type Detail = 'whole' | 'brief';

/** Returns the view of an account at `now` (ms since the Unix epoch), with the freshness of each part. */
export function judgedAccount(viewed: Viewed, now: number, detail: Detail = 'whole') {
  const { account, settings, autoCancel, firstSeen } = viewed;
  const { baseUrl, region, labels, budget, objectives } = settings;
  const recent = rememberedAt(viewed.recent, now);
  const changes = createRecent({ recent }, now);
  const status = account.shownStatus();
  const facts = account.shown();
  const plan = facts.account?.now;
  const truths = {
    deadLetters: truthOf(status, 'dlq'),
    events: truthOf(status, 'events'),
    flowControl: truthOf(status, 'flow_control'),
  };
  const limits = { most: plan?.limits.dlq_size, retention: retentionOf(settings, plan) };
  const view: ShownAccount = {
    now: isoTime(now) ?? '',
    account: account.name,
    up: status.up,
    baseUrl: pathAddress(baseUrl),
    region: orNull(region),
    plan: wellFormed(plan?.record?.plan),
    labels: Object.fromEntries(Object.entries(labels).map(([name, value]) => [name, value.toWellFormed()])),
    rounds: roundsOf(status),
    deadLetters: deadLetters(truths.deadLetters, facts.dlq ?? NOTHING, limits, changes),
    events: events(truths.events, facts.events ?? NOTHING, objectives, changes, detail === 'whole'),
    flowControl: flowControl(truths.flowControl, facts.flow_control?.now, changes),
    schedules: schedules(facts.events ?? NOTHING),
    calls: calls(account, budget.requestsPerDay),
  };
  const { meter } = account;
  const checked = checkAccount({ view, now, objectives, meter, autoCancel: autoCancel?.(), recent, firstSeen });
  const problems = problemsOf(checked, account.name, { now, firstSeen });
  const data = Object.values<Truth>(truths).flatMap(({ enabled, data }) => (enabled ? [data] : []));
  return { view, truths, checked, problems, data, state: stateOf(problems, data) };
}

/** The view of the API. `alerts`: of this account. */
export function accountView(viewed: Viewed, alerts: readonly ShownAlert[], now: number): AccountView {
  const { view, problems, state } = judgedAccount(viewed, now);
  return { complete: true, ...view, ...NOT_SHARED, state, problems, alerts: [...alerts] };
}
