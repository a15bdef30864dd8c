import { scheduleFamilies } from '../../collectors/index.ts';
import { HOUR, seriesName } from '../recent.ts';
import { type AccountCheck, defineCheck, type Found, type Moment, msOf, ofCurrent } from './check.ts';
import { clockTime, plural, within } from './words.ts';

const { scheduleMissed, scheduleLate } = scheduleFamilies;

type Schedule = Moment['view']['schedules'][number];

/** Minimum of missed starts in an hour if the schedule has started since. */
const FEWEST = 2;
/** Usual share of late starts in an hour, because of retries. */
const USUALLY_LATE = 0.1;

/** Starts in an hour by the distance between the last and the next; 0 if unknown. */
function startsPerHour({ lastStarted, next }: Schedule): number {
  const [last, coming] = [msOf(lastStarted), msOf(next)];
  return last === undefined || coming === undefined || coming <= last ? 0 : HOUR / (coming - last);
}

function lately({ changes }: Moment, family: typeof scheduleMissed, name: string, count: number) {
  const rise = changes.rise(seriesName(family.name, { schedule: name }), count, HOUR);
  return rise ? { by: rise.by, text: within(rise.overSeconds) } : { by: 0, text: '' };
}

const last = (iso: string | null, now: number) => {
  const time = msOf(iso);
  return time === undefined ? undefined : clockTime(time, now);
};

const hasFailed = ({ state, next }: Schedule, now: number) => state === 'failing' && (msOf(next) ?? now) - now > HOUR;

const schedules = (check: (moment: Moment, schedule: Schedule) => Omit<Found, 'subject'> | undefined) =>
  ofCurrent('events', moment =>
    moment.view.schedules.flatMap(schedule => {
      const found = check(moment, schedule);
      return found ? { ...found, subject: schedule.name } : [];
    }),
  );

/** Expected starts. A problem stays for an hour, so that it does not flap with each start. */
export const SCHEDULES: readonly AccountCheck[] = [
  defineCheck('schedule_missed', 'warning', 'DeliveryScheduleMissed', {
    when: 'the last expected start of a schedule was missed, or two of the last hour',
    check: schedules((moment, { name, state, lastStarted, missed }) => {
      const hour = lately(moment, scheduleMissed, name, missed);
      const starts = hour.by > 0 ? `${plural(hour.by, 'start')} missed ${hour.text}` : '';
      const seen = last(lastStarted, moment.now);
      if (state === 'missed') {
        const more = starts === '' ? '' : `; ${starts}`;
        const text = `Schedule ${name}: no message ${seen === undefined ? 'seen yet' : `since ${seen}`}${more}.`;
        return { since: msOf(lastStarted), text };
      }
      return hour.by < FEWEST ? undefined : { text: `Schedule ${name}: ${starts}; it started again, last at ${seen}.` };
    }),
  }),
  defineCheck('schedule_late', 'warning', 'DeliveryScheduleLate', {
    when: 'no message of the last start of a schedule was delivered within `endsWithin`, or of two and more than a tenth of the starts in the last hour; or they failed, and the next start is more than an hour off',
    check: schedules((moment, schedule) => {
      const { name, state, lastDelivered, late } = schedule;
      const failed = hasFailed(schedule, moment.now);
      const hour = lately(moment, scheduleLate, name, late);
      const isOften = hour.by >= FEWEST && hour.by > USUALLY_LATE * startsPerHour(schedule);
      if (state !== 'late' && !failed && !isOften) return undefined;
      const delivered = last(lastDelivered, moment.now);
      const starts = hour.by > 0 ? `; ${plural(hour.by, 'start')} not delivered in time ${hour.text}` : '';
      const what = failed ? 'its last messages failed' : state === 'ok' ? 'delivered again' : 'not delivered in time';
      const text = `Schedule ${name}: ${what}, last delivery ${delivered === undefined ? 'not seen yet' : `at ${delivered}`}${starts}.`;
      return { text };
    }),
  }),
];
