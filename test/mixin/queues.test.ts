import { describe, expect, it } from 'vitest';
import { requireProgram } from '../support/prometheus.ts';
import { flat, type Input, type Values } from './cases/case.ts';
import { allRounds, course, health, unseen } from './course.ts';
import { asJobs, fires, isQuiet, isQuietFrom, neverFired, type RuleTest, replica, testRules } from './promtool.ts';

const DLQ = 'delivery_dlq_messages';
const left = (reason: string) => `delivery_dlq_left_total{reason="${reason}"}`;
const STARTED = 'delivery_schedule_last_started_timestamp_seconds{schedule="nightly"}';
const HOUR = 60;
const LONG = 14 * HOUR;
/** Of what takes many hours a sample every four minutes is as good as four: less than the five that Prometheus looks back. */
const COARSE = { step: 4 };

const rounds = allRounds.filter(({ collector }) => collector === 'dlq' || collector === 'events');
const sees = (input: Input): Input => replica({ ...health(rounds), ...input });
const size = (values: Values) => sees({ [DLQ]: values });

/** So many entries at first, and from minute 120 on so many more every so many minutes. */
const growing = (before: number, by: number, every: number) =>
  size(minute => before + by * Math.max(0, Math.floor((minute - 2 * HOUR) / every)));

/** Not read from minute 60 until minute 260, in which entries come. */
const DARK = { from: 60, to: 260 };
const dark = (before: number, came: number) =>
  replica({
    ...health(rounds, DARK),
    ...unseen(course({ [DLQ]: flat(before) }, [100, { [DLQ]: flat(before + came) }]), DARK),
  });

/** Operators leave them all to expire after three days: some do every hour. */
const leftToExpire: Input = {
  delivery_dlq_oldest_entered_timestamp_seconds: minute => 60 * minute - 3 * 86_400 + 600,
  delivery_dlq_retention_seconds: flat(3 * 86_400),
  [left('expired')]: minute => 60 + 60 * Math.floor(minute / HOUR),
  [left('removed')]: flat(2),
};

const [GROWING, FIRST, EXPIRING] = ['DeliveryDlqGrowing', 'DeliveryDlqFirstEntry', 'DeliveryDlqExpiringSoon'];
const MISSED = 'DeliveryScheduleMissed';
const FULL = 'DeliveryDlqNearlyFull';

const tests: readonly RuleTest[] = [
  {
    name: 'seven a minute where there are 642: within ten minutes',
    input: growing(642, 7, 1),
    minutes: 4 * HOUR,
    queries: [neverFired(GROWING, 122), fires(GROWING, 130), fires(GROWING, 4 * HOUR)],
  },
  {
    name: 'an hourly job that leaves 60: at once, and without an end between two',
    input: growing(1440, 60, HOUR),
    minutes: 12 * HOUR,
    queries: [neverFired(GROWING, 179), ...[3, 4, 6, 9, 12].map(hour => fires(GROWING, hour * HOUR + 3))],
  },
  {
    name: 'twenty every twenty minutes: within an hour',
    input: growing(100, 20, 20),
    minutes: 12 * HOUR,
    queries: [fires(GROWING, 3 * HOUR), fires(GROWING, 9 * HOUR)],
  },
  {
    ...COARSE,
    name: 'eight an hour where there are three: within an hour, and for half a day',
    input: growing(3, 1, 7.5),
    minutes: LONG,
    queries: [fires(GROWING, 3 * HOUR), fires(GROWING, 8 * HOUR), fires(GROWING, 12 * HOUR)],
  },
  {
    name: '300 an hour where there are 642: within the hour',
    input: growing(642, 5, 1),
    minutes: 4 * HOUR,
    queries: [fires(GROWING, 3 * HOUR), fires(GROWING, 4 * HOUR)],
  },
  {
    ...COARSE,
    name: 'twenty that become forty over six hours of each day, and are worked down again',
    input: size(minute => 20 + Math.round(20 * Math.max(0, 1 - Math.abs((minute % (24 * HOUR)) / (6 * HOUR) - 2)))),
    minutes: 40 * HOUR,
    queries: [neverFired(GROWING, 40 * HOUR)],
  },
  {
    ...COARSE,
    name: 'one more an hour where there are 5,000',
    input: growing(5000, 1, HOUR),
    minutes: LONG,
    queries: [neverFired(GROWING, LONG)],
  },
  {
    ...COARSE,
    name: 'it ends when no more come',
    input: size(minute => 100 + Math.min(200, Math.max(0, minute - 120))),
    minutes: LONG,
    queries: [fires(GROWING, 4 * HOUR), isQuiet(GROWING, 8 * HOUR), isQuietFrom(GROWING, 8 * HOUR, LONG)],
  },
  {
    name: 'the first come in the dark: told when it ends, once',
    input: dark(0, 3),
    minutes: 9 * HOUR,
    queries: [
      neverFired(FIRST, 259),
      fires(FIRST, 262),
      isQuietFrom(FIRST, 350, 540),
      // So few are no growth.
      neverFired(GROWING, 540),
    ],
  },
  {
    name: 'many come in the dark where there were some: told when it ends',
    input: dark(10, 500),
    minutes: 9 * HOUR,
    queries: [neverFired(GROWING, 259), fires(GROWING, 265), neverFired(FIRST, 540)],
  },
  { name: 'none in the dark', input: dark(3, 0), minutes: 9 * HOUR, queries: [neverFired(GROWING, 540)] },
  {
    name: 'dead letters that are left to expire are no emergency',
    input: sees(leftToExpire),
    minutes: 6 * HOUR,
    queries: [neverFired(EXPIRING, 6 * HOUR)],
  },
  {
    name: 'dead letters that are dealt with are one',
    input: sees({ ...leftToExpire, [left('removed')]: minute => 90 + 90 * Math.floor(minute / HOUR) }),
    minutes: 6 * HOUR,
    queries: [fires(EXPIRING, 6 * HOUR)],
  },
  {
    name: 'the first dead letters of a queue from which none was ever removed or expired are one',
    input: sees({ ...leftToExpire, [left('expired')]: flat(0), [left('removed')]: flat(0) }),
    minutes: 2 * HOUR,
    queries: [fires(EXPIRING, HOUR)],
  },
  {
    name: 'a nearly full queue is emptied but for one row that is unreadable: it is not nearly full',
    input: sees({
      [DLQ]: minute => (minute < HOUR ? 1800 : 4),
      delivery_account_max_dlq_size: flat(2000),
      'delivery_collector_data_complete{collector="dlq",round="full"}': minute => Number(minute < HOUR),
      'delivery_collector_data_complete{collector="dlq",round="new"}': minute => Number(minute < HOUR),
    }),
    minutes: 3 * HOUR,
    queries: [fires(FULL, HOUR), isQuiet(FULL, 2 * HOUR)],
  },
  {
    name: 'a nightly job did not start: until it has',
    input: sees({
      'delivery_schedule_missed_total{schedule="nightly"}': minute => Number(minute >= 2 * HOUR),
      [STARTED]: minute => (minute < 9 * HOUR ? -23 * 3600 : 32_400),
    }),
    minutes: 14 * HOUR,
    queries: [fires(MISSED, 2 * HOUR), fires(MISSED, 8 * HOUR), isQuiet(MISSED, 10 * HOUR)],
  },
];

describe.skipIf(!requireProgram('promtool'))('queues over hours, by promtool test rules', () => {
  // In one, because that costs the least.
  it('fire at their time, and end', () => {
    expect(testRules([GROWING, FIRST, EXPIRING, FULL, MISSED], asJobs(tests))).toBe('');
  });
});
