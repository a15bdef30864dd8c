/** Generators of lives. A life is a random sequence of events. */
import fc from 'fast-check';
import { CANCEL_FAULTS, FAULTS } from './faults.ts';
import { QUESTIONS } from './lists.ts';
import { PLACES } from './meddling.ts';
import { MINUTE, POLICY_COUNT, READING_COUNT, SECOND } from './settings.ts';

const arrival = fc.record({
  kind: fc.constantFrom('plain', 'healthy', 'hangs', 'hangs', 'hangs', 'restless'),
  label: fc.constantFrom('job', 'job', 'job', 'keep', undefined),
  host: fc.nat(2),
  status: fc.constantFrom(500, 500, 404, 0),
  maxRetries: fc.constantFrom(0, 0, 1, 2, 2, 3),
  length: fc.double({ min: 0, max: 1, noNaN: true }),
});

/**
 * Index of a policy. Policies with approvals or grace periods, and the policies that replace them, occur more often: waiting
 * time under one policy must not count under another.
 */
const policy = fc.oneof(fc.nat(POLICY_COUNT - 1), fc.constantFrom(1, 1, 3, 4, 5, 6, 7), fc.constantFrom(3, 4, 5, 7));
const settings = fc.record({ policy, reading: fc.nat(READING_COUNT - 1) });

const entry = fc.nat(30);
const ms = fc.constantFrom(5 * SECOND, 30 * SECOND, MINUTE, 3 * MINUTE, 12 * MINUTE);
const is = <K extends string>(kind: K) => fc.constant(kind);
const question = fc.constantFrom(...QUESTIONS, 'any' as const, 'look' as const, 'lookup' as const);
const fault = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom(...FAULTS) },
  { weight: 1, arbitrary: fc.constantFrom('some_unreadable' as const, 'slow' as const, 'error_beside_empty' as const) },
);

/** The affected process. `holder`: the process that has the account open. */
const who = fc.constantFrom('holder', 'holder', 'other');
const killedAfter = fc.constantFrom(null, null, null, null, null, null, 0, SECOND, 10 * SECOND);
const breaker = fc.constantFrom('candidates' as const, 'errors' as const, 'lost_races' as const);
const down = fc.constantFrom(SECOND, SECOND, 20 * SECOND, 2 * MINUTE, 12 * MINUTE);

/** Time until an operator's command receives a response (ms). Long times simulate a stopped command. */
const latency = fc.constantFrom(30, 30, 30, 5 * SECOND, 40 * SECOND, 3 * MINUTE, 6 * MINUTE);

/**
 * `resumedAfter`: time until the same operator resumes auto-cancel, if ever (ms). `freezes`: how long the holder is stopped,
 * starting with the order (ms). `awaits`: whether the reset is ordered only when a breaker opens. `again`: time until another
 * operator repeats the order, if ever (ms).
 */
const orders = {
  pause: fc.record({
    kind: is('pause'),
    killedAfter,
    freezes: fc.constantFrom(0, 0, 0, 20 * SECOND),
    resumedAfter: fc.constantFrom(null, SECOND, 20 * SECOND, MINUTE, MINUTE, 4 * MINUTE, 4 * MINUTE),
  }),
  resume: fc.record({ kind: is('resume'), killedAfter }),
  reset: fc.record({
    kind: is('reset'),
    breaker,
    killedAfter,
    awaits: fc.constantFrom(false, true, true),
    soon: fc.constantFrom(0, SECOND, SECOND, MINUTE),
    latency: fc.constantFrom(30, 30, 3 * MINUTE, 6 * MINUTE, 6 * MINUTE),
    again: fc.constantFrom(null, 0, SECOND, 3 * SECOND, 30 * SECOND),
  }),
  approve: fc.record({ kind: is('approve'), soon: fc.constantFrom(SECOND, MINUTE, 5 * MINUTE), killedAfter, latency }),
};
const events = {
  kill: fc.record({
    kind: is('kill'),
    left: fc.nat(40),
    down,
    settings: fc.option(settings),
    clock: fc.constantFrom(0, 0, 0, -20, -1, 2, 90),
    who: is('holder'),
  }),
  stop: fc.record({
    kind: is('stop'),
    down,
    settings: fc.option(settings),
    clock: fc.constantFrom(0, 0, 0, -20, -1, 2, 90),
    who: is('holder'),
  }),
};

const step = fc.oneof(
  {
    weight: 18,
    arbitrary: fc.record({
      kind: is('pass'),
      ms: fc.constantFrom(20 * SECOND, MINUTE, 4 * MINUTE, 5 * MINUTE, 9 * MINUTE, 13 * MINUTE),
    }),
  },
  { weight: 4, arbitrary: fc.record({ kind: is('arrive'), arrival, soon: fc.nat(3 * MINUTE) }) },
  { weight: 2, arbitrary: fc.record({ kind: is('leave'), entry, soon: fc.nat(3 * MINUTE) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: is('run again'),
      entry,
      hangs: fc.boolean(),
      length: fc.double({ min: 0, max: 1, noNaN: true }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: is('traffic'),
      count: fc.integer({ min: 1, max: 4 }),
      late: fc.constantFrom(0, 0, 10 * SECOND, 5 * MINUTE),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: is('flow'), key: fc.nat(2), size: fc.integer({ min: -1, max: 9 }) }) },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: is('fault'),
      question,
      fault,
      skip: fc.nat(6),
      count: fc.constantFrom(1, 1, 2, 4, 9),
    }),
  },
  // The newest row of each look-up is unreadable. An agent that ignores this would treat an active callback as idle.
  { weight: 2, arbitrary: fc.record({ kind: is('log unreadable') }) },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: is('cancel fault'),
      fault: fc.constantFrom(...CANCEL_FAULTS),
      count: fc.constantFrom(1, 1, 2, 4),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: is('outage'), ms }) },
  { weight: 1, arbitrary: fc.record({ kind: is('token refused'), ms }) },
  { weight: 2, arbitrary: fc.record({ kind: is('store fails'), ms }) },
  { weight: 1, arbitrary: fc.record({ kind: is('store slow'), ms, latency: fc.constantFrom(500, 4000, 31_000) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: is('clock'),
      by: fc.constantFrom(-90, -15, -3, -1, 1, 3, 15, 90, 200).map(minutes => minutes * MINUTE),
    }),
  },
  { weight: 3, arbitrary: events.kill },
  { weight: 3, arbitrary: events.stop },
  { weight: 4, arbitrary: orders.approve },
  { weight: 1, arbitrary: orders.pause },
  { weight: 1, arbitrary: orders.resume },
  { weight: 1, arbitrary: orders.reset },
  { weight: 1, arbitrary: fc.record({ kind: is('stop file'), isThere: fc.boolean() }) },
);

/** Policies that cancel early, with and without approval. */
const livelyPolicy = fc.constantFrom(0, 0, 0, 0, 1, 1, 2, 3, 3, 3, 4, 7, 8, 9);
const soon = fc.constantFrom(0, 0, 200, SECOND, 5 * SECOND);

/** Events that interfere with a process or its orders during a cancel. */
const act = fc.oneof(
  { weight: 14, arbitrary: orders.pause },
  { weight: 1, arbitrary: orders.resume },
  { weight: 3, arbitrary: orders.reset },
  { weight: 2, arbitrary: orders.approve },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: is('kill'),
      left: fc.nat(3),
      down,
      settings: fc.constant(null),
      clock: fc.constant(0),
      who,
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ kind: is('stop'), down, settings: fc.constant(null), clock: fc.constant(0), who }),
  },
  { weight: 3, arbitrary: fc.record({ kind: is('reload'), policy: livelyPolicy, who }) },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: is('freeze'),
      ms: fc.constantFrom(SECOND, 20 * SECOND, 50 * SECOND, 2 * MINUTE),
      who,
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: is('cut off'), ms, who }) },
  { weight: 1, arbitrary: fc.record({ kind: is('store fails'), ms }) },
);

const cancelFault = fc.record({
  kind: is('cancel fault'),
  // Status 401 is frequent, because it opens a breaker.
  fault: fc.constantFrom('s401' as const, 's401' as const, 's401' as const, ...CANCEL_FAULTS),
  count: fc.constantFrom(1, 2, 3),
});

const meddle = fc.record({
  kind: is('meddle'),
  place: fc.constantFrom(...PLACES, 'looking' as const, 'intent committed' as const, 'connecting' as const),
  skip: fc.constantFrom(0, 0, 1),
  soon,
  hold: fc.constantFrom(0, 200, 3 * SECOND, 12 * SECOND, 25 * SECOND, 40 * SECOND),
  isLost: fc.constantFrom(false, false, false, false, false, true),
  what: act,
});

/**
 * The first cancel is not executed, and its response cannot be stored. A second cancel is permitted only after a newer
 * walk.
 */
const unfinished = fc
  .tuple(fc.constantFrom('s500_undone' as const, 'lost_undone' as const), fc.constantFrom(100, 150, 180))
  .map(([fault, seconds]) => [
    { kind: 'cancel fault' as const, fault, count: 1 },
    {
      kind: 'meddle' as const,
      place: 'sent' as const,
      skip: 0,
      soon: 0,
      hold: 0,
      isLost: false,
      what: { kind: 'store fails' as const, ms: seconds * SECOND },
    },
  ]);

/** Orders and signals while the service is mostly healthy. Most of them happen during a cancel. */
const operatedStep = fc.oneof(
  {
    weight: 16,
    arbitrary: fc.record({ kind: is('pass'), ms: fc.constantFrom(20 * SECOND, MINUTE, 4 * MINUTE, 5 * MINUTE) }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      kind: is('arrive'),
      arrival: arrival.map(each => ({ ...each, kind: 'hangs' as const, label: 'job', maxRetries: 0 })),
      soon: fc.nat(MINUTE),
    }),
  },
  { weight: 14, arbitrary: meddle },
  { weight: 3, arbitrary: act },
  { weight: 6, arbitrary: orders.approve },
  { weight: 1, arbitrary: fc.record({ kind: is('store slow'), ms, latency: fc.constantFrom(500, 4000) }) },
  { weight: 2, arbitrary: cancelFault },
  { weight: 3, arbitrary: orders.reset },
);

const begin = fc.array(arrival, { minLength: 1, maxLength: 8, size: 'max' });
const ordinary = fc.record({
  settings,
  replicas: fc.constant(1),
  shape: fc.record({
    field: fc.constantFrom('failureCallbackInfo' as const, 'failureFunctionState' as const),
    reportsMessage: fc.boolean(),
    source: fc.constantFrom('ignored' as const, 'apart' as const, 'unknown' as const),
    hidesStates: fc.constantFrom(false, false, false, false, false, true),
    hasRuns: fc.boolean(),
    page: fc.constantFrom(1, 2, 3, 100, 100),
  }),
  seed: fc.nat(),
  begin,
  steps: fc.array(step, { minLength: 8, maxLength: 36, size: 'max' }),
});

/** A life with one or two replicas, in which operators interfere with cancels. */
const operated = fc.record({
  settings: fc.record({ policy: livelyPolicy, reading: fc.constant(0), isQuick: fc.constant(true) }),
  replicas: fc.constantFrom(1, 2, 2),
  shape: fc.record({
    field: fc.constant('failureCallbackInfo' as const),
    reportsMessage: fc.constant(true),
    source: fc.constant('ignored' as const),
    hidesStates: fc.constant(false),
    hasRuns: fc.boolean(),
    page: fc.constant(100),
  }),
  seed: fc.nat(),
  begin: fc.array(
    arrival.map(each => ({ ...each, kind: 'hangs' as const, label: 'job', maxRetries: 0 })),
    { minLength: 3, maxLength: 10, size: 'max' },
  ),
  // The first cancel is possible after about nine minutes.
  steps: fc
    .tuple(
      fc.oneof({ weight: 3, arbitrary: fc.constant([]) }, { weight: 1, arbitrary: unfinished }),
      fc.array(
        fc.oneof({ weight: 6, arbitrary: meddle }, { weight: 3, arbitrary: orders.approve }, orders.reset, cancelFault),
        {
          minLength: 5,
          maxLength: 10,
          size: 'max',
        },
      ),
      fc.array(operatedStep, { minLength: 8, maxLength: 22, size: 'max' }),
    )
    .map(([first, early, steps]) => [...first, ...early, { kind: 'pass' as const, ms: 8 * MINUTE }, ...steps]),
});

export const LIVES = {
  ordinary,
  operated,
  both: fc.oneof({ weight: 3, arbitrary: ordinary }, { weight: 1, arbitrary: operated }),
};

type Of<A> = A extends fc.Arbitrary<infer T> ? T : never;
type Either = Of<typeof ordinary> | Of<typeof operated>;
export type Step = Either['steps'][number];
export type Life = Omit<Of<typeof ordinary>, 'steps'> & { readonly steps: readonly Step[] };
