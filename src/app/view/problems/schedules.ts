import { scheduleFamilies } from '../../../collectors/index.ts';
import { HOUR, seriesName } from '../recent.ts';
import { type AccountCheck, isCurrent, type Moment, msOf } from './check.ts';
import { clockTime, plural, within } from './words.ts';

const { scheduleMissed, scheduleLate } = scheduleFamilies;

type Schedule = Moment['view']['schedules'][number];

/** What was counted in the last hour; nothing where the history does not say. */
function lately(
  { changes }: Moment,
  family: typeof scheduleMissed,
  name: string,
  count: number,
): { by: number; text: string } {
  const rise = changes.rise(seriesName(family.name, { schedule: name }), count, HOUR);
  return rise ? { by: rise.by, text: within(rise.overSeconds) } : { by: 0, text: '' };
}

const last = (iso: string | null, now: number) => {
  const time = msOf(iso);
  return time === undefined ? undefined : clockTime(time, now);
};

const schedules =
  (check: (moment: Moment, schedule: Schedule) => { since?: number | undefined; text: string } | undefined) =>
  (moment: Moment) =>
    isCurrent(moment.view.events.data)
      ? moment.view.schedules.flatMap(schedule => {
          const found = check(moment, schedule);
          return found ? [{ ...found, subject: schedule.name }] : [];
        })
      : [];

/** What the user expects by the clock. It is said for an hour after it happened, so that it does not come and go with each start. */
export const SCHEDULES: readonly AccountCheck[] = [
  {
    kind: 'schedule_missed',
    severity: 'warning',
    runbook: 'DeliveryScheduleMissed',
    when: 'the last expected start of a schedule was missed, or one of the last hour',
    check: schedules((moment, { name, state, lastStarted, missed }) => {
      const hour = lately(moment, scheduleMissed, name, missed);
      const starts = hour.by > 0 ? `${plural(hour.by, 'start')} missed ${hour.text}` : '';
      const seen = last(lastStarted, moment.now);
      if (state === 'missed') {
        const more = starts === '' ? '' : `; ${starts}`;
        return {
          since: msOf(lastStarted),
          text: `Schedule ${name}: no message ${seen === undefined ? 'seen yet' : `since ${seen}`}${more}.`,
        };
      }
      return hour.by > 0 ? { text: `Schedule ${name}: ${starts}; it started again, last at ${seen}.` } : undefined;
    }),
  },
  {
    kind: 'schedule_late',
    severity: 'warning',
    runbook: 'DeliveryScheduleLate',
    when: 'the messages of the last start of a schedule failed or were not delivered within `endsWithin`, or those of one in the last hour',
    check: schedules((moment, { name, state, lastDelivered, late }) => {
      const hour = lately(moment, scheduleLate, name, late);
      if (state !== 'late' && state !== 'failing' && hour.by === 0) return undefined;
      const delivered = last(lastDelivered, moment.now);
      const starts = hour.by > 0 ? `; ${plural(hour.by, 'start')} not delivered in time ${hour.text}` : '';
      const what =
        state === 'failing'
          ? 'its last messages failed'
          : state === 'late'
            ? 'its last start is late'
            : 'delivered again';
      return {
        text: `Schedule ${name}: ${what}, last delivery ${delivered === undefined ? 'not seen yet' : `at ${delivered}`}${starts}.`,
      };
    }),
  },
];
