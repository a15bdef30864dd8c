/** Situations of messages: rates, objectives, paused keys, an event log that stops, and an agent that was down. */

import { course, flat, from, hourly, type Input, rising, until } from './course.ts';
import { DAY, HOUR, type SituationCase } from './situation.ts';

const SLOWLY = 'may warning messages_failing_slowly';

const RATES: readonly SituationCase[] = [
  {
    name: '18 messages an hour, all failing',
    input: { failed: hourly(18) },
    minutes: 2 * HOUR,
    reports: ['critical messages_failing 33..62', SLOWLY],
  },
  {
    name: 'nine messages an hour, all failing',
    input: { failed: hourly(9) },
    minutes: 7 * HOUR,
    reports: ['critical messages_failing 66..420', SLOWLY],
  },
  {
    name: 'eight messages an hour, all failing: ten within six hours',
    input: { failed: hourly(8) },
    minutes: 7 * HOUR,
    reports: ['critical messages_failing 75..420', SLOWLY],
  },
  {
    name: 'one message an hour, all failing',
    input: { failed: hourly(1) },
    minutes: DAY + HOUR,
    reports: ['warning messages_failing_slowly 600..1500'],
  },
  {
    name: '4.9 % fail for a day',
    input: { failed: rising(49), delivered: rising(951) },
    minutes: DAY + HOUR,
    reports: ['warning messages_failing_slowly 15..1500'],
  },
  {
    name: '4.9 % fail for a day after a day without failures',
    input: course({ delivered: rising(1000) }, [DAY, { failed: rising(49), delivered: rising(951) }]),
    minutes: 2 * DAY + HOUR,
    reports: ['warning messages_failing_slowly 1700..2440'],
  },
  {
    name: 'half of all messages hang for hours',
    input: { delivered: rising(5), overdue: rising(5), stuck: rising(5), flying: rising(5) },
    minutes: 4 * HOUR,
    reports: ['critical messages_late 5..62'],
  },
  {
    name: 'all messages hang',
    input: { overdue: rising(1), stuck: rising(1), flying: rising(1) },
    minutes: 2 * HOUR,
    reports: ['critical deliveries_stalled 38..62', 'may critical messages_late'],
  },
  {
    name: 'all messages hang and no more are published',
    input: { overdue: rising(1, 45), stuck: rising(1, 45), flying: rising(1, 45) },
    minutes: 4 * HOUR,
    reports: ['critical deliveries_stalled 38..62', 'may critical messages_late'],
  },
  {
    name: 'all messages hang and no more are published, until they are delivered',
    input: { overdue: rising(2, 60), stuck: until(120, 60), flying: until(120, 60), delivered: from(120, 60) },
    minutes: 3 * HOUR,
    reports: ['critical deliveries_stalled 38..60 – 120..122', 'may critical messages_late'],
  },
  {
    name: 'all messages hang on a key until an operator pauses it',
    input: {
      overdue: rising(2, 60),
      stuck: rising(2, 60),
      flying: rising(2, 60),
      'waiting mail': rising(2, 60),
      'paused mail': from(90, 1),
    },
    minutes: 3 * HOUR,
    only: 'deliveries_stalled',
    reports: ['critical deliveries_stalled 38..62 – 90..92'],
  },
  {
    name: 'all stuck messages are cancelled, and five are delayed until tomorrow',
    input: {
      overdue: rising(2, 120),
      stuck: minute => (minute < HOUR ? 2 * minute : 0),
      flying: minute => (minute < HOUR ? 5 + 2 * minute : 5),
    },
    minutes: 3 * HOUR,
    reports: ['critical deliveries_stalled 38..59 – 60..120', 'may critical messages_late'],
  },
  {
    name: '40 fail within three minutes of an hour of 1,200 messages',
    input: { failed: minute => Math.min(40, 14 * Math.max(0, minute - 8 * HOUR)), delivered: rising(20) },
    minutes: 11 * HOUR,
    reports: [],
  },
  {
    name: 'four of ten messages fail for half an hour',
    input: { failed: minute => 4 * Math.min(30, Math.max(0, minute - 6 * HOUR)), delivered: rising(10) },
    minutes: 7 * HOUR,
    reports: ['critical messages_failing 382..390 – 395..410', SLOWLY],
  },
  {
    name: 'half of all messages fail for two hours after a day without failures',
    input: { failed: minute => 5 * Math.min(2 * HOUR, Math.max(0, minute - 25 * HOUR)), delivered: rising(5) },
    minutes: 36 * HOUR,
    reports: ['critical messages_failing 1502..1560 – 1625..1680'],
  },
  {
    name: 'messages fail after their target: 15 % fail and 15 % are late',
    input: { failed: rising(3), delivered: rising(17), overdue: rising(3) },
    minutes: 2 * HOUR,
    reports: ['critical messages_failing 5..62', 'may critical messages_late', SLOWLY],
  },
  {
    name: 'a night without messages after a few failures',
    input: { failed: rising(1, 5), delivered: rising(20, 400) },
    minutes: 8 * HOUR,
    reports: [],
  },
];

const OBJECTIVES: readonly SituationCase[] = [
  {
    name: 'an objective of 90 % with 12 % failing',
    objectives: { delivered: 0.9 },
    input: { failed: rising(12), delivered: rising(88) },
    minutes: 3 * DAY + HOUR,
    reports: ['warning messages_failing_slowly 15..4380'],
  },
  {
    name: 'an objective of 90 % with all failing',
    objectives: { delivered: 0.9 },
    input: { failed: rising(12) },
    minutes: 2 * HOUR,
    reports: ['critical messages_failing 3..62', SLOWLY],
  },
  {
    name: 'an objective of 75 % with all failing',
    objectives: { delivered: 0.75 },
    input: { failed: rising(12) },
    minutes: 2 * HOUR,
    reports: ['critical messages_failing 3..62', SLOWLY],
  },
  {
    name: 'an objective of 99.9 % with 2 % failing',
    objectives: { delivered: 0.999 },
    input: { failed: rising(2), delivered: rising(98) },
    minutes: 2 * HOUR,
    reports: ['critical messages_failing 5..62', SLOWLY],
  },
  {
    name: 'an objective over seven days with 4 % failing',
    objectives: { window: 7 * DAY * 60_000 },
    input: { failed: rising(4), delivered: rising(96) },
    minutes: 2 * HOUR,
    reports: ['critical messages_failing 5..62', SLOWLY],
  },
];

const calm: Input = { delivered: rising(2) };
/** Failures between the hours 2 and 4. */
const failing = course(calm, [2 * HOUR, { failed: rising(20), delivered: rising(20) }], [4 * HOUR, calm]);

const AWAY: readonly SituationCase[] = [
  {
    name: 'half of all messages fail for two hours',
    input: failing,
    minutes: 8 * HOUR,
    reports: ['critical messages_failing 122..135 – 245..280', SLOWLY],
  },
  {
    name: 'an agent was down for a day and counts the failures of that day at once',
    input: failing,
    minutes: DAY + 4 * HOUR,
    down: [[HOUR, DAY]],
    reports: [],
  },
  {
    name: 'an agent was down for a day and reads the failures of that day for a quarter of an hour',
    input: failing,
    minutes: DAY + 4 * HOUR,
    down: [[HOUR, DAY]],
    catchingUp: [DAY, DAY + 15],
    reports: ['may critical data_stale (events) 1442..1446 – 1455'],
  },
  {
    name: 'reads fail for a day in which messages fail',
    input: failing,
    minutes: DAY + 4 * HOUR,
    dark: [[HOUR, DAY]],
    reports: ['critical service_unavailable 61..64 – 1440..1441'],
  },
  {
    name: 'reads fail for an hour in which messages fail for half an hour',
    input: course(calm, [70, { failed: rising(20), delivered: rising(20) }], [100, calm]),
    minutes: 4 * HOUR,
    dark: [[HOUR, 2 * HOUR]],
    reports: ['critical service_unavailable 61..64 – 120..121'],
  },
  {
    name: 'reads fail for an hour before messages begin to fail',
    input: course(calm, [130, { failed: rising(20), delivered: rising(20) }]),
    minutes: 4 * HOUR,
    dark: [[HOUR, 2 * HOUR]],
    reports: ['critical service_unavailable 61..64 – 120..121', 'critical messages_failing 132..140', SLOWLY],
  },
  {
    name: 'an agent restarts while messages begin to fail',
    input: course(calm, [2 * HOUR, { failed: rising(20), delivered: rising(20) }]),
    minutes: 4 * HOUR,
    down: [[122, 124]],
    reports: ['critical messages_failing 124..130', SLOWLY],
  },
  {
    name: 'a new store in an idle night after half of all messages failed',
    input: { failed: minute => 5 * Math.min(120, minute), delivered: minute => 5 * Math.min(120, minute) },
    minutes: 4 * HOUR,
    down: [[120, 122]],
    lost: [122],
    reports: ['critical messages_failing 5..62 – 122', 'may warning messages_failing_slowly'],
  },
  {
    name: 'an hour without reads in which few messages are overdue in each half hour',
    input: { overdue: minute => Math.floor(minute / 4), delivered: from(0, 0) },
    minutes: 7 * HOUR,
    down: [[HOUR, 5 * HOUR]],
    catchingUp: [5 * HOUR, 5 * HOUR + 15],
    reports: ['may critical data_stale (events) 302..306 – 315'],
  },
];

/** A counter of an idle account that is one lower after a backup of the store has been restored. */
const restored = (value: number) => (minute: number) => (minute < HOUR ? value : value - 1);
const RESTORED: readonly SituationCase[] = [1, 10].map(downFor => ({
  name: `a restored backup lowers every counter by one; no agent runs for ${downFor} min`,
  input: {
    created: restored(1000),
    active: restored(1100),
    retry: restored(100),
    delivered: restored(990),
    error: restored(110),
    failed: restored(10),
    overdue: restored(12),
    gaps: restored(3),
    entered: restored(10),
    removed: restored(5),
    expired: restored(5),
    'missed nightly': restored(7),
    'late nightly': restored(7),
    'judged nightly': flat(0),
  },
  minutes: 4 * HOUR,
  down: [[HOUR, HOUR + downFor]],
  restored: [HOUR + downFor],
  reports: [],
}));

const WAITING = 'waiting mail';
/** Ten messages a minute join the waitlist of a key that is paused between the hours 1 and 8. */
const night: Input = {
  delivered: rising(10),
  'paused mail': minute => Number(minute >= HOUR && minute < 8 * HOUR),
  [WAITING]: minute => (minute < 8 * HOUR ? 10 * Math.max(0, minute - HOUR) : Math.max(0, 4200 - 100 * (minute - 480))),
  overdue: minute => 10 * Math.max(0, Math.min(minute, 8 * HOUR) - HOUR - 5),
};

const OTHERS: readonly SituationCase[] = [
  {
    name: 'a key is paused for a night',
    input: night,
    minutes: 10 * HOUR,
    reports: ['warning paused_with_backlog (mail) 60..63 – 480..482'],
  },
  {
    name: 'a destination with two messages an hour, all failing for a day',
    input: { 'failed api.example.com': hourly(2), 'delivered mail.example.com': rising(5) },
    minutes: DAY,
    reports: ['warning destination_failing (api.example.com) 150..1440'],
  },
  {
    name: 'a failing destination without further attempts, as after its removal',
    input: { 'error api.example.com': rising(2, 40), 'delivered api.example.com': flat(0) },
    minutes: 3 * HOUR,
    reports: ['warning destination_failing (api.example.com) 5..20 – 80..120'],
  },
  {
    name: 'failed attempts during an outage of reads appear at once when it ends',
    input: { 'error api.example.com': minute => 2 * Math.min(26, Math.max(0, minute - 64)) },
    minutes: 3 * HOUR,
    dark: [[HOUR, 2 * HOUR]],
    reports: ['critical service_unavailable 61..64 – 120..121'],
  },
  {
    name: 'the event log has no new event although a waitlist changes',
    input: { newest: flat(0), [WAITING]: minute => 5 + (minute % 3) },
    minutes: HOUR,
    reports: ['warning event_log_behind 20..60'],
  },
  {
    name: 'the event log stops while messages are in flight and a waitlist changes',
    input: {
      newest: minute => 60 * Math.min(minute, HOUR) - 15,
      delivered: rising(10, 10 * HOUR),
      overdue: minute => 3 * Math.min(10, Math.max(0, minute - HOUR - 5)),
      flying: flat(30),
      stuck: minute => 3 * Math.min(10, Math.max(0, minute - HOUR - 5)),
      [WAITING]: minute => 5 + (minute % 4),
    },
    minutes: 4 * HOUR,
    reports: ['warning event_log_behind 78..85'],
  },
];

export const messages: readonly SituationCase[] = [...RATES, ...OBJECTIVES, ...AWAY, ...RESTORED, ...OTHERS];
