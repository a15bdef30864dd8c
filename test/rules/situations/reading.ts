/** Situations in which the service cannot be read or the agent restarts repeatedly. */

import { course, flat, type Input, rising, until } from './course.ts';
import { problemCases } from './problems.ts';
import { FOREVER, HOUR, type SituationCase } from './situation.ts';

const calm: Input = { delivered: rising(2) };

/** The agent is killed at minute `start` and every `period` minutes, and starts again a minute later. */
const killedEvery = (period: number, start: number, until: number) =>
  Array.from({ length: Math.ceil((until - start) / period) }, (_, index): [number, number] => {
    const at = start + index * period;
    return [at, at + 1];
  });

const OUTAGES: readonly SituationCase[] = [
  {
    name: 'an outage of five minutes',
    input: calm,
    minutes: 30,
    dark: [[10, 15]],
    reports: ['critical service_unavailable 11..13 – 15..16'],
  },
  { name: 'an outage of a minute', input: calm, minutes: 30, dark: [[10, 11]], reports: [] },
  {
    name: 'two of three collectors fail',
    input: calm,
    minutes: HOUR,
    dark: [
      [10, 30, 'dlq'],
      [10, 30, 'events'],
    ],
    reports: ['critical data_stale (dlq) 11..16 – 12..31', 'critical data_stale (events) 11..13 – 12..31'],
  },
  {
    name: 'a collector fails, and the agent restarts',
    input: calm,
    minutes: HOUR,
    dark: [[10, FOREVER, 'dlq']],
    down: [[30, 32]],
    reports: ['critical data_stale (dlq) 11..16'],
  },
  {
    name: 'a round that no gauge depends on fails for an hour',
    input: calm,
    minutes: 2 * HOUR,
    dark: [[10, 70, 'events sweep']],
    reports: ['warning round_stale (events sweep) 25..45 – 70..72'],
  },
  {
    name: 'the token is rejected for an hour',
    input: { ...calm, token: minute => Number(minute >= 10 && minute < 70) },
    minutes: 2 * HOUR,
    reports: ['critical token_rejected 13..14 – 70..72'],
  },
  {
    name: 'reads fail and the agent restarts every five minutes',
    input: calm,
    minutes: 2 * HOUR,
    dark: [[10, FOREVER]],
    down: killedEvery(5, 12, 2 * HOUR),
    reports: ['critical service_unavailable 11..40'],
  },
  {
    name: 'the clock of the agent is set forward by an hour and back',
    input: { failed: rising(1, 5), delivered: rising(20), dead: flat(100), 'waiting mail': flat(0) },
    minutes: 4 * HOUR,
    clock: minute => (minute >= HOUR && minute < 2 * HOUR ? 3600 : 0),
    reports: ['warning clock_skew 62..64 – 120..125'],
  },
  {
    name: 'the clock of the agent is set back by an hour while messages fail and the queue grows',
    input: { failed: rising(3), delivered: rising(17), dead: minute => 100 + 6 * minute },
    minutes: 3 * HOUR,
    clock: minute => (minute >= HOUR ? -3600 : 0),
    reports: [
      'critical messages_failing 5..62',
      'may warning messages_failing_slowly',
      'warning dlq_growing 3..20',
      'warning clock_skew 62..64',
    ],
  },
];

/** Kinds that must end although the agent is killed every 25 minutes. */
const KILLED = [
  ...['messages_failing', 'messages_late', 'deliveries_stalled', 'dlq_growing', 'paused_with_backlog'],
  ...['dlq_old', 'token_rejected'],
];

const KILLS: readonly SituationCase[] = problemCases
  .filter(({ kind }) => KILLED.includes(kind))
  .map(({ kind, what, input, recovery, memory, at: [first, last] }) => {
    const period = 25;
    const end = Math.ceil((last + HOUR) / period) * period + 8;
    const minutes = end + 4 * HOUR;
    return {
      name: `${kind} while the agent is killed every 25 minutes`,
      input: course(input, [end, recovery]),
      minutes,
      down: killedEvery(period, last + 2, minutes),
      only: kind,
      reports: [`${what} ${first}..${last} – ${end}..${end + memory + HOUR}`],
    };
  });

const GROWN: SituationCase = {
  name: 'dlq_growing while the agent is killed every ten minutes',
  input: { dead: minute => (minute < 2 * HOUR ? 100 + 6 * Math.max(0, minute - 30) : 0) },
  minutes: 5 * HOUR,
  down: killedEvery(10, 38, 5 * HOUR),
  only: 'dlq_growing',
  reports: ['warning dlq_growing 35..38 – 120..240'],
};

const STARTS: readonly SituationCase[] = [
  { name: 'the first hour of an idle account', input: {}, minutes: 2 * HOUR, reports: [] },
  {
    name: 'the first hour of an account with old dead letters and waiting messages',
    input: {
      delivered: rising(10),
      failed: until(0, 0, 0),
      dead: flat(40),
      'waiting mail': minute => 20 + (minute % 7),
    },
    minutes: 2 * HOUR,
    reports: [],
  },
];

export const reading: readonly SituationCase[] = [...OUTAGES, ...KILLS, GROWN, ...STARTS];
