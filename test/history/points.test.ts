import fc from 'fast-check';
import { expect, it } from 'vitest';
import { between, first, max, min, riseOf, upTo } from '../../src/history/points.ts';
import { Recorder } from '../../src/history/recorder.ts';
import type { Point } from '../../src/model/history.ts';
import { createMemoryStore } from '../../src/store/memory.ts';
import { runs } from '../support/runs.ts';
import { createTestLog } from '../support/silent.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const GAP = 150_000;

interface Sample {
  readonly at: number;
  /** Undefined if the series was missing, for example because its data was stale. */
  readonly value: number | undefined;
}

/** Value of a counter that increases, is reset, or is missing, and what happens before the sample. */
const step = fc.record({
  by: fc.nat({ max: 5 }),
  isReset: fc.constantFrom(false, false, true),
  isMissing: fc.constantFrom(false, false, false, true),
  /** Time since the last sample (ms). */
  pass: fc.constantFrom(MINUTE, MINUTE, MINUTE, MINUTE + 7000, 2 * MINUTE, 3 * MINUTE, 40 * MINUTE),
  event: fc.constantFrom('none', 'none', 'none', 'none', 'none', 'none', 'none', 'restart', 'clock'),
  set: fc.constantFrom(30_000, 10 * MINUTE, 3 * HOUR, -20 * MINUTE - 1, -5 * HOUR - 1),
});

type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

/** Records samples, with restarts and changes of the wall clock. Returns those since the last change of the clock. */
async function record(steps: readonly Step[]) {
  let [wall, monotonic] = [Date.UTC(2026, 0, 1, 12), 5];
  const clock = { now: () => wall, monotonic: () => monotonic };
  const store = createMemoryStore();
  const open = async () => {
    const recorder = await Recorder.open({ account: 'a', store, clock, log: createTestLog() });
    recorder.use({ keep: 48 * HOUR, maxBytes: 1e6 });
    return recorder;
  };
  let recorder = await open();
  let samples: Sample[] = [];
  let count = 0;
  let isSetBack = false;
  const recorded: number[] = [];
  for (const { by, isReset, isMissing, pass, event, set } of steps) {
    wall += pass;
    monotonic += pass;
    const isSet = event === 'clock' && !isSetBack && samples.length > 0;
    // Another process cannot recognize samples of a later hour that were recorded before the clock was set back.
    if (event === 'restart' && !isSetBack) recorder = await open();
    if (isSet) {
      isSetBack = set < 0;
      wall += set;
      samples = [];
    }
    count = isReset ? by : count + by;
    await recorder.sample(new Map(isMissing ? [['other', 1]] : [['x_total', count]]));
    // After the clock was set back, its minute may already have a sample.
    const isTaken = isSet && recorded.some(at => at < wall && at >= wall - (wall % MINUTE));
    if (!isTaken) samples.push({ at: wall, value: isMissing ? undefined : count });
    recorded.push(wall);
    const changes = recorder.unsaved();
    await store.commit('a', changes);
    recorder.saved(changes);
  }
  return { recorder, samples, now: wall };
}

/** Computes the results for the time since `from`, sample by sample. */
function expected(samples: readonly Sample[], from: number) {
  const isGapBetween = (a: number, b: number) =>
    samples.some(({ at }, index) => {
      const next = samples[index + 1]?.at ?? at;
      return at >= a && next <= b && next - at > GAP;
    });
  const values = samples.flatMap(({ at, value }) => (value === undefined ? [] : [{ at, value }]));
  const inside = values.filter(({ at }) => at > from);
  const before = values.findLast(({ at }) => at <= from);
  const next = inside[0];
  const isKnown =
    before !== undefined &&
    before.at >= from - GAP &&
    (before.at === from || next === undefined || !isGapBetween(before.at, next.at));
  const all = isKnown ? [before, ...inside] : inside;
  const pairs = all.slice(1).map((later, index) => ({ earlier: all[index] as (typeof all)[number], later }));
  const hasGap = pairs.some(({ earlier, later }) => isGapBetween(earlier.at, later.at));
  const isLost = pairs.some(({ earlier, later }) => later.value < earlier.value && isGapBetween(earlier.at, later.at));
  const rises = pairs.map(({ earlier: { value: last }, later: { value } }) =>
    value < last / 2 ? value : Math.max(0, value - last),
  );
  const isUnknown = all.length === 0 || hasGap;
  return {
    first: isKnown ? before.value : undefined,
    rise: all.length === 0 || isLost ? undefined : rises.reduce((sum, rise) => sum + rise, 0),
    min: isUnknown ? undefined : Math.min(...all.map(({ value }) => value)),
    max: isUnknown ? undefined : Math.max(...all.map(({ value }) => value)),
  };
}

it('first, rise, minimum and maximum of recorded points agree with a sample-by-sample calculation', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { minLength: 1, maxLength: 40 }),
      fc.integer({ min: 1, max: 85 * MINUTE }),
      async (steps, over) => {
        const { recorder, samples, now } = await record(steps);
        const from = now - over;
        const points = recorder.points('x_total', from, now);
        const found = { first: first(points, from), rise: riseOf(points), min: min(points), max: max(points) };
        expect(found).toEqual(expected(samples, from));
        expect(recorder.points('other_total', from, now)).toEqual([]);
      },
    ),
    { numRuns: runs(300) },
  );
});

const points = (...values: readonly (readonly [minute: number, value: number, isAfterGap?: boolean])[]): Point[] =>
  values.map(([minute, value, isAfterGap = false]) => ({ at: minute * MINUTE, value, isAfterGap }));

it('riseOf counts increases before a reset, and is unknown only if the counter decreased in a gap', () => {
  expect(riseOf([])).toBeUndefined();
  expect(riseOf(points([0, 7]))).toBe(0);
  expect(riseOf(points([0, 7], [1, 9], [2, 3], [3, 4]))).toBe(6);
  expect(riseOf(points([0, 7], [10, 9, true]))).toBe(2);
  expect(riseOf(points([0, 7], [10, 6, true]))).toBeUndefined();
  // A gap before the first point does not matter.
  expect(riseOf(points([0, 7, true], [1, 3]))).toBe(3);
  // A restored backup.
  expect(riseOf(points([0, 5], [1, 7], [2, 6], [3, 9]))).toBe(5);
});

it('first returns a value only if there is a point at or before the start of the window', () => {
  expect(first(points([0, 7], [1, 9]), MINUTE / 2)).toBe(7);
  expect(first(points([1, 9]), MINUTE / 2)).toBeUndefined();
  expect(first([], 0)).toBeUndefined();
});

it('min and max are unknown over a gap', () => {
  const some = points([0, 7, true], [1, 9], [10, 8, true]);
  expect([min(some), max(some)]).toEqual([undefined, undefined]);
  const earlier = between(some, 0, 9 * MINUTE);
  expect([min(earlier), max(earlier)]).toEqual([7, 9]);
  expect([min([]), max([])]).toEqual([undefined, undefined]);
});

it('upTo appends the current value, which follows a gap if the last point is too old', () => {
  const [last, ...rest] = [points([0, 7]), upTo([], { at: 0, value: 1 })];
  expect(rest[0]?.at(-1)?.isAfterGap).toBe(false);
  const isAfterGap = (at: number) => upTo(last, { at, value: 9 }).at(-1)?.isAfterGap;
  expect([GAP, GAP + 1].map(isAfterGap)).toEqual([false, true]);
});
