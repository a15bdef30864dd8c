/** Problems of dead letters, flow-control keys, queues, schedules and workflow runs: see problem.ts. */
import { ago, flat, from, type Input, until, type Values } from './course.ts';
import { ON_DETECTION, ONE, type ProblemCase } from './problem.ts';

const handled: Input = { removed: flat(9), expired: flat(3) };
const WAITING = 'waiting mail';

/** A counter that starts at `before` and increases by one, `perHour` times an hour. */
const trickle =
  (perHour: number, before: number): Values =>
  minute =>
    before + Math.floor((minute * perHour) / 60);

const DEAD_LETTERS: readonly ProblemCase[] = [
  {
    kind: 'dlq_first_entry',
    what: 'warning dlq_first_entry',
    input: { dead: from(10, 1) },
    at: [10, 11],
    below: {
      'more entries in a queue that was not empty': { input: { dead: minute => 1 + minute } },
      'entries in the first read': { input: { dead: flat(7) } },
    },
    recovery: { dead: flat(0) },
    memory: 62,
    exempt: { 'unreadable rows': 'counts unreadable rows', 'low traffic': ONE, 'lost store': ON_DETECTION },
  },
  {
    kind: 'dlq_growing',
    what: 'warning dlq_growing',
    input: { dead: minute => 100 + 6 * Math.max(0, minute - 30) },
    at: [35, 38],
    below: {
      'one more an hour in a large queue': { input: { dead: trickle(1, 5000) } },
      'a step that is small relative to the queue': { input: { dead: from(30, 329, 280) } },
      'four in total': { input: { dead: minute => Math.min(4, Math.floor(minute / 15)) } },
      'a large queue of constant size': { input: { dead: flat(900) } },
      'a decrease': { input: { dead: minute => 900 - minute } },
      'retries every ten minutes': { input: { dead: minute => 1000 + 8 * (minute % 10) } },
      '200 entries are retried and fail again': { input: { dead: minute => (minute >= 30 && minute < 50 ? 0 : 200) } },
    },
    recovery: { dead: flat(0) },
    memory: 20,
    exempt: { 'unreadable rows': 'counts unreadable rows' },
  },
  {
    kind: 'dlq_expiring',
    what: 'critical dlq_expiring',
    // The oldest entry is removed shortly before it expires.
    input: { dead: flat(5), oldest: minute => Math.max(60, 60 * minute - 9990), retention: flat(10_000), ...handled },
    at: [149, 151],
    below: {
      '80 % of the retention': { input: { dead: flat(5), oldest: ago(8000), retention: flat(10_000), ...handled } },
      'operators let most entries expire': {
        input: {
          dead: flat(5),
          oldest: ago(9999),
          retention: flat(10_000),
          removed: flat(3),
          expired: minute => 3 + Math.floor(minute / 10),
        },
      },
    },
    recovery: { dead: flat(0), retention: flat(10_000) },
    memory: 2,
    exempt: { 'low traffic': ONE },
  },
  {
    kind: 'dlq_old',
    what: 'warning dlq_old',
    input: { dead: flat(5), oldest: ago(86_460) },
    at: [15, 17],
    below: {
      'a day': { input: { dead: flat(5), oldest: ago(86_400) } },
      'less than 15 minutes': { input: { dead: flat(5), oldest: m => 60 * m - (m < 15 ? 86_460 : 60) } },
    },
    recovery: { dead: flat(0) },
    memory: 2,
  },
  {
    kind: 'dlq_nearly_full',
    what: 'warning dlq_nearly_full',
    input: { dead: flat(81), most: flat(100) },
    at: [15, 17],
    below: {
      'four fifths': { input: { dead: flat(80), most: flat(100) } },
      'less than 15 minutes': { input: { dead: until(15, 99), most: flat(100) } },
      'an unknown plan': { input: { dead: flat(999) } },
    },
    recovery: { dead: flat(0), most: flat(100) },
    memory: 2,
    exempt: { 'unreadable rows': 'counts unreadable rows' },
  },
  {
    kind: 'callbacks_stuck',
    what: 'warning callbacks_stuck',
    input: { suspected: flat(1) },
    at: [15, 17],
    below: { 'less than 15 minutes': { input: { suspected: until(15, 1) } } },
    recovery: { suspected: flat(0) },
    memory: 4,
  },
];

const KEYS: readonly ProblemCase[] = [
  {
    kind: 'waitlist_growing',
    what: 'warning waitlist_growing (mail)',
    input: { [WAITING]: minute => 101 + 10 * minute },
    at: [24, 85],
    below: {
      'a hundred': { input: { [WAITING]: minute => Math.min(100, minute) } },
      'a decrease': { input: { [WAITING]: minute => Math.max(0, 5000 - minute) } },
      'one more a minute on a long waitlist': { input: { [WAITING]: minute => 5000 + minute } },
      'a waitlist that is filled and emptied': { input: { [WAITING]: minute => 100 + 100 * (minute % 50) } },
      'a paused key': { input: { [WAITING]: minute => 101 + 10 * minute, 'paused mail': flat(1) } },
    },
    recovery: { [WAITING]: flat(0) },
    memory: 17,
    regained: 80,
  },
  {
    kind: 'waitlist_stalled',
    what: 'warning waitlist_stalled (mail)',
    input: { [WAITING]: flat(5), 'full mail': flat(1) },
    at: [38, 42],
    below: {
      'a change now and then': { input: { [WAITING]: minute => 5 + (Math.floor(minute / 25) % 2) } },
      'a paused key': { input: { [WAITING]: flat(5), 'paused mail': flat(1) } },
      'a daily rate that is used up': { input: { [WAITING]: flat(5), 'limited mail': flat(1) } },
      'half an hour': { input: { [WAITING]: until(38, 5) } },
      'a waitlist that is not read any more': {
        input: { [WAITING]: m => Math.min(20, m) },
        dark: [[21, 9999, 'flow_control']],
      },
    },
    recovery: { [WAITING]: flat(0) },
    memory: 2,
    regained: 45,
  },
  {
    kind: 'account_full',
    what: 'warning account_full',
    input: { [WAITING]: minute => 5 + (minute % 3), running: flat(100) },
    at: [15, 17],
    below: {
      'one slot is free': { input: { [WAITING]: minute => 5 + (minute % 3), running: flat(99) } },
      'less than 15 minutes': { input: { [WAITING]: minute => 5 + (minute % 3), running: until(14, 100) } },
      'nothing waits': { input: { [WAITING]: flat(0), running: flat(100) } },
    },
    recovery: { [WAITING]: flat(0), running: flat(3) },
    memory: 17,
  },
  {
    kind: 'paused_with_backlog',
    what: 'warning paused_with_backlog (mail)',
    input: { [WAITING]: minute => 3 + (minute % 2), 'paused mail': flat(1) },
    at: [1, 2],
    below: { 'an empty waitlist': { input: { [WAITING]: flat(0), 'paused mail': flat(1) } } },
    recovery: { [WAITING]: flat(0), 'paused mail': flat(0) },
    memory: 2,
  },
];

const judged = (result: number): Values => from(30, result);
const SCHEDULES: readonly ProblemCase[] = [
  {
    kind: 'schedule_missed',
    what: 'warning schedule_missed (nightly)',
    input: { 'missed nightly': from(30, 1), 'started nightly': flat(0), 'judged nightly': judged(1) },
    ofLog: true,
    at: [30, 31],
    below: {
      'an earlier miss': {
        input: { 'missed nightly': flat(7), 'started nightly': flat(0), 'judged nightly': flat(0) },
      },
    },
    recovery: { 'missed nightly': flat(0), 'started nightly': ago(60), 'judged nightly': flat(0) },
    memory: 62,
    exempt: { 'low traffic': ONE, 'lost store': ON_DETECTION, 'blind hour': ON_DETECTION, 'blind day': ON_DETECTION },
  },
  {
    kind: 'schedule_late',
    what: 'warning schedule_late (nightly)',
    input: { 'late nightly': from(30, 1), 'done nightly': flat(0), 'judged nightly': judged(2) },
    ofLog: true,
    at: [30, 31],
    below: {
      'an earlier late start': {
        input: { 'late nightly': flat(7), 'done nightly': flat(0), 'judged nightly': flat(0) },
      },
    },
    recovery: { 'late nightly': flat(0), 'done nightly': ago(60), 'judged nightly': flat(0) },
    memory: 62,
    exempt: { 'low traffic': ONE, 'lost store': ON_DETECTION, 'blind hour': ON_DETECTION, 'blind day': ON_DETECTION },
  },
];

const ACTIVE: Input = { 'flopped hourly': flat(0) };

const LISTED: readonly ProblemCase[] = [
  {
    kind: 'schedule_failing',
    what: 'warning schedule_failing (hourly)',
    input: { 'flopped hourly': flat(1) },
    at: [0, 2],
    below: { 'a run that succeeded': { input: ACTIVE } },
    recovery: ACTIVE,
    memory: 2,
    exempt: { 'low traffic': ONE },
  },
  {
    kind: 'schedule_paused',
    what: 'warning schedule_paused (hourly)',
    input: { 'halted hourly': flat(-86_400) },
    at: [0, 2],
    below: { 'less than a day': { input: { 'halted hourly': flat(0) } } },
    recovery: ACTIVE,
    memory: 2,
    exempt: { 'low traffic': ONE },
  },
  {
    kind: 'schedule_unexpected',
    what: 'warning schedule_unexpected (hourly)',
    input: { 'extra hourly': ago(60) },
    at: [0, 2],
    below: { 'more than an hour ago': { input: { 'extra hourly': ago(3700) } } },
    recovery: ACTIVE,
    memory: 2,
    exempt: { 'low traffic': ONE },
  },
  {
    kind: 'schedule_gone',
    what: 'warning schedule_gone (hourly)',
    input: { 'gone hourly': flat(0) },
    at: [0, 2],
    below: { 'a listed schedule': { input: ACTIVE } },
    recovery: ACTIVE,
    memory: 2,
    exempt: { 'low traffic': ONE },
  },
  {
    kind: 'run_stuck',
    what: 'warning run_stuck',
    input: { ran: flat(0) },
    at: [60, 62],
    below: { 'less than an hour': { input: { ran: ago(3500) } } },
    recovery: {},
    memory: 2,
    exempt: { 'low traffic': ONE },
  },
];

const QUEUES: readonly ProblemCase[] = [
  {
    kind: 'queue_paused',
    what: 'warning queue_paused (mail)',
    input: { 'lag mail': flat(3), 'held mail': flat(1), 'sent mail': ago(60) },
    at: [0, 2],
    below: {
      'an empty queue': { input: { 'lag mail': flat(0), 'held mail': flat(1), 'sent mail': ago(60) } },
      'a long queue': { input: { 'lag mail': flat(5000), 'held mail': flat(0), 'sent mail': ago(60) } },
    },
    recovery: { 'lag mail': flat(3), 'held mail': flat(0), 'sent mail': ago(60) },
    memory: 2,
    exempt: { 'low traffic': ONE },
  },
  {
    kind: 'queue_blocked',
    what: 'warning queue_blocked (mail)',
    input: { 'lag mail': flat(3), 'held mail': flat(0), 'sent mail': flat(0) },
    at: [60, 63],
    below: {
      'a delivery every half hour': {
        input: { 'lag mail': flat(3), 'held mail': flat(0), 'sent mail': minute => 1800 * Math.floor(minute / 30) },
      },
      'an empty queue': { input: { 'lag mail': flat(0), 'held mail': flat(0), 'sent mail': flat(0) } },
      'a paused queue without waiting messages': {
        input: { 'lag mail': flat(0), 'held mail': flat(1), 'sent mail': flat(0) },
      },
      'a queue whose messages the log does not list': { input: { 'lag mail': flat(3), 'held mail': flat(0) } },
      'a message after a long pause': {
        input: {
          'lag mail': minute => (minute >= 50 && minute < 79 ? 1 : 0),
          'held mail': flat(0),
          'sent mail': until(79, 0, 4740),
        },
      },
    },
    recovery: { 'lag mail': flat(3), 'held mail': flat(0), 'sent mail': ago(60) },
    memory: 2,
    regained: 65,
    exempt: { 'low traffic': ONE },
  },
];

/** The management API is read in a separate round and is not part of the readable service. */
const OTHER_SOURCE = 'is not read from the service';
const ofPlan = { 'unreadable rows': OTHER_SOURCE, 'blind hour': OTHER_SOURCE, 'blind day': OTHER_SOURCE } as const;

const PLAN: readonly ProblemCase[] = [
  {
    kind: 'quota_ending',
    what: 'warning quota_ending',
    input: { quota: flat(1000), used: minute => 500 + Math.floor(minute / 10) },
    at: [60, 62],
    below: {
      'less than half': { input: { quota: flat(1000), used: flat(499) } },
      'enough for the day': { input: { quota: flat(1000), used: minute => Math.floor(minute * 0.69) } },
    },
    recovery: { quota: flat(1000), used: flat(0) },
    memory: 62,
    exempt: { ...ofPlan, 'low traffic': ONE, 'first hour': 'the rate of the day counts' },
  },
  {
    kind: 'account_suspended',
    what: 'warning account_suspended',
    input: { suspended: flat(1) },
    at: [0, 2],
    below: { 'an active account': { input: { suspended: flat(0) } } },
    recovery: { suspended: flat(0) },
    memory: 2,
    exempt: { ...ofPlan, 'low traffic': ONE },
  },
  {
    kind: 'plan_changed',
    what: 'info plan_changed',
    input: { moved: flat(0) },
    at: [0, 2],
    below: { 'more than a day ago': { input: { moved: flat(-1441) } } },
    recovery: { moved: flat(-9999) },
    memory: 2,
    exempt: { ...ofPlan, 'low traffic': ONE },
  },
  {
    kind: 'dlq_size_differs',
    what: 'info dlq_size_differs',
    input: { dead: flat(5), counted: flat(16) },
    at: [60, 63],
    below: {
      'ten more': { input: { dead: flat(5), counted: flat(15) } },
      'less than an hour': { input: { dead: flat(5), counted: until(59, 16, 5) } },
    },
    recovery: { dead: flat(5), counted: flat(5) },
    memory: 2,
    regained: 65,
    exempt: { ...ofPlan, 'low traffic': ONE },
  },
];

export const queueProblems: readonly ProblemCase[] = [
  ...DEAD_LETTERS,
  ...KEYS,
  ...QUEUES,
  ...SCHEDULES,
  ...LISTED,
  ...PLAN,
];
