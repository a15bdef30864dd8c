import { scheduleFamilies } from '../../collectors/index.ts';
import { HOUR } from '../../history/recent.ts';
import { seriesName } from '../../history/series-name.ts';
import { STARTS } from '../../metrics/thresholds.ts';
import type { CheckedSchedule, CheckInput } from './account.ts';
import { type AccountCheck, checksOf, covers, type Finding, toAgentTime } from './check.ts';
import { clockTime, plural, share, within } from './words.ts';

const { scheduleMissed, scheduleLate } = scheduleFamilies;

const defineCheck = checksOf('events');

/** Returns starts per hour, computed from the time between the last and the next start; 0 if unknown. */
function startsPerHour({ lastStarted: last, next: coming }: CheckedSchedule): number {
  return last === undefined || coming === undefined || coming <= last ? 0 : HOUR / (coming - last);
}

function recentChange({ changes }: CheckInput, family: typeof scheduleMissed, name: string, count: number) {
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

const hasFailed = ({ state, next }: CheckedSchedule, now: number) => state === 'failing' && (next ?? now) - now > HOUR;

/** Runs a check for each schedule. The check returns false if it has no finding. */
const eachSchedule =
  (check: (input: CheckInput, schedule: CheckedSchedule) => Omit<Finding, 'subject'> | false | 'unknown') =>
  (input: CheckInput) =>
    input.schedules.flatMap(schedule => {
      const { name: subject, state } = schedule;
      const found = check(input, schedule);
      if (typeof found === 'object') return { ...found, subject };
      return found === 'unknown' || state === 'unknown' ? { subject, isUnknown: true as const } : [];
    });

/** Checks of expected starts. Findings about several starts last for an hour, so that they do not flap with each start. */
export const SCHEDULES: readonly AccountCheck[] = [
  defineCheck('schedule_missed', 'DeliveryScheduleFailing', {
    when: `a schedule missed its last expected start; or, in the last hour, it missed at least ${STARTS.fewest} starts and started in between`,
    check: eachSchedule((input, schedule) => {
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
  }),
  defineCheck('schedule_late', 'DeliveryScheduleFailing', {
    when: `the last start was late; or it failed, and the next one is more than an hour away; or, in the last hour, at least ${STARTS.fewest} starts and more than ${share(STARTS.usuallyLate)} of all starts were late`,
    check: eachSchedule((input, schedule) => {
      const { name, state, lastDelivered, late } = schedule;
      const failed = hasFailed(schedule, input.serviceNow);
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
];
