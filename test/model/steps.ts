/** What may happen, in any order. */
import fc from 'fast-check';
import { CANCEL_FAULTS, FAULTS } from './faults.ts';
import { QUESTIONS } from './lists.ts';
import { MINUTE, POLICY_COUNT, READING_COUNT, SECOND } from './settings.ts';

const arrival = fc.record({
  kind: fc.constantFrom('plain', 'healthy', 'hangs', 'hangs', 'hangs', 'restless'),
  label: fc.constantFrom('job', 'job', 'job', 'keep', undefined),
  host: fc.nat(2),
  status: fc.constantFrom(500, 500, 404, 0),
  maxRetries: fc.constantFrom(0, 0, 1, 2, 2, 3),
  length: fc.double({ min: 0, max: 1, noNaN: true }),
});

/** Those that ask and those that take over from them, more often: the waits of one must not be taken for another's. */
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
  // Each look-up lacks its newest row: who takes no notice takes a lively callback for a silent one.
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
  {
    weight: 3,
    arbitrary: fc.record({
      kind: is('kill'),
      left: fc.nat(40),
      down: fc.constantFrom(SECOND, SECOND, 20 * SECOND, 2 * MINUTE, 12 * MINUTE),
      settings: fc.option(settings),
      clock: fc.constantFrom(0, 0, 0, -20, -1, 2, 90),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: is('stop'),
      down: fc.constantFrom(SECOND, SECOND, 20 * SECOND, 2 * MINUTE, 12 * MINUTE),
      settings: fc.option(settings),
      clock: fc.constantFrom(0, 0, 0, -20, -1, 2, 90),
    }),
  },
  { weight: 4, arbitrary: fc.record({ kind: is('approve'), soon: fc.constantFrom(SECOND, MINUTE, 5 * MINUTE) }) },
  { weight: 1, arbitrary: fc.record({ kind: is('pause') }) },
  { weight: 1, arbitrary: fc.record({ kind: is('resume') }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: is('reset'),
      breaker: fc.constantFrom('candidates' as const, 'errors' as const, 'lost_races' as const),
    }),
  },
  { weight: 1, arbitrary: fc.record({ kind: is('stop file'), isThere: fc.boolean() }) },
);

export const life = fc.record({
  settings,
  shape: fc.record({
    field: fc.constantFrom('failureCallbackInfo' as const, 'failureFunctionState' as const),
    tellsMessage: fc.boolean(),
    source: fc.constantFrom('ignored' as const, 'apart' as const, 'unknown' as const),
    isMute: fc.constantFrom(false, false, false, false, false, true),
    page: fc.constantFrom(1, 2, 3, 100, 100),
  }),
  seed: fc.nat(),
  begin: fc.array(arrival, { minLength: 1, maxLength: 8, size: 'max' }),
  steps: fc.array(step, { minLength: 8, maxLength: 36, size: 'max' }),
});

type Of<A> = A extends fc.Arbitrary<infer T> ? T : never;
export type Life = Of<typeof life>;
export type Step = Life['steps'][number];
