import fc from 'fast-check';

/** Days on which clocks change, with the days before and after: an hour, half an hour or two hours, also round midnight. */
const CHANGES = [
  ['Africa/Cairo', '2026-04-23'],
  ['Africa/Cairo', '2026-10-29'],
  ['America/Santiago', '2026-09-05'],
  ['America/Santiago', '2026-04-04'],
  ['Europe/Berlin', '2026-03-28'],
  ['Europe/Berlin', '2026-10-24'],
  ['Australia/Lord_Howe', '2026-10-03'],
  ['Australia/Lord_Howe', '2026-04-04'],
  ['America/Havana', '2026-03-07'],
  ['America/Havana', '2026-10-31'],
  ['Asia/Beirut', '2026-03-28'],
  ['Atlantic/Azores', '2026-10-24'],
  ['America/St_Johns', '2026-10-31'],
  ['Antarctica/Troll', '2026-03-28'],
  ['Antarctica/Troll', '2026-10-24'],
  ['Asia/Kathmandu', '2026-06-01'],
] as const;

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;

/** A field of a cron expression: every value, a value, a list, a range or a step. */
const field = (max: number) =>
  fc.oneof(
    fc.constant('*'),
    fc.nat(max).map(String),
    fc.uniqueArray(fc.nat(max), { minLength: 2, maxLength: 4 }).map(values => values.join(',')),
    fc.tuple(fc.nat(max), fc.nat(max)).map(([a, b]) => `${Math.min(a, b)}-${Math.max(a, b)}`),
    fc.integer({ min: 2, max: 20 }).map(step => `*/${step}`),
    fc.tuple(fc.nat(max), fc.integer({ min: 2, max: 9 })).map(([from, step]) => `${from}-${max}/${step}`),
  );

function isIn(text: string, value: number): boolean {
  return text.split(',').some(part => {
    const [range = '', step = '1'] = part.split('/');
    const [from = 0, to = range === '*' ? Number.POSITIVE_INFINITY : from] =
      range === '*' ? [] : range.split('-').map(Number);
    return value >= from && value <= to && (value - from) % Number(step) === 0;
  });
}

interface Reading {
  readonly at: number;
  readonly local: string;
}

/** Reads the local clock minute by minute. */
function readClock(tz: string, start: number, end: number): readonly Reading[] {
  const clock = new Intl.DateTimeFormat('en-GB', { timeZone: tz, dateStyle: 'short', timeStyle: 'short' });
  const times = Array.from({ length: (end - start) / MINUTE }, (_, index) => start + (index + 1) * MINUTE);
  return times.map(at => ({ at, local: clock.format(at) }));
}

const readings = CHANGES.map(([tz, day]) => {
  const start = Date.parse(`${day}T10:00:00Z`);
  const end = start + 28 * HOUR;
  return { tz, start, end, times: readClock(tz, start, end) };
});

/** An expression, a time zone, and the expected occurrences in a period, each with all times of that local time. */
export const clockChange = fc
  .record({ reading: fc.constantFrom(...readings), minutes: field(59), hours: field(23) })
  .map(({ reading: { times, ...period }, minutes, hours }) => {
    const expected = times.filter(({ local }) => {
      const [, hour, minute] = /(\d\d):(\d\d)$/.exec(local) ?? [];
      return isIn(minutes, Number(minute)) && isIn(hours, Number(hour));
    });
    const groups = [...Map.groupBy(expected, ({ local }) => local).values()];
    return { ...period, cron: `${minutes} ${hours} * * *`, expected: groups.map(group => group.map(({ at }) => at)) };
  });
