import type { Occurrence } from '../../kit/cron.ts';
import { MINUTE } from '../../kit/duration.ts';
import type { ServiceSchedule } from '../../model/service.ts';
import { type DoubleStart, NEXT_START } from '../events/double-starts.ts';

/** What reads have shown about one schedule, as stored. Times are in milliseconds since the Unix epoch. */
export interface ScheduleHistory {
  readonly id: string;
  readonly cron?: string | undefined;
  readonly tz?: string | undefined;
  readonly paused?: boolean | undefined;
  readonly lastRunAt?: number | undefined;
  /** The first announced start that no read has evaluated. The service announces the next one even if this one is missed. */
  readonly dueAt?: number | undefined;
  /** Time of the first read. */
  readonly seenAt: number;
  /** First of the consecutive reads that reported a pause. */
  readonly pausedSince?: number | undefined;
  /** Whether the read before `pausedSince` reported an active schedule. */
  readonly sawPause?: boolean;
  /** Starts expected up to this time have been evaluated, or are not evaluated. */
  readonly expectedTo: number;
  readonly missed: number;
  /** The last expected start that was missed. */
  readonly missedAt?: number | undefined;
  readonly unexpected: number;
  readonly unexpectedAt?: number | undefined;
  /** Repeated starts in the event log that `unexpected` includes. */
  readonly doubles?: number | undefined;
  /** First complete list without the schedule. */
  readonly goneSince?: number | undefined;
}

/** Time after which an expected start counts as missed (ms). */
const GRACE = 2 * MINUTE;
/** Maximum time until the service applies a change of a schedule (ms). */
const LOADING = MINUTE;
/** Maximum time by which a start precedes its expected time (ms). */
const EARLY = 2000;
/** Maximum number of expected starts evaluated in one read. The next one evaluates the rest. */
const MAX_AT_ONCE = 100;
/** Time after a missed start in which further starts may make up for it (ms). */
const MAKE_UP = 60 * MINUTE;

type OccurrenceAfter = ((time: number) => Occurrence | undefined) | undefined;

/** Evaluates the starts expected up to `at`: the announced one, then those of the expression. */
function addMissed(history: ScheduleHistory, announced: number | undefined, at: number, after: OccurrenceAfter) {
  let { expectedTo, missed, missedAt } = history;
  const from = firstExpected(history);
  let due = announced !== undefined && announced > from ? { at: announced, again: announced } : after?.(from);
  for (let left = MAX_AT_ONCE; due && due.again + GRACE <= at && left > 0; left -= 1) {
    [expectedTo, missedAt] = [due.at, due.at];
    missed += 1;
    due = after?.(due.at);
  }
  return { ...history, expectedTo, missed, missedAt };
}

const firstExpected = ({ expectedTo, lastRunAt = 0 }: ScheduleHistory) => Math.max(expectedTo, lastRunAt + EARLY);

/** Whether the last start is none of those that the earlier read expected. */
function isUnexpected(before: ScheduleHistory, row: ServiceSchedule, after: OccurrenceAfter): boolean {
  const { lastRunAt = 0 } = row;
  if (before.lastRunAt === undefined || lastRunAt <= before.lastRunAt) return false;
  if (row.paused && before.pausedSince !== undefined) return lastRunAt > before.pausedSince + LOADING;
  const isMakingUp = before.missedAt !== undefined && lastRunAt < before.missedAt + MAKE_UP;
  // The event log shows a start so soon after another one.
  const isInLog = lastRunAt < before.lastRunAt + NEXT_START;
  if (row.paused !== false || before.paused !== false || isMakingUp || isInLog) return false;
  const expected = [before.dueAt, after?.(before.lastRunAt + EARLY)?.at].filter(time => time !== undefined);
  return expected.length > 0 && expected.every(time => lastRunAt < time - EARLY);
}

/** Adds a row that was read at `at` by the service's clock. `after`: finds occurrences; undefined if the expression is unreadable. */
export function followRow(
  before: ScheduleHistory | undefined,
  row: ServiceSchedule,
  at: number,
  after: OccurrenceAfter,
): ScheduleHistory {
  const { scheduleId: id, cron, tz, paused, nextRunAt: dueAt } = row;
  const known = before ?? { id, seenAt: at, expectedTo: at, missed: 0, unexpected: 0 };
  const isSame = before !== undefined && !before.goneSince && before.cron === cron && before.tz === tz;
  const isExtra = isSame && isUnexpected(before, row, after);
  const history: ScheduleHistory = {
    ...known,
    ...{ cron, tz, paused, dueAt },
    lastRunAt: Math.max(row.lastRunAt ?? 0, known.lastRunAt ?? 0) || undefined,
    pausedSince: paused ? (known.pausedSince ?? at) : undefined,
    sawPause: paused === true && (known.pausedSince === undefined ? known.paused === false : known.sawPause === true),
    unexpected: known.unexpected + Number(isExtra),
    unexpectedAt: isExtra ? row.lastRunAt : known.unexpectedAt,
    goneSince: undefined,
  };
  // A start before a change that the service may not have applied yet, or during a pause, is not expected.
  const isWatched = isSame && before.paused === false && paused === false;
  if (!isWatched) return { ...history, expectedTo: at + LOADING, missedAt: undefined };
  // A row without the last start, which an earlier one had, does not show whether the schedule started.
  const isReported = row.lastRunAt !== undefined || known.lastRunAt === undefined;
  const evaluated = isReported ? addMissed(history, before.dueAt, at, after) : history;
  const from = firstExpected(evaluated);
  const isDue = (time: number | undefined) => time !== undefined && time > from && time <= at;
  // Of starts in the past, the service announces none, even if they are still within grace.
  const pending = [before.dueAt, after?.(from)?.at].find(isDue);
  return pending === undefined ? evaluated : { ...evaluated, dueAt: pending };
}

/** Adds the repeated starts that the event log shows since the last read, or since this process started. */
export function withDoubles(history: ScheduleHistory, { count, at }: DoubleStart): ScheduleHistory {
  const { doubles = 0, unexpected, unexpectedAt = 0 } = history;
  if (count === doubles) return history;
  const added = Math.max(0, count - doubles);
  return { ...history, doubles: count, unexpected: unexpected + added, unexpectedAt: Math.max(unexpectedAt, at) };
}

/** Whether the last expected start was missed, and none has followed. */
export const isMissing = ({ missedAt, lastRunAt = 0 }: ScheduleHistory) =>
  missedAt !== undefined && missedAt > lastRunAt + EARLY;
