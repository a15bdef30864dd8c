import fc from 'fast-check';
import { expect, it } from 'vitest';
import { riseOf, upTo } from '../../src/history/points.ts';
import { Recorder } from '../../src/history/recorder.ts';
import { createMemoryStore } from '../../src/store/memory.ts';
import { runs } from '../support/runs.ts';
import { createTestLog } from '../support/silent.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const GAP = 150_000;
const START = Date.UTC(2026, 0, 1, 0, 17);

/** Creates a recorder with a wall clock that can be set. `keep`: retention of the samples (ms). */
async function setUp(keep = 0) {
  let [wall, monotonic] = [START, 0];
  const clock = { now: () => wall, monotonic: () => monotonic };
  const store = createMemoryStore();
  const open = async () => {
    const recorder = await Recorder.open({ account: 'a', store, clock, log: createTestLog() });
    recorder.use({ keep, maxBytes: 1e9 });
    return recorder;
  };
  let recorder = await open();
  return {
    now: () => wall,
    get recorder() {
      return recorder;
    },
    pass(ms: number) {
      wall += ms;
      monotonic += ms;
    },
    set(ms: number) {
      wall += ms;
    },
    /** Records a counter. `isKnown`: whether it counts at for windows of hours. */
    async sample(value: number, isKnown = true) {
      const counters = new Map(isKnown ? [['x', value]] : []);
      await recorder.sample(new Map([['x', value]]), { hourly: () => ({ counters, gauges: new Map() }) });
      const changes = recorder.unsaved();
      await store.commit('a', changes);
      recorder.saved(changes);
    },
    /** Simulates a kill and a restart. */
    async restart() {
      recorder = await open();
    },
    /** Returns the increase in a window, and the length of the part that it covers (ms). */
    rise(over: number, value: number) {
      const points = recorder.recent('x', over);
      const [first] = points;
      return first && { by: riseOf(upTo(points, { at: wall, value })), covered: wall - first.at };
    },
    rows: () => store.scan('a', 'history/'),
  };
}

/** Value of a counter that rises or is reset, and what happens before its sample. */
const step = fc.record({
  by: fc.nat({ max: 9 }),
  isReset: fc.constantFrom(false, false, false, false, false, false, true),
  isKnown: fc.constantFrom(true, true, true, false),
  pass: fc.oneof(
    { weight: 30, arbitrary: fc.constant(MINUTE) },
    { weight: 5, arbitrary: fc.constant(17 * MINUTE) },
    { weight: 1, arbitrary: fc.constantFrom(3 * HOUR, 30 * HOUR) },
  ),
  event: fc.oneof(
    { weight: 60, arbitrary: fc.constant('none' as const) },
    { weight: 2, arbitrary: fc.constant('restart' as const) },
    { weight: 1, arbitrary: fc.constant('clock' as const) },
  ),
});

it('increases over hours equal the sum of all increases since the start of their window, or are unknown', async () => {
  let compared = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { minLength: 50, maxLength: 600 }),
      fc.constantFrom(2 * HOUR, 6 * HOUR, DAY, 3 * DAY),
      fc.boolean(),
      async (steps, over, isStored) => {
        const scene = await setUp(isStored ? 2 * DAY : 0);
        let value = 1000;
        /** Brute force: every increase, and the time after which they are certain. */
        const increases: { readonly at: number; readonly by: number }[] = [];
        let [knownSince, sampledAt] = [0, 0];
        /** Last reset since the last hourly value, and the hour of that value. */
        let resetAt = Number.POSITIVE_INFINITY;
        let hour = 0;
        for (const { by, isReset, isKnown, pass, event } of steps) {
          scene.pass(pass);
          if (event === 'clock') scene.set(20 * MINUTE);
          const at = scene.now();
          if (event === 'restart') await scene.restart();
          // Resets in a gap cannot be detected, and earlier ones only while their samples are in memory.
          const isLost = (event === 'restart' && !isStored && (isReset || resetAt < at)) || at - resetAt > 85 * MINUTE;
          if (event === 'clock' || isLost || (isReset && at - sampledAt > GAP)) knownSince = at;
          // A counter that seems to increase was not reset, nor was one that decreases a little.
          const increase = isReset && by >= value / 2 ? Math.max(0, by - value) : by;
          if (isReset && by < value) resetAt = at;
          value = isReset ? by : value + by;
          increases.push({ at, by: increase });
          await scene.sample(value, isKnown);
          const isHourly = isKnown && (Math.floor(at / HOUR) !== hour || event === 'clock');
          if (isHourly) [hour, resetAt] = [Math.floor(at / HOUR), Number.POSITIVE_INFINITY];
          sampledAt = at;
          const found = scene.rise(over, value);
          if (!found || found.covered === 0) continue;
          const start = at - found.covered;
          expect(found.covered).toBeLessThanOrEqual(over + 2 * HOUR);
          if (found.by === undefined) {
            expect(start).toBeLessThan(knownSince);
            continue;
          }
          if (start < knownSince) continue;
          const expected = increases.reduce((sum, each) => sum + (each.at > start ? each.by : 0), 0);
          expect(found.by).toBe(expected);
          compared += 1;
        }
      },
    ),
    { numRuns: runs(60) },
  );
  expect(compared).toBeGreaterThan(100);
});

it('a window of hours starts with the first sample of an hour and has an exact increase', async () => {
  const scene = await setUp();
  for (let minute = 0; minute < 10 * 60; minute += 1) {
    scene.pass(MINUTE);
    await scene.sample(minute);
  }
  // 10:17: the window of six hours starts at 04:00.
  expect(scene.rise(6 * HOUR, 600)).toEqual({ by: 377 + 1, covered: 377 * MINUTE });
});

it('hourly values are stored even if no samples are kept, and survive a restart and an outage', async () => {
  const scene = await setUp();
  for (let minute = 0; minute < 3 * 60; minute += 1) {
    scene.pass(MINUTE);
    await scene.sample(minute);
  }
  expect([...(await scene.rows()).keys()]).toEqual(['history/hourly']);
  scene.pass(2 * HOUR);
  await scene.restart();
  await scene.sample(500);
  // 05:17: the outage is in the window, so its increase counts.
  expect(scene.rise(4 * HOUR, 500)).toEqual({ by: 500 - 42, covered: 257 * MINUTE });
});

it('an hour without known values is not the start of a window', async () => {
  const scene = await setUp();
  for (let minute = 0; minute < 8 * 60; minute += 1) {
    scene.pass(MINUTE);
    // The value is unknown from 02:01 to 05:01.
    await scene.sample(minute, minute < 103 || minute > 283);
  }
  const covered = (hours: number) => (scene.rise(hours * HOUR, 479)?.covered ?? 0) / HOUR;
  expect([4, 5, 6, 7].map(hours => covered(hours).toFixed(1))).toEqual(['3.3', '6.3', '6.3', '7.3']);
});

it('a change of the wall clock makes earlier hours unknown', async () => {
  const scene = await setUp();
  for (let minute = 0; minute < 5 * 60; minute += 1) {
    scene.pass(MINUTE);
    if (minute === 200) scene.set(-3 * HOUR);
    await scene.sample(minute);
  }
  expect(scene.rise(3 * HOUR, 299)).toEqual({ by: 99, covered: 99 * MINUTE });
});

it('hourly values of three days take a few kilobytes', async () => {
  const scene = await setUp();
  for (let minute = 0; minute < 100 * 60; minute += 1) {
    scene.pass(MINUTE);
    if (minute % 10 === 0) await scene.sample(minute * 1234);
  }
  const [row = ''] = (await scene.rows()).values();
  expect(row.length).toBeLessThan(2000);
  expect(scene.rise(3 * DAY, 6000 * 1234)?.covered).toBeGreaterThanOrEqual(3 * DAY);
});
