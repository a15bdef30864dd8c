import fc from 'fast-check';
import { expect, it } from 'vitest';
import { createTimetable, type ScheduleState } from '../../../src/collectors/events/expectations.ts';
import { clockChange } from '../../support/clock-changes.ts';
import { runs } from '../../support/runs.ts';

const EARLY = 2000;
const GRACE = 15_000;
const HOUR = 3_600_000;

/** Counts the missed starts if messages are created and delivered at these times, and the log is read up to `end`. */
function missedStarts(
  { cron, tz }: { cron: string; tz: string },
  start: number,
  end: number,
  times: readonly number[],
) {
  const state: ScheduleState = { missed: 0, late: 0, open: [] };
  const timetable = createTimetable({ cron, tz, grace: GRACE, endsWithin: 1000 }, state);
  timetable.begin(start);
  for (const time of times.toSorted((a, b) => a - b)) {
    timetable.close(time - 1);
    timetable.expectFor(time, { left: 1000 });
    timetable.started(time);
    timetable.delivered(time, time);
  }
  timetable.expectUntil(end, { left: Number.POSITIVE_INFINITY });
  timetable.close(end + 4 * HOUR);
  expect([state.late, state.open]).toEqual([0, []]);
  return state.missed;
}

it('no start around a clock change counts as missed if a message is created in time; for a local time that occurs twice, one message suffices', () =>
  fc.assert(
    fc.property(
      clockChange,
      fc.constantFrom('first', 'last', 'both'),
      fc.oneof(fc.constantFrom(-EARLY, -20, 0, GRACE), fc.integer({ min: -EARLY, max: GRACE })),
      ({ expected, start, end, ...schedule }, which, offset) => {
        const chosen = expected.flatMap(times =>
          which === 'both' ? times : [(which === 'first' ? times[0] : times.at(-1)) ?? 0],
        );
        expect(
          missedStarts(
            schedule,
            start,
            end,
            chosen.map(time => time + offset),
          ),
        ).toBe(0);
      },
    ),
    { numRuns: runs(60) },
  ));

it('counts a start as missed if its message is created more than two seconds early or after grace', () =>
  fc.assert(
    fc.property(
      clockChange,
      fc.constantFrom(-EARLY - 1, GRACE + 1),
      ({ expected, start, end, ...schedule }, offset) => {
        const times = expected.flat().map(time => time + offset);
        expect(missedStarts(schedule, start, end, times)).toBe(expected.length);
      },
    ),
    { numRuns: runs(50) },
  ));

it.each([
  ['the hour', '0 * * * *', '2026-06-01T10:59:59.980Z'],
  ['the day', '0 0 * * *', '2026-06-01T23:59:58.000Z'],
  ['the year', '0 0 1 1 *', '2026-12-31T23:59:59.999Z'],
  ['a local day', '0 0 * * *', '2026-06-01T21:59:59.100Z', 'Europe/Berlin'],
  ['a skipped hour', '0 3 * * *', '2026-03-29T00:59:59.980Z', 'Europe/Berlin'],
])('a message created just before %s counts for the start after it', (_what, cron, time, tz = 'UTC') => {
  const at = Date.parse(time);
  expect(missedStarts({ cron, tz }, at - 10_000, at + 10_000, [at])).toBe(0);
  expect(missedStarts({ cron, tz }, at - 10_000, at + 10_000, [])).toBe(1);
});

it('expects no start that is due within two seconds after the first read or after an unread part of the log', () => {
  const noon = Date.parse('2026-06-01T12:00:00Z');
  const daily = { cron: '0 12 * * *', tz: 'UTC' };
  expect(missedStarts(daily, noon - EARLY, noon + HOUR, [])).toBe(0);
  expect(missedStarts(daily, noon - EARLY - 1, noon + HOUR, [])).toBe(1);
  const state: ScheduleState = { missed: 0, late: 0, open: [] };
  const timetable = createTimetable({ ...daily, grace: GRACE, endsWithin: 1000 }, state);
  timetable.begin(noon - HOUR);
  timetable.markUnread({ from: noon - 5000, to: noon - 1000 });
  timetable.expectUntil(noon, { left: 1 });
  expect(state.open).toEqual([]);
});
