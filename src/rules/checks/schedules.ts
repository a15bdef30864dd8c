import { hasFailed, type ListedSchedule, scheduleFamilies } from '../../collectors/index.ts';
import { HOUR } from '../../history/recent.ts';
import { seriesName } from '../../history/series-name.ts';
import { STARTS } from '../../metrics/thresholds.ts';
import type { CheckedSchedule, CheckInput } from './account.ts';
import { type AccountCheck, checksOf, covers, type Finding, toAgentTime } from './check.ts';
import { clockTime, percent, plural, within } from './words.ts';

const { scheduleMissed, scheduleLate } = scheduleFamilies;

const ofEvents = checksOf('events');
const ofList = checksOf('schedules');

const ALERT = 'DeliveryScheduleFailing';
const DAY = 24 * HOUR;

/** Returns starts per hour, computed from the time between the last and the next start; 0 if unknown. */
function startsPerHour({ lastStarted: last, next: coming }: CheckedSchedule): number {
  return last === undefined || coming === undefined || coming <= last ? 0 : HOUR / (coming - last);
}

function recentChange({ changes }: CheckInput, family: typeof scheduleMissed, name: string, count?: number) {
  const rise = changes.rise(seriesName(family.name, { schedule: name }), count, HOUR);
  const isCovered = covers(rise, HOUR);
  return rise ? { by: rise.by, text: within(rise.overSeconds), isCovered } : { by: 0, text: '', isCovered };
}

/**
 * Whether starts came between the misses of the last hour. The next start may then be missed, too; otherwise, a start shows that
 * the problem is over.
 */
function missesAlternate({ recent, now }: CheckInput, { name, missed, lastStarted, next }: CheckedSchedule): boolean {
  const points = [...recent(seriesName(scheduleMissed.name, { schedule: name }), HOUR), { at: now, value: missed }];
  const missedAt = points.flatMap(({ at, value }, index) => (value > (points[index - 1]?.value ?? value) ? at : []));
  const period = (next ?? 0) - (lastStarted ?? 0);
  return missedAt.some((at, index) => at - (missedAt[index - 1] ?? at) > 1.5 * period);
}

const last = (time: number | undefined, now: number) => (time === undefined ? undefined : clockTime(time, now));

const isFailing = ({ state, next }: CheckedSchedule, now: number) => state === 'failing' && (next ?? now) - now > HOUR;

/** Runs a check for each schedule. The check returns false if it has no finding. */
const eachSchedule =
  (
    source: CheckedSchedule['source'],
    check: (input: CheckInput, schedule: CheckedSchedule) => Omit<Finding, 'subject'> | false | 'unknown',
  ) =>
  (input: CheckInput) =>
    input.schedules.flatMap(schedule => {
      const { name: subject, state } = schedule;
      if (schedule.source !== source) return [];
      const found = check(input, schedule);
      if (typeof found === 'object') return { ...found, subject };
      return found === 'unknown' || state === 'unknown' ? { subject, isUnknown: true as const } : [];
    });

const missed = (source: CheckedSchedule['source']) =>
  ({
    when: `a schedule missed its last expected start. Or in the last hour, a schedule missed at least ${STARTS.fewest} starts, with other starts between them`,
    check: eachSchedule(source, (input, schedule) => {
      if (schedule.state === 'paused') return false;
      const { name, state, lastStarted, missed } = schedule;
      const hour = recentChange(input, scheduleMissed, name, missed);
      const starts = hour.by > 0 ? `${plural(hour.by, 'start')} missed ${hour.text}` : '';
      const seen = last(lastStarted, input.serviceNow);
      if (state === 'missed') {
        const more = starts === '' ? '' : `; ${starts}`;
        const text = `Schedule ${name}: no message ${seen === undefined ? 'seen yet' : `since ${seen}`}${more}.`;
        return { since: toAgentTime(input, lastStarted), text };
      }
      if (hour.by < STARTS.fewest) return hour.isCovered ? false : 'unknown';
      if (!missesAlternate(input, schedule)) return false;
      return { text: `Schedule ${name}: ${starts}; it started again, last at ${seen}.` };
    }),
  }) as const;

/** Runs a check for each schedule that the service lists. The check returns undefined if it has no finding. */
const eachListed =
  (check: (schedule: ListedSchedule, input: CheckInput) => Omit<Finding, 'subject'> | undefined) =>
  (input: CheckInput) =>
    (input.shown.schedules?.now?.listed ?? []).flatMap(schedule => {
      const found = check(schedule, input);
      return found ? [{ ...found, subject: schedule.name }] : [];
    });

/** Checks of expected starts. Findings about several starts last for an hour, so that they do not flap with each start. */
export const SCHEDULES: readonly AccountCheck[] = [
  ofEvents('schedule_missed', ALERT, missed('events')),
  ofList('schedule_missed', ALERT, missed('schedules')),
  ofEvents('schedule_late', ALERT, {
    when: `the last start of a schedule was late. Or the last start failed, and the next start is more than an hour away. Or in the last hour, at least ${STARTS.fewest} starts were late, and these were more than ${percent(STARTS.usuallyLate)} of all starts`,
    check: eachSchedule('events', (input, schedule) => {
      const { name, state, lastDelivered, late } = schedule;
      const failed = isFailing(schedule, input.serviceNow);
      const hour = recentChange(input, scheduleLate, name, late);
      const isOften = hour.by >= STARTS.fewest && hour.by > STARTS.usuallyLate * startsPerHour(schedule);
      if (state !== 'late' && !failed && !isOften) return hour.isCovered ? false : 'unknown';
      const delivered = last(lastDelivered, input.serviceNow);
      const starts = hour.by > 0 ? `; ${plural(hour.by, 'start')} not delivered in time ${hour.text}` : '';
      const what = failed ? 'its last messages failed' : state === 'ok' ? 'delivered again' : 'not delivered in time';
      const text = `Schedule ${name}: ${what}, last delivery ${delivered === undefined ? 'not seen yet' : `at ${delivered}`}${starts}.`;
      return { text };
    }),
  }),
  ofList('schedule_failing', ALERT, {
    when: 'the service reports an error of an active schedule, or all messages of the schedule’s last run failed',
    check: eachListed(({ name, row }, input) => {
      if (row.paused || !hasFailed(row)) return undefined;
      const ran = row.lastRunAt === undefined ? '' : ` at ${clockTime(row.lastRunAt, input.serviceNow)}`;
      const why = row.error === undefined ? 'all its messages failed' : row.error;
      return { since: toAgentTime(input, row.lastRunAt), text: `Schedule ${name}: the last run${ran} failed: ${why}.` };
    }),
  }),
  ofList('schedule_paused', ALERT, {
    when: 'the service has reported for more than a day that a schedule is paused. If the schedule was already paused when the agent first read it, the severity is `info`',
    check: eachListed(({ name, history: { pausedSince, sawPause } }, input) => {
      if (pausedSince === undefined || input.serviceNow - pausedSince <= DAY) return undefined;
      const at = clockTime(pausedSince, input.serviceNow);
      const text = sawPause
        ? `Schedule ${name} is paused: the agent first read that at ${at}.`
        : `Schedule ${name} is paused, at least since the agent first read it at ${at}.`;
      const since = toAgentTime(input, pausedSince);
      return { since, text, ...(!sawPause && { severity: 'info' as const }) };
    }),
  }),
  ofList('schedule_unexpected', ALERT, {
    when: 'in the last hour, a schedule had an unexpected start: a second start for the same expected time, a start before the next expected time, or a start during a pause',
    check: eachListed(({ name, history: { unexpectedAt } }, { serviceNow }) => {
      if (unexpectedAt === undefined || serviceNow - unexpectedAt > HOUR) return undefined;
      return { text: `Schedule ${name} started at ${clockTime(unexpectedAt, serviceNow)}, although no start was due.` };
    }),
  }),
  ofList('schedule_gone', ALERT, {
    when: 'in the last day, the service stopped listing a schedule. If the schedule was paused, or if the agent had known it for less than a day, the severity is `info`',
    check: input =>
      (input.shown.schedules?.now?.gone ?? []).map(({ name: subject, history }): Finding => {
        const { goneSince = 0, seenAt, paused } = history;
        const isMinor = paused !== false || goneSince - seenAt < DAY;
        const text = `Schedule ${subject}: the service no longer lists it since ${clockTime(goneSince, input.serviceNow)}.`;
        const since = toAgentTime(input, goneSince);
        return { subject, since, text, ...(isMinor && { severity: 'info' as const }) };
      }),
  }),
];
