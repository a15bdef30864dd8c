/** Problems of messages: see problem.ts. */
import { ago, flat, from, type Input, rising, type Values } from './course.ts';
import { ON_DETECTION, ONE, type ProblemCase } from './problem.ts';

const ends = (failed: Values, delivered: Values): Input => ({ failed, delivered });
const late = (overdue: Values, delivered: Values): Input => ({ overdue, delivered });
const WAITING = 'waiting mail';
const [ERRORS, SUCCESSES] = ['error api.example.com', 'delivered api.example.com'] as const;

export const messageProblems: readonly ProblemCase[] = [
  {
    kind: 'messages_failing',
    what: 'critical messages_failing',
    input: ends(rising(3), rising(17)),
    ofLog: true,
    at: [5, 62],
    below: {
      '5.9 % fail': { input: ends(rising(59), rising(941)) },
      'nine fail': { input: ends(rising(1, 9), flat(0)) },
    },
    recovery: ends(flat(0), rising(20)),
    // The shorter window of a slower burn is half an hour.
    memory: 45,
  },
  {
    kind: 'messages_late',
    what: 'critical messages_late',
    input: late(rising(3), rising(17)),
    ofLog: true,
    at: [5, 62],
    below: {
      '5.9 % are late': { input: late(rising(59), rising(1000)) },
      'nine are late': { input: late(rising(1, 9), flat(0)) },
    },
    recovery: late(flat(0), rising(20)),
    // The shorter window of a slower burn is half an hour.
    memory: 45,
  },
  {
    kind: 'deliveries_stalled',
    what: 'critical deliveries_stalled',
    input: { overdue: rising(2), flying: rising(2) },
    ofLog: true,
    at: [38, 42],
    below: {
      'nine are late': { input: { overdue: rising(1, 9) } },
      'one ends now and then': { input: { overdue: rising(1), failed: minute => Math.floor(minute / 20) } },
      'old messages hang, whose ends the log may lack': {
        input: { overdue: flat(20), flying: flat(20), stuck: flat(20) },
      },
      'messages are delayed': { input: { created: rising(20), flying: rising(20) } },
    },
    recovery: { overdue: flat(0), delivered: rising(5) },
    memory: 2,
    regained: 45,
  },
  {
    kind: 'destination_failing',
    what: 'warning destination_failing (api.example.com)',
    input: { [ERRORS]: rising(2), [SUCCESSES]: rising(1), 'delivered mail.example.com': rising(100) },
    ofLog: true,
    at: [5, 32],
    below: {
      'one attempt in two': { input: { [ERRORS]: rising(2), [SUCCESSES]: rising(2) } },
      'nine attempts': { input: { [ERRORS]: rising(1, 9), [SUCCESSES]: flat(0) } },
      'destinations are unknown': { input: { error: rising(10), delivered: rising(1) } },
    },
    recovery: { [ERRORS]: flat(0), [SUCCESSES]: rising(5) },
    memory: 90,
  },
  {
    kind: 'event_log_gap',
    what: 'info event_log_gap',
    input: { gaps: from(30, 1) },
    ofLog: true,
    at: [30, 31],
    below: { 'an earlier gap': { input: { gaps: flat(7) } } },
    recovery: {},
    memory: 61,
    exempt: {
      'low traffic': ONE,
      'lost store': ON_DETECTION,
      'blind hour': ON_DETECTION,
      'blind day': ON_DETECTION,
      'catching up': 'ends after an hour',
    },
  },
  {
    kind: 'event_log_behind',
    what: 'warning event_log_behind',
    input: { newest: flat(0), entered: rising(1) },
    ofLog: true,
    at: [20, 22],
    below: {
      'the log is a quarter of an hour behind': { input: { newest: ago(900), entered: rising(1) } },
      'messages wait and none is attempted': { input: { newest: flat(0), entered: flat(3), [WAITING]: flat(5) } },
      'dead letters were added while the queue was unreadable': {
        input: { newest: flat(0), entered: from(40, 3) },
        dark: [[0, 40, 'dlq']],
      },
    },
    recovery: { newest: ago(20), entered: rising(1) },
    memory: 2,
  },
];
