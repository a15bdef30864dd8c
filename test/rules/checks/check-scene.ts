/** Runs the checks on a healthy account to which a test has made changes. */

import { seriesName } from '../../../src/history/series-name.ts';
import { type AccountMeter, createAccountMeter } from '../../../src/metrics/own.ts';
import type { Point } from '../../../src/model/history.ts';
import type { AutoCancelNumbers } from '../../../src/model/journal.ts';
import { checkAccount } from '../../../src/rules/checks/run.ts';
import type { AccountViewBase } from '../../../src/status/account.ts';
import type { Problem } from '../../../src/status/api/parts.ts';
import { problemsOf } from '../../../src/status/problems.ts';
import { calmAccount, NOON } from '../../support/calm-account.ts';

export const MINUTE = 60_000;
export const ago = (minutes: number) => new Date(NOON - minutes * MINUTE).toISOString();

/** Returns the value of a series some minutes before noon; undefined if there is no sample. */
type Course = (minutesAgo: number) => number | undefined;

/** Changes to the healthy account. */
export interface Scene {
  readonly change?: (view: AccountViewBase) => void;
  /** Values by series; unlisted series were constant for 90 minutes. */
  readonly courses?: Readonly<Record<string, Course>>;
  /** Minutes before noon at which the agent was down. */
  readonly outage?: { readonly from: number; readonly to: number };
  readonly autoCancel?: Partial<AutoCancelNumbers>;
  readonly autoCancelFailure?: Error;
  /** Increments counters of the meter. */
  readonly count?: (meter: AccountMeter) => void;
  readonly firstSeen?: (finding: {
    readonly kind: Problem['kind'];
    readonly subject: string | null;
  }) => number | undefined;
}

const COLLECTORS = ['flow_control', 'dlq', 'events'];
const DAY = 86_400_000;
const OBJECTIVES = { dlqMaxAge: DAY, window: 30 * DAY };

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

/** Runs all checks of the account at noon. */
export function check({
  change,
  courses = {},
  outage,
  autoCancel,
  autoCancelFailure,
  count,
  firstSeen = () => undefined,
}: Scene) {
  const view = calmAccount();
  const before = calmAccount();
  change?.(view);
  const meter = createAccountMeter({ requests: [], bytes: [], collectors: COLLECTORS });
  count?.(meter);
  const usual = new Map<string, number>([
    ['delivery_dlq_messages', before.deadLetters.messages ?? 0],
    ['delivery_dlq_entered_total', before.deadLetters.entered ?? 0],
    ['delivery_messages_overdue_total', before.events.overdue],
    ['delivery_event_log_gaps_total', 0],
    ...Object.entries(before.events.finished).map(
      ([outcome, value]) => [seriesName('delivery_messages_finished_total', { outcome }), value] as const,
    ),
    ...Object.entries(before.events.total).map(
      ([state, value]) => [seriesName('delivery_events_total', { state }), value] as const,
    ),
    ...COLLECTORS.flatMap(collector =>
      ['delivery_rows_rejected_total', 'delivery_lists_missing_total'].map(
        name => [seriesName(name, { collector }), 0] as const,
      ),
    ),
    [missedStarts, 0],
    [seriesName('delivery_schedule_late_total', { schedule: 'reports' }), 0],
  ]);
  const isDown = (minutes: number) => outage !== undefined && minutes <= outage.from && minutes >= outage.to;
  function recent(series: string, over: number): Point[] {
    const known = usual.get(series);
    const course =
      courses[series] ?? (known === undefined ? undefined : (minutes: number) => (minutes > 90 ? undefined : known));
    return Array.from({ length: over / MINUTE + 1 }, (_, index) => over / MINUTE - index).flatMap(minutes => {
      const value = course?.(minutes);
      if (value === undefined || isDown(minutes)) return [];
      return [{ at: NOON - minutes * MINUTE, value, isAfterGap: isDown(minutes + 1) }];
    });
  }
  const acting = { autoCancel: { ...IDLE, ...autoCancel }, autoCancelFailure };
  return checkAccount({ view, now: NOON, objectives: OBJECTIVES, meter, ...acting, recent, firstSeen });
}

export const problems = (scene: Scene): Problem[] =>
  problemsOf(check(scene), 'acme', { now: NOON, firstSeen: scene.firstSeen ?? (() => undefined) });

/** Returns problems as lines of severity, kind, subject, start (minutes ago) and text. */
export const problemLines = (scene: Scene) =>
  problems(scene).map(({ severity, kind, subject, since, text }) => {
    const minutes = (NOON - Date.parse(since ?? '')) / MINUTE;
    return `${severity} ${kind}${subject === null ? '' : ` (${subject})`} ${minutes} min: ${text}`;
  });

export const rounds = (
  view: AccountViewBase,
  change: (round: AccountViewBase['rounds'][number]) => void,
  collector?: string,
) => {
  for (const round of view.rounds) {
    if (round.collector !== 'account' && (collector === undefined || round.collector === collector)) change(round);
  }
};
export const failing =
  (state: 'failing' | 'stale' | 'withdrawn', reason: string, message: string) =>
  (round: AccountViewBase['rounds'][number]) => {
    Object.assign(round, { state, consecutiveFailures: 9, failure: { reason, message }, dataAt: ago(4) });
  };
export const row = (view: AccountViewBase) =>
  view.flowControl.rows[0] as AccountViewBase['flowControl']['rows'][number];
export const schedule = (view: AccountViewBase) => view.schedules[0] as AccountViewBase['schedules'][number];
export const finished = (outcome: string) => seriesName('delivery_messages_finished_total', { outcome });
export const waitlist = seriesName('delivery_flow_control_waitlist_size', { flow_control_key: 'tenant-7' });
export const missedStarts = seriesName('delivery_schedule_missed_total', { schedule: 'reports' });
export const outcomes = (outcome: string) => seriesName('delivery_watch_api_requests_total', { outcome });

/** Title, account and expected problem lines. */
export type Case = readonly [what: string, scene: Scene, lines: readonly string[]];
