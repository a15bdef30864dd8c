/** Situations of dead letters, waitlists and schedules. */

import { ago, flat, from, type Input, until, type Values } from './course.ts';
import { DAY, HOUR, type SituationCase } from './situation.ts';

/** A queue with `before` entries to which `by` entries are added every `every` minutes, from minute 120. */
const growing = (before: number, by: number, every: number): Input => ({
  dead: minute => before + by * Math.max(0, Math.floor((minute - 2 * HOUR) / every)),
});

/** A queue that grows from `floor` to `floor + rise` and is drained every `period` minutes. */
const drained = (period: number, rise: number, floor = 0): Input => ({
  dead: minute => Math.round(floor + (rise * (minute % period)) / period),
});

/** Operators let almost all entries expire: 60 expire every hour, and the oldest one always expires in ten minutes. */
const leftToExpire: Input = {
  dead: flat(100),
  oldest: minute => 60 * minute - 3 * 86_400 + 600,
  retention: flat(3 * 86_400),
  expired: minute => 60 + 60 * Math.floor(minute / HOUR),
  removed: flat(2),
};

/** Growth by few entries an hour is found after an hour, and then after six hours. */
const GROWTH: readonly SituationCase[] = [
  {
    name: 'seven more a minute in a queue of 642',
    input: growing(642, 7, 1),
    minutes: 4 * HOUR,
    reports: ['warning dlq_growing 122..130'],
  },
  {
    name: '60 more every hour in a queue of 1,440',
    input: growing(1440, 60, HOUR),
    minutes: 12 * HOUR,
    reports: [
      'warning dlq_growing 180..183 – 200..230',
      'warning dlq_growing 240..243 – 260..290',
      'warning dlq_growing 300..303 – 320..350',
      'warning dlq_growing 360..363',
    ],
  },
  {
    name: 'twenty more every twenty minutes in a queue of 100',
    input: growing(100, 20, 20),
    minutes: 12 * HOUR,
    reports: ['warning dlq_growing 140..180 – 240..300', 'warning dlq_growing 360..365'],
  },
  {
    name: 'eight more an hour in a queue of three',
    input: growing(3, 1, 7.5),
    minutes: 14 * HOUR,
    reports: ['warning dlq_growing 130..180 – 240..300', 'warning dlq_growing 360..365'],
  },
  {
    name: '300 more an hour in a queue of 642',
    input: growing(642, 5, 1),
    minutes: 4 * HOUR,
    reports: ['warning dlq_growing 122..180'],
  },
  {
    name: 'a daily peak from twenty to forty over six hours',
    input: { dead: minute => 20 + Math.round(20 * Math.max(0, 1 - Math.abs((minute % DAY) / (6 * HOUR) - 2))) },
    minutes: 40 * HOUR,
    reports: [],
  },
  {
    name: 'one more an hour in a queue of 5,000',
    input: growing(5000, 1, HOUR),
    minutes: 14 * HOUR,
    reports: [],
  },
  {
    name: 'growth that stops',
    input: { dead: minute => 100 + Math.min(200, Math.max(0, minute - 120)) },
    minutes: 14 * HOUR,
    reports: ['warning dlq_growing 150..200 – 240..480', 'may warning dlq_growing 360..365 – 365..480'],
  },
  ...[
    ['every hour', drained(HOUR, 354)],
    ['every quarter of an hour', drained(15, 354)],
    ['every hour, with a floor of 200', drained(HOUR, 354, 200)],
  ].map(([when, input]) => ({
    name: `a job drains the queue ${when}`,
    input: input as Input,
    minutes: 8 * HOUR,
    // The first minutes of a new agent do not show that the queue is drained repeatedly.
    reports: ['may warning dlq_growing 3..11 – 30..76'],
  })),
  {
    name: 'a bulk retry of an hour ago fails again',
    // An incident adds 300 entries. They are retried two hours later and fail again within 20 minutes.
    input: {
      dead: minute => {
        if (minute < 2 * HOUR) return 0;
        if (minute < 4 * HOUR) return Math.min(300, 15 * (minute - 2 * HOUR));
        return Math.min(300, 15 * (minute - 4 * HOUR));
      },
    },
    minutes: 8 * HOUR,
    reports: ['warning dlq_growing 121..130 – 150..245'],
  },
  {
    name: 'a bulk retry fails again over two hours',
    input: {
      dead: minute => {
        if (minute < 2 * HOUR) return 0;
        if (minute < 4 * HOUR) return Math.min(300, 15 * (minute - 2 * HOUR));
        return Math.min(300, 2.5 * (minute - 4 * HOUR));
      },
    },
    minutes: 8 * HOUR,
    reports: ['warning dlq_growing 121..130 – 150..245'],
  },
];

/** Reads fail for 200 minutes. Entries are added during that time. */
const added = (before: number, more: number): Pick<SituationCase, 'input' | 'dark' | 'minutes'> => ({
  input: { dead: from(100, before + more, before) },
  dark: [[61, 260]],
  minutes: 9 * HOUR,
});
const AWAY = 'critical service_unavailable 62..65 – 260..261';

const QUEUE: readonly SituationCase[] = [
  {
    name: 'first entries while reads fail',
    ...added(0, 3),
    reports: [AWAY, 'warning dlq_first_entry 260..262 – 275..350'],
  },
  {
    name: 'many more entries while reads fail',
    ...added(10, 500),
    reports: [AWAY, 'warning dlq_growing 260..265 – 275..360'],
  },
  { name: 'no entries while reads fail', ...added(3, 0), reports: [AWAY] },
  { name: 'operators let entries expire', input: leftToExpire, minutes: 6 * HOUR, reports: [] },
  {
    name: 'operators normally remove entries',
    input: { ...leftToExpire, removed: minute => 90 + 90 * Math.floor(minute / HOUR) },
    minutes: 6 * HOUR,
    reports: ['critical dlq_expiring 15..360'],
  },
  {
    name: 'first entries of a queue without removals or expiries',
    input: { ...leftToExpire, expired: flat(0), removed: flat(0) },
    minutes: 2 * HOUR,
    reports: ['critical dlq_expiring 15..60'],
  },
  {
    name: 'the oldest entry is much older than the configured retention',
    input: {
      dead: flat(5),
      oldest: ago(1.2 * 86_400),
      retention: flat(86_400),
    },
    minutes: 6 * HOUR,
    reports: ['warning retention_too_short 0..30'],
  },
  {
    name: 'four rows and an unreadable one remain of a nearly full queue',
    input: { dead: until(HOUR, 1800, 4), most: flat(2000), 'rejected dlq': minute => Math.max(0, minute - HOUR + 1) },
    minutes: 3 * HOUR,
    reports: ['warning dlq_nearly_full 15..17 – 60..62', 'warning rows_unreadable (dlq) 65..68'],
  },
];

const WAITING = 'waiting mail';
const WAITLISTS: readonly SituationCase[] = [
  {
    name: 'a weekly batch of 50,000 messages that drains in six hours',
    input: { [WAITING]: minute => (minute < 2 * HOUR ? 0 : Math.max(0, 50_000 - 140 * (minute - 2 * HOUR))) },
    minutes: 9 * HOUR,
    reports: [],
  },
  {
    name: 'a batch of 600 messages every hour that drains in 40 minutes',
    input: { [WAITING]: minute => Math.max(0, 600 - 15 * (minute % HOUR)) },
    minutes: 6 * HOUR,
    reports: [],
  },
  {
    name: 'messages arrive faster than a key delivers them, after an hour without any',
    input: { [WAITING]: minute => 10 * Math.max(0, minute - HOUR) },
    minutes: 5 * HOUR,
    reports: ['warning waitlist_growing (mail) 85..120'],
  },
];

const judged =
  (result: number, span: readonly [number, number]): Values =>
  minute =>
    minute >= span[0] && minute < span[1] ? result : 0;
const SCHEDULES: readonly SituationCase[] = [
  {
    name: 'a nightly job does not start',
    input: {
      'missed nightly': from(2 * HOUR, 1),
      'started nightly': from(9 * HOUR, 32_400, -23 * 3600),
      'judged nightly': judged(1, [2 * HOUR, 9 * HOUR]),
    },
    minutes: 14 * HOUR,
    reports: ['warning schedule_missed (nightly) 120..122 – 540..602'],
  },
];

export const queues: readonly SituationCase[] = [...GROWTH, ...QUEUE, ...WAITLISTS, ...SCHEDULES];
