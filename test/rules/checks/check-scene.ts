/** Runs the checks on a healthy account to which a test has made changes. */

import { seriesName } from '../../../src/history/series-name.ts';
import type { AccountMeter } from '../../../src/metrics/own.ts';
import type { Point } from '../../../src/model/history.ts';
import type { AutoCancelNumbers } from '../../../src/model/journal.ts';
import type { MessageOutcome } from '../../../src/model/message.ts';
import { checkInputOf } from '../../../src/rules/checks/account.ts';
import { checkAccount } from '../../../src/rules/checks/run.ts';
import type { ProblemState } from '../../../src/rules/problem-states.ts';
import type { Problem } from '../../../src/status/api/parts.ts';
import { problemsOf } from '../../../src/status/problems.ts';
import { type CalmAccount, type CalmRound, calmAccount, checkedAccountOf, NOON } from '../../support/calm-account.ts';

export const MINUTE = 60_000;
export const ago = (minutes: number) => NOON - minutes * MINUTE;

/** Returns the value of a series some minutes before noon; undefined if there is no sample. */
type Course = (minutesAgo: number) => number | undefined;

/** Changes to the healthy account. */
export interface Scene {
  readonly change?: (account: CalmAccount) => void;
  /** Values by series; unlisted series were constant for four days. */
  readonly courses?: Readonly<Record<string, Course>>;
  /** Minutes before noon at which the agent was down. */
  readonly outage?: { readonly from: number; readonly to: number };
  readonly autoCancel?: Partial<AutoCancelNumbers>;
  /** Increments counters of the meter. */
  readonly count?: (meter: AccountMeter) => void;
  /** Problems in the state machine. */
  readonly states?: readonly Partial<ProblemState>[];
}

const IDLE: AutoCancelNumbers = {
  candidates: new Map(),
  actions: [],
  skips: [],
  plans: new Map(),
  breakers: new Map(),
  isPaused: false,
  unresolved: new Map(),
  budget: [],
};

let series: ReadonlyMap<string, number> | undefined;

/** Returns the names and values of the series that the checks read, for an account without changes. */
function usualSeries(): ReadonlyMap<string, number> {
  const { dlq, events } = calmAccount();
  const [queue, tally] = [queueOf({ dlq }), tallyOf({ events })];
  return new Map<string, number>([
    ['delivery_dlq_messages', queue.messages ?? 0],
    ['delivery_dlq_entered_total', queue.entered],
    ['delivery_messages_overdue_total', events.log.overdue],
    ['delivery_messages_redelivered_total', 0],
    ['delivery_event_log_gaps_total', 0],
    ['delivery_event_log_counting', 1],
    ...Object.entries(tally.finished).map(([outcome, value]) => [finished(outcome), value] as const),
    ...Object.entries(tally.events).map(
      ([state, value]) => [seriesName('delivery_events_total', { state }), value] as const,
    ),
  ]);
}

/** Returns the minutes for which the history has values: one an hour in windows of hours, except the last hour. */
function minutesIn(window: number): number[] {
  const minutes = Array.from({ length: Math.min(window, window > 90 ? 60 : 90) + 1 }, (_, index) => index);
  const hours =
    window > 90 ? Array.from({ length: Math.min(73, Math.ceil(window / 60)) - 1 }, (_, index) => 60 * (index + 2)) : [];
  return [...minutes, ...hours].reverse();
}

/** Runs all checks of the account at noon. */
export function check({ change, courses = {}, outage, autoCancel, count }: Scene) {
  const account = calmAccount();
  change?.(account);
  count?.(account.meter);
  series ??= usualSeries();
  const usual = series;
  const isDown = (minutes: number) => outage !== undefined && minutes <= outage.from && minutes >= outage.to;
  function recent(series: string, over: number): Point[] {
    const known = usual.get(series);
    const course = courses[series] ?? (() => known);
    return minutesIn(over / MINUTE).flatMap(minutes => {
      const value = course(minutes);
      if (value === undefined || isDown(minutes)) return [];
      return [{ at: ago(minutes), value, isAfterGap: isDown(minutes + 1) }];
    });
  }
  return checkAccount(checkInputOf(checkedAccountOf(account, { autoCancel: { ...IDLE, ...autoCancel }, recent })));
}

const STATE: Omit<ProblemState, 'kind'> = {
  severity: 'warning',
  subject: null,
  startsAt: NOON,
  text: '',
  isFiring: false,
  isClear: false,
};

export const problems = (scene: Scene): Problem[] =>
  problemsOf(check(scene), 'acme', {
    now: NOON,
    states: (scene.states ?? []).map(state => ({ kind: 'dlq_old', ...STATE, ...state })),
  });

/** Returns problems as lines of severity, kind, subject, start (minutes ago) and text. */
export const problemLines = (scene: Scene) =>
  problems(scene).map(({ severity, kind, subject, since, text }) => {
    const minutes = (NOON - Date.parse(since ?? '')) / MINUTE;
    return `${severity} ${kind}${subject === null ? '' : ` (${subject})`} ${minutes} min: ${text}`;
  });

/** Changes the rounds of one collector, or of all collectors except `account`. */
export const rounds = (
  { collectors }: CalmAccount,
  change: (round: CalmRound) => void,
  collector?: keyof CalmAccount['collectors'],
) => {
  for (const one of Object.values(collectors)) {
    if (one.collector !== 'account' && (collector === undefined || one.collector === collector))
      one.rounds.forEach(change);
  }
};
export const failing = (isStale: boolean, reason: string, message: string) => (round: CalmRound) => {
  const failure = { reason, message };
  Object.assign(round, { stale: isStale, success: false, consecutiveFailures: 9, failure, dataAt: ago(4) });
};
/** Withdraws the data of all collectors, or of one. */
export const withdraw = ({ collectors }: CalmAccount, collector?: keyof CalmAccount['collectors']) => {
  for (const one of Object.values(collectors)) {
    if (collector === undefined || one.collector === collector) one.withdrawn = true;
  }
};
/** Makes the rows of a collector's last read incomplete. */
export const partial = (round: CalmRound) => Object.assign(round, { complete: false, partial: true });
export const unread = (round: CalmRound) => Object.assign(round, { success: undefined, dataAt: undefined });

type Queue = CalmAccount['dlq']['selections'] extends Map<string, infer S> ? S : never;
export const queueOf = ({ dlq }: Pick<CalmAccount, 'dlq'>) => dlq.selections.get('all') as Queue;
export const tallyOf = ({ events }: Pick<CalmAccount, 'events'>) =>
  events.destinations.get('') as NonNullable<ReturnType<CalmAccount['events']['destinations']['get']>>;
/** Sets the total numbers of ended messages. */
export const finish = (account: CalmAccount, counts: Partial<Record<MessageOutcome, number>>) =>
  Object.assign(tallyOf(account).finished, counts);
export const key = ({ keys }: CalmAccount) => keys[0] as CalmAccount['keys'][number];
export const schedule = ({ events }: CalmAccount) =>
  events.schedules.get('reports') as NonNullable<ReturnType<CalmAccount['events']['schedules']['get']>>;
/** Changes the listed schedule, as read and as stored. */
export const listed = ({ scheduleList }: CalmAccount, row: object, history: object = {}) => {
  for (const schedule of scheduleList.listed) {
    Object.assign(schedule.row, row);
    Object.assign(schedule.history, history);
  }
};
export const judged = (as: 'ok' | 'missed' | 'late') => ({ judged: { at: NOON, as } });
export const finished = (outcome: string) => seriesName('delivery_messages_finished_total', { outcome });
export const waitlist = seriesName('delivery_flow_control_waitlist_size', { flow_control_key: 'tenant-7' });
export const paused = seriesName('delivery_flow_control_paused', { flow_control_key: 'tenant-7' });
export const outcomes = (outcome: string) => seriesName('delivery_watch_api_requests_total', { outcome });

/** Title, account and expected problem lines. */
export type Case = readonly [what: string, scene: Scene, lines: readonly string[]];
/** Series of the only kind of dead letters. */
export const ORDERS_503 = seriesName('delivery_dlq_group_messages', {
  group: 'a',
  url_host: 'api.example.com',
  response_status: '503',
});
