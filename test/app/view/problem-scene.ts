/** What is said of an account that is well but for what a test changes. */
import { problemsOf, type ShownAccount } from '../../../src/app/view/problems.ts';
import { seriesName } from '../../../src/app/view/recent.ts';
import type { Problem } from '../../../src/http/api/parts.ts';
import type { Family, Sample } from '../../../src/metrics/family.ts';
import { objectiveFamilies } from '../../../src/metrics/objectives.ts';
import type { Point } from '../../../src/model/history.ts';
import { calmAccount, NOON } from '../../support/calm-account.ts';

export const MINUTE = 60_000;
export const ago = (minutes: number) => new Date(NOON - minutes * MINUTE).toISOString();

/** The value of a series so many minutes before noon; undefined: there was none. */
type Course = (minutesAgo: number) => number | undefined;

/** What is known besides the view. */
export interface Scene {
  readonly change?: (view: ShownAccount) => void;
  /** By series; what is left out had the same value for the last 75 minutes. */
  readonly courses?: Readonly<Record<string, Course>>;
  readonly samples?: readonly (readonly [Family, readonly Sample[]])[];
  readonly firstSeen?: (problem: Pick<Problem, 'kind' | 'subject'>) => number | undefined;
}

export const one = (value: number): readonly Sample[] => [{ labels: {}, value }];
const EXPECTED: readonly (readonly [Family, readonly Sample[]])[] = [
  [objectiveFamilies.dlqMaxAge, one(86_400)],
  [objectiveFamilies.window, one(30 * 86_400)],
];

export function problems({ change, courses = {}, samples = [], firstSeen = () => undefined }: Scene): Problem[] {
  const view = calmAccount();
  const before = calmAccount();
  change?.(view);
  const byName = new Map([...EXPECTED, ...samples].map(([{ name }, each]) => [name, each]));
  const of = ({ name }: Pick<Family, 'name'>) => byName.get(name) ?? [];
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
    [seriesName('delivery_schedule_missed_total', { schedule: 'reports' }), 0],
    [seriesName('delivery_schedule_late_total', { schedule: 'reports' }), 0],
  ]);
  function recent(series: string, over: number): Point[] {
    const known = usual.get(series);
    const course =
      courses[series] ?? (known === undefined ? undefined : (minutes: number) => (minutes > 75 ? undefined : known));
    return Array.from({ length: over / MINUTE + 1 }, (_, index) => over / MINUTE - index).flatMap(minutes => {
      const value = course?.(minutes);
      return value === undefined ? [] : [{ at: NOON - minutes * MINUTE, value }];
    });
  }
  return problemsOf(view, { shown: { of, one: family => of(family)[0]?.value }, recent, firstSeen });
}

/** Line by line: severity, kind, subject, since when (minutes), what is said. */
export const said = (scene: Scene) =>
  problems(scene).map(({ severity, kind, subject, since, text }) => {
    const minutes = (NOON - Date.parse(since ?? '')) / MINUTE;
    return `${severity} ${kind}${subject === null ? '' : ` (${subject})`} ${minutes} min: ${text}`;
  });

export const rounds = (
  view: ShownAccount,
  change: (round: ShownAccount['rounds'][number]) => void,
  collector?: string,
) => {
  for (const round of view.rounds) {
    if (round.collector !== 'account' && (collector === undefined || round.collector === collector)) change(round);
  }
};
export const failing =
  (state: 'failing' | 'stale' | 'withdrawn', reason: string, message: string) =>
  (round: ShownAccount['rounds'][number]) => {
    Object.assign(round, { state, consecutiveFailures: 9, failure: { reason, message }, dataAt: ago(4) });
  };
export const row = (view: ShownAccount) => view.flowControl.rows[0] as ShownAccount['flowControl']['rows'][number];
export const schedule = (view: ShownAccount) => view.schedules[0] as ShownAccount['schedules'][number];
export const finished = (outcome: string) => seriesName('delivery_messages_finished_total', { outcome });
export const waitlist = seriesName('delivery_flow_control_waitlist_size', { flow_control_key: 'tenant-7' });
export const requests = (outcome: string, endpoint = 'dlq'): Sample => ({ labels: { endpoint, outcome }, value: 400 });
export const outcomes = (outcome: string) => seriesName('delivery_watch_api_requests_total', { outcome });

/** What it is about, the account, and each line that is said of it. */
export type Case = readonly [what: string, scene: Scene, lines: readonly string[]];
