/** Problems of the agent and of its access to the service: see problem.ts. */
import { ago, flat, from, rising } from './course.ts';
import { ONE, type ProblemCase } from './problem.ts';

const OF_AGENT = 'counted by the agent, not by the service';
const ALWAYS = 'does not depend on reads of the service';

/** Problems that do not depend on complete reads of the service. */
const NOT_OF_SERVICE = {
  'blind hour': ALWAYS,
  'blind day': ALWAYS,
  'unreadable rows': ALWAYS,
  'catching up': ALWAYS,
} as const;

export const readingProblems: readonly ProblemCase[] = [
  {
    kind: 'token_rejected',
    what: 'critical token_rejected',
    input: { token: from(5, 1) },
    at: [8, 9],
    below: { 'a rotation of two minutes': { input: { token: m => Number(m >= 5 && m < 8) } } },
    recovery: { token: flat(0) },
    memory: 2,
    exempt: NOT_OF_SERVICE,
  },
  {
    kind: 'rate_limited',
    what: 'warning rate_limited',
    input: { 'requests rate_limited': rising(1), 'requests ok': rising(8) },
    at: [11, 16],
    below: {
      'one request in ten': { input: { 'requests rate_limited': rising(1), 'requests ok': rising(9) } },
      'four requests': { input: { 'requests rate_limited': rising(1, 4), 'requests ok': flat(0) } },
    },
    recovery: { 'requests rate_limited': flat(0), 'requests ok': rising(9) },
    memory: 32,
    exempt: { ...NOT_OF_SERVICE, 'lost store': OF_AGENT },
  },
  {
    kind: 'budget_low',
    what: 'warning budget_low',
    // From minute 67, requests are spent too fast: 67 % have been spent, but only 5 % of the day has passed.
    input: { budget: minute => Math.max(0, 1000 - 10 * minute) },
    at: [81, 84],
    below: { 'enough for the rest of the day': { input: { budget: minute => Math.max(340, 1000 - 10 * minute) } } },
    recovery: { budget: flat(1000) },
    memory: 2,
    exempt: { ...NOT_OF_SERVICE, 'first hour': 'depends on the time of day' },
  },
  {
    kind: 'rows_unreadable',
    what: 'warning rows_unreadable (dlq)',
    input: { 'rejected dlq': rising(4) },
    at: [6, 8],
    below: { 'rows of an earlier read': { input: { 'rejected dlq': flat(7) } } },
    recovery: { 'rejected dlq': flat(0) },
    memory: 2,
    exempt: { ...NOT_OF_SERVICE, 'low traffic': ONE },
  },
  {
    kind: 'breaker_open',
    what: 'warning breaker_open (errors)',
    input: { 'breaker errors': from(5, 1) },
    at: [5, 6],
    below: { 'a closed breaker': { input: { 'breaker errors': flat(0) } } },
    recovery: { 'breaker errors': flat(0) },
    memory: 2,
    exempt: { ...NOT_OF_SERVICE, 'lost store': 'the journal is not in the history' },
  },
  {
    kind: 'cancel_unresolved',
    what: 'critical cancel_unresolved (nightly)',
    input: { 'unresolved nightly': flat(0) },
    at: [35, 37],
    below: { 'half an hour': { input: { 'unresolved nightly': ago(1800) } } },
    recovery: {},
    memory: 2,
    exempt: NOT_OF_SERVICE,
  },
];
