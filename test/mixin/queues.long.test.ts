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
/** Interval for tests of many hours (minutes). It must be shorter than the lookback of Prometheus, which is five minutes. */
const COARSE = { step: 4 };

const rounds = allRounds.filter(({ collector }) => collector === 'dlq' || collector === 'events');
const sees = (input: Input): Input => replica({ ...health(rounds), ...input });
const size = (values: Values) => sees({ [DLQ]: values });

/** A queue with `before` entries to which `by` entries are added every `every` minutes, from minute 120. */
const growing = (before: number, by: number, every: number) =>
  size(minute => before + by * Math.max(0, Math.floor((minute - 2 * HOUR) / every)));

/** Minutes between which reads fail. Entries are added during that time. */
const DARK = { from: 60, to: 260 };
const dark = (before: number, added: number) =>
  replica({
    ...health(rounds, DARK),
    ...unseen(course({ [DLQ]: flat(before) }, [100, { [DLQ]: flat(before + added) }]), DARK),
  });

/** Operators let almost all entries expire: 60 expire every hour, and the oldest one always expires in ten minutes. */
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
    name: 'seven more a minute in a queue of 642 fire within ten minutes',
    input: growing(642, 7, 1),
    minutes: 4 * HOUR,
    queries: [neverFired(GROWING, 122), fires(GROWING, 130), fires(GROWING, 4 * HOUR)],
  },
  {
    name: '60 more every hour fire at once and continuously',
    input: growing(1440, 60, HOUR),
    minutes: 12 * HOUR,
    queries: [neverFired(GROWING, 179), ...[3, 4, 6, 9, 12].map(hour => fires(GROWING, hour * HOUR + 3))],
  },
  {
    name: 'twenty more every twenty minutes fire within an hour',
    input: growing(100, 20, 20),
    minutes: 12 * HOUR,
    queries: [fires(GROWING, 3 * HOUR), fires(GROWING, 9 * HOUR)],
  },
  {
    ...COARSE,
    name: 'eight more an hour in a queue of three fire within an hour and for half a day',
    input: growing(3, 1, 7.5),
    minutes: LONG,
    queries: [fires(GROWING, 3 * HOUR), fires(GROWING, 8 * HOUR), fires(GROWING, 12 * HOUR)],
  },
  {
    name: '300 more an hour in a queue of 642 fire within the hour',
    input: growing(642, 5, 1),
    minutes: 4 * HOUR,
    queries: [fires(GROWING, 3 * HOUR), fires(GROWING, 4 * HOUR)],
  },
  {
    ...COARSE,
    name: 'a daily peak from twenty to forty over six hours is quiet',
    input: size(minute => 20 + Math.round(20 * Math.max(0, 1 - Math.abs((minute % (24 * HOUR)) / (6 * HOUR) - 2)))),
    minutes: 40 * HOUR,
    queries: [neverFired(GROWING, 40 * HOUR)],
  },
  {
    ...COARSE,
    name: 'one more an hour in a queue of 5,000 is quiet',
    input: growing(5000, 1, HOUR),
    minutes: LONG,
    queries: [neverFired(GROWING, LONG)],
  },
  {
    ...COARSE,
    name: 'growth resolves when no more entries are added',
    input: size(minute => 100 + Math.min(200, Math.max(0, minute - 120))),
    minutes: LONG,
    queries: [fires(GROWING, 4 * HOUR), isQuietFrom(GROWING, 8 * HOUR, LONG)],
  },
  {
    name: 'first entries during blindness fire once when it ends',
    input: dark(0, 3),
    minutes: 9 * HOUR,
    queries: [
      neverFired(FIRST, 259),
      fires(FIRST, 262),
      isQuietFrom(FIRST, 350, 540),
      // There are too few entries to count as growth.
      neverFired(GROWING, 540),
    ],
  },
  {
    name: 'many more entries during blindness fire when it ends',
    input: dark(10, 500),
    minutes: 9 * HOUR,
    queries: [neverFired(GROWING, 259), fires(GROWING, 265), neverFired(FIRST, 540)],
  },
  {
    name: 'no entries during blindness are quiet',
    input: dark(3, 0),
    minutes: 9 * HOUR,
    queries: [neverFired(GROWING, 540)],
  },
  {
    name: 'entries that operators let expire are quiet',
    input: sees(leftToExpire),
    minutes: 6 * HOUR,
    queries: [neverFired(EXPIRING, 6 * HOUR)],
  },
  {
    name: 'entries that operators normally remove fire',
    input: sees({ ...leftToExpire, [left('removed')]: minute => 90 + 90 * Math.floor(minute / HOUR) }),
    minutes: 6 * HOUR,
    queries: [fires(EXPIRING, 6 * HOUR)],
  },
  {
    name: 'first entries of a queue without removals or expiries fire',
    input: sees({ ...leftToExpire, [left('expired')]: flat(0), [left('removed')]: flat(0) }),
    minutes: 2 * HOUR,
    queries: [fires(EXPIRING, HOUR)],
  },
  {
    name: 'a nearly full queue resolves when only four rows and an unreadable one remain',
    input: sees({
      [DLQ]: minute => (minute < HOUR ? 1800 : 4),
      'delivery_account_limit{limit="dlq_size"}': flat(2000),
      'delivery_collector_data_complete{collector="dlq",round="full"}': minute => Number(minute < HOUR),
      'delivery_collector_data_complete{collector="dlq",round="new"}': minute => Number(minute < HOUR),
    }),
    minutes: 3 * HOUR,
    queries: [fires(FULL, HOUR - 1), isQuiet(FULL, HOUR + 2)],
  },
  {
    name: 'a nightly job without a start fires until it starts',
    input: sees({
      'delivery_schedule_missed_total{schedule="nightly"}': minute => Number(minute >= 2 * HOUR),
      [STARTED]: minute => (minute < 9 * HOUR ? -23 * 3600 : 32_400),
    }),
    minutes: 14 * HOUR,
    queries: [fires(MISSED, 2 * HOUR), fires(MISSED, 8 * HOUR), isQuiet(MISSED, 10 * HOUR)],
  },
];

describe.skipIf(!requireProgram('promtool'))('queue alerts over hours (promtool test rules)', () => {
  // Combining the tests into one takes the least time.
  it('queue alerts fire and resolve within the expected time', () => {
    expect(testRules([GROWING, FIRST, EXPIRING, FULL, MISSED], asJobs(tests))).toBe('');
  });
});
