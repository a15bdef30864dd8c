import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { appendSample, encodeChunk, openChunk } from '../../src/history/chunk.ts';
import { Recorder } from '../../src/history/recorder.ts';
import type { Change } from '../../src/model/change.ts';
import { createMemoryStore } from '../../src/store/memory.ts';
import { createManualClock } from '../support/manual-clock.ts';
import { runs } from '../support/runs.ts';
import { createTestLog } from '../support/silent.ts';

const [MINUTE, HOUR] = [60_000, 3_600_000];
const START = Date.UTC(2026, 0, 1);

/** Creates a wall clock that can be set, and a monotonic clock that cannot. */
function createClock(start = START) {
  let [wall, monotonic] = [start, 1000];
  return {
    now: () => wall,
    monotonic: () => monotonic,
    pass(ms: number) {
      wall += ms;
      monotonic += ms;
    },
    set(ms: number) {
      wall = ms;
    },
  };
}

async function setUp({ keep = 48 * HOUR, maxBytes = 1e6 } = {}) {
  const [clock, store, log] = [createClock(), createMemoryStore(), createTestLog()];
  const open = async () => {
    const recorder = await Recorder.open({ account: 'a', store, clock, log });
    recorder.use({ keep, maxBytes });
    return recorder;
  };
  let recorder = await open();
  const keys = async () => [...(await store.scan('a', 'history/')).keys()];
  return {
    clock,
    store,
    log,
    keys,
    get recorder(): Recorder {
      return recorder;
    },
    /** Simulates a kill and a restart of the process. */
    async restart() {
      recorder = await open();
    },
    async save() {
      const changes = recorder.unsaved();
      await store.commit('a', changes);
      recorder.saved(changes);
    },
    /** Records and saves one sample per minute. */
    async minutes(count: number, value: (index: number) => number | undefined, series = 'x_total') {
      for (let index = 0; index < count; index += 1) {
        clock.pass(MINUTE);
        const one = value(index);
        await recorder.sample(new Map(one === undefined ? [] : [[series, one]]));
        await this.save();
      }
    },
    async read(over = 48 * HOUR, families = ['x_total']) {
      const { times, series } = await recorder.read({ from: clock.now() - over, to: clock.now(), families });
      const [values = []] = [...series.values()];
      return times.map((at, index) => [(at - START) / MINUTE, values[index] ?? null]);
    },
  };
}

describe('samples', () => {
  it('recorded samples are read back exactly; a restart loses only samples since the last commit', async () => {
    const step = fc.record({
      values: fc.dictionary(
        fc.constantFrom('a', 'a{x="1"}', 'b_bucket{le="+Inf"}', 'c{y="2",destination="z"}'),
        fc.oneof(fc.integer(), fc.double({ noNaN: true })),
      ),
      gap: fc.constantFrom(MINUTE, MINUTE, MINUTE, 61_000, 10 * MINUTE, 3 * HOUR),
      after: fc.constantFrom('nothing', 'save', 'save', 'restart'),
    });
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 40 }), async steps => {
        const scene = await setUp({ keep: 6 * 24 * HOUR });
        let expected: { at: number; values: Record<string, number> }[] = [];
        let saved = expected;
        for (const { values, gap, after } of steps) {
          scene.clock.pass(gap);
          await scene.recorder.sample(new Map(Object.entries(values)));
          expected = [...expected, { at: scene.clock.now(), values }];
          if (after === 'save') {
            await scene.save();
            saved = expected;
          }
          if (after === 'restart') {
            await scene.restart();
            expected = saved;
          }
        }
        const families = ['a', 'b', 'c'];
        const { times, series } = await scene.recorder.read({ from: 0, to: scene.clock.now(), families });
        const found = times.flatMap((at, index) => {
          const values = [...series].flatMap(([name, all]) => (all[index] === null ? [] : [[name, all[index]]]));
          return [{ at, values: Object.fromEntries(values) as Record<string, number> }];
        });
        // Series by destination are recorded only for conditions, so `read` omits them.
        const shown = expected.map(({ at, values: { 'c{y="2",destination="z"}': _, ...values } }) => ({
          at,
          // Non-finite values are not recorded.
          values: Object.fromEntries(
            Object.entries(values).flatMap(([name, value]) => (Number.isFinite(value) ? [[name, value + 0]] : [])),
          ),
        }));
        const isGap = ({ values }: { values: object }) => Object.keys(values).length === 0;
        expect(found.filter(one => !isGap(one))).toEqual(shown.filter(one => !isGap(one)));
        for (const values of series.values()) expect(values).toHaveLength(times.length);
        const last = scene.clock.now() - HOUR;
        const recent = scene.recorder.recent('a', HOUR).map(({ at, value }) => ({ at, value }));
        expect(recent.filter(({ at }) => at >= last)).toEqual(
          shown.flatMap(({ at, values: { a } }) => (a !== undefined && at >= last ? [{ at, value: a }] : [])),
        );
      }),
      { numRuns: runs(30) },
    );
  });

  it('recorded samples are kept for the next commit if the store rejects a commit', async () => {
    const scene = await setUp();
    scene.clock.pass(MINUTE);
    await scene.recorder.sample(new Map([['x_total', 1]]));
    const refused = scene.recorder.unsaved();
    expect(refused.map(({ key }) => key)).toEqual(['history/00490896']);
    await scene.minutes(1, () => 2);
    expect(scene.recorder.unsaved()).toEqual([]);
    await scene.restart();
    expect(await scene.read()).toEqual([
      [1, 1],
      [2, 2],
    ]);
  });

  it('recorded samples are marked as saved only if the commit contained them', async () => {
    const scene = await setUp();
    scene.clock.pass(MINUTE);
    await scene.recorder.sample(new Map([['x_total', 1]]));
    const under: readonly Change[] = scene.recorder.unsaved();
    scene.clock.pass(MINUTE);
    await scene.recorder.sample(new Map([['x_total', 2]]));
    scene.recorder.saved(under);
    expect(scene.recorder.unsaved()).toHaveLength(1);
  });

  it('a sample without the series and a gap while the agent was down are returned as null', async () => {
    const scene = await setUp();
    await scene.minutes(3, index => (index === 1 ? undefined : index));
    scene.clock.pass(20 * MINUTE);
    await scene.restart();
    await scene.minutes(1, () => 9);
    expect(await scene.read()).toEqual([
      [1, 0],
      [2, null],
      [3, 2],
      [4, null],
      [24, 9],
    ]);
    expect(scene.recorder.recent('x_total', HOUR).map(({ value }) => value)).toEqual([0, 2, 9]);
  });

  it('samples are limited to one per minute', async () => {
    const scene = await setUp();
    for (const [ms, value] of [
      [MINUTE, 1],
      [20_000, 2],
      [0, 3],
      [30_000, 4],
      [10_000, 5],
    ] as const) {
      scene.clock.pass(ms);
      await scene.recorder.sample(new Map([['x_total', value]]));
    }
    expect(await scene.read()).toEqual([
      [1, 1],
      [2, 5],
    ]);
  });
});

describe('clock steps', () => {
  it('after the wall clock is set back, samples recorded ahead of it are replaced as it catches up', async () => {
    const scene = await setUp();
    await scene.minutes(100, index => index);
    scene.clock.set(START + 70 * MINUTE);
    expect((await scene.read()).at(-1)).toEqual([70, 69]);
    await scene.minutes(2, index => 1000 + index);
    // The samples of the current hour from minute 71 on have been removed.
    expect((await scene.read()).slice(-3)).toEqual([
      [70, 69],
      [71, 1000],
      [72, 1001],
    ]);
    // Setting the clock far back and correcting it again loses no samples.
    scene.clock.set(0);
    await scene.minutes(3, () => 5);
    scene.clock.set(START + 72 * MINUTE);
    await scene.minutes(1, () => 6);
    const all = await scene.read();
    expect([all[0], ...all.slice(-2)]).toEqual([
      [1, 0],
      [72, 1001],
      [73, 6],
    ]);
  });

  it('no samples are deleted if the wall clock is briefly wrong', async () => {
    const scene = await setUp();
    await scene.minutes(30, index => index);
    const before = scene.clock.now();
    scene.clock.set(before + 1000 * HOUR);
    await scene.minutes(5, () => 7);
    scene.clock.set(before);
    await scene.minutes(12, () => 8);
    const all = await scene.read();
    expect([all[0], all.length]).toEqual([[1, 0], 42]);
  });

  it('points before a change of the wall clock are unknown, also after a restart', async () => {
    const scene = await setUp();
    await scene.minutes(2, () => 1);
    scene.clock.set(scene.clock.now() + 10 * MINUTE);
    // The monotonic clock has not advanced since the last sample.
    await scene.recorder.sample(new Map([['x_total', 2]]));
    await scene.minutes(2, () => 3);
    const minutes = () => scene.recorder.recent('x_total', HOUR).map(({ at }) => (at - START) / MINUTE);
    expect(minutes()).toEqual([12, 13, 14]);
    await scene.restart();
    expect(minutes()).toEqual([12, 13, 14]);
    expect((await scene.read()).map(([minute]) => minute)).toEqual([1, 2, 3, 12, 13, 14]);
    // An evaluation may notice the change before the next sample does.
    scene.recorder.note(new Map());
    scene.clock.set(scene.clock.now() + 30_000);
    scene.recorder.note(new Map());
    expect(minutes()).toEqual([]);
  });
});

describe('retention', () => {
  it('the history keeps the configured number of hours', async () => {
    const scene = await setUp({ keep: 5 * HOUR });
    await scene.minutes(12 * 60, index => index);
    const hours = (await scene.keys()).map(key => Number(key.split('/')[1]) - START / HOUR);
    expect(hours).toEqual([6, 7, 8, 9, 10, 11, 12]);
    expect((await scene.read())[0]).toEqual([7 * 60, 7 * 60 - 1]);
  });

  it('the history stays within its size limit: the oldest hours are deleted, and remaining values are exact', async () => {
    const maxBytes = 100_000;
    const scene = await setUp({ maxBytes });
    const names = Array.from({ length: 30 }, (_, index) => `x_total{n="${index}"}`);
    const valueAt = (minute: number, index: number) => Math.floor(1e6 * Math.abs(Math.sin(minute * (index + 1))));
    for (let minute = 1; minute <= 24 * 60; minute += 1) {
      scene.clock.pass(MINUTE);
      await scene.recorder.sample(new Map(names.map((name, index) => [name, valueAt(minute, index)])));
      await scene.save();
    }
    const rows = [...(await scene.store.scan('a', 'history/'))];
    const bytes = rows.reduce((sum, [key, text]) => sum + key.length + text.length, 0);
    expect(bytes).toBeGreaterThan(maxBytes / 2);
    expect(bytes).toBeLessThan(maxBytes);
    await scene.restart();
    const now = scene.clock.now();
    const { times, series } = await scene.recorder.read({ from: 0, to: now, families: ['x_total'] });
    const minutes = times.map(at => (at - START) / MINUTE);
    for (const [index, name] of names.entries()) {
      expect(series.get(name)).toEqual(minutes.map(minute => valueAt(minute, index)));
    }
    const first = minutes[0] as number;
    expect(first).toBeGreaterThan(60);
    expect(minutes).toEqual(Array.from({ length: 24 * 60 - first + 1 }, (_, index) => first + index));
  });

  it('the history shrinks if the size limit is lowered, but keeps the current hour', async () => {
    const scene = await setUp();
    await scene.minutes(5 * 60 + 15, index => index);
    expect(await scene.keys()).toHaveLength(6);
    const sizes = await scene.store.sizes('a', 'history/');
    const last = [...sizes].slice(-2).reduce((sum, [key, size]) => sum + key.length + size, 0);
    const hours = async () => (await scene.keys()).map(key => Number(key.split('/')[1]) - START / HOUR);
    scene.recorder.use({ keep: 48 * HOUR, maxBytes: 1.2 * last });
    await scene.minutes(1, () => 1);
    expect(await hours()).toEqual([4, 5]);
    scene.recorder.use({ keep: 48 * HOUR, maxBytes: 1 });
    await scene.minutes(1, () => 1);
    expect(await hours()).toEqual([5]);
  });

  it('series marked as unstored are kept only in memory, and are lost at a restart', async () => {
    const scene = await setUp();
    const large = 'x_total{y="1"}';
    scene.clock.pass(MINUTE);
    await scene.recorder.sample(
      new Map([
        ['x_total', 1],
        [large, 2],
      ]),
      { unstored: new Set([large]) },
    );
    await scene.save();
    const values = () => ['x_total', large].map(name => scene.recorder.recent(name, HOUR)[0]?.value);
    expect(values()).toEqual([1, 2]);
    await scene.restart();
    expect(values()).toEqual([1, undefined]);
  });

  it('watched series are in memory for their windows, whether they were recorded before or after they were watched', async () => {
    const scene = await setUp({ keep: 12 * HOUR });
    const watch = () => scene.recorder.watch(5 * HOUR, name => name === 'x_total');
    const minutes = async (count: number) => {
      for (let minute = 0; minute < count; minute += 1) {
        scene.clock.pass(MINUTE);
        await scene.recorder.sample(new Map(['x_total', 'y_total'].map(name => [name, minute])));
        await scene.save();
      }
    };
    /** Returns how far back the series are in memory (minutes). */
    const reach = () =>
      ['x_total', 'y_total'].map(name => {
        const [first] = scene.recorder.points(name, scene.clock.now() - 5 * HOUR, scene.clock.now());
        return first && (scene.clock.now() - first.at) / MINUTE;
      });
    await minutes(4 * 60);
    expect(reach()).toEqual([120, 120]);
    await watch();
    expect(reach()).toEqual([239, 120]);
    await minutes(3 * 60);
    expect(reach()).toEqual([300, 120]);
    await scene.restart();
    await watch();
    expect(reach()).toEqual([300, 120]);
  });

  it('a change of the wall clock hours before a restart makes earlier values of watched series unknown', async () => {
    const scene = await setUp();
    await scene.minutes(30, index => index);
    scene.clock.set(scene.clock.now() + 10 * MINUTE);
    await scene.minutes(4 * 60, index => index);
    await scene.restart();
    await scene.recorder.watch(5 * HOUR, name => name === 'x_total');
    expect(scene.recorder.points('x_total', START, scene.clock.now())).toHaveLength(4 * 60);
  });

  it('values for short windows are in memory until they are older than the window, and are not stored', async () => {
    const scene = await setUp();
    const over = 10_000;
    const pointsAt = () =>
      scene.recorder
        .points('x_total', scene.clock.now() - over, scene.clock.now())
        .map(({ at, value }) => [(at - scene.clock.now()) / 1000, value]);
    for (let second = 0; second < 60; second += 4) {
      scene.clock.pass(4000);
      scene.recorder.note(new Map([['x_total', second]]));
    }
    expect(pointsAt()).toEqual([
      [-12, 44],
      [-8, 48],
      [-4, 52],
      [0, 56],
    ]);
    // A changed clock makes their age unknown.
    scene.clock.set(scene.clock.now() + HOUR);
    scene.recorder.note(new Map([['x_total', 60]]));
    expect(pointsAt()).toEqual([[0, 60]]);
    expect(scene.recorder.unsaved()).toEqual([]);
  });

  it('with keep 0, the stored history is deleted, but the last hour stays in memory', async () => {
    const scene = await setUp();
    await scene.minutes(90, index => index);
    expect(await scene.keys()).toHaveLength(2);
    scene.recorder.use({ keep: 0, maxBytes: 1e6 });
    await scene.minutes(2, () => 7);
    expect(await scene.keys()).toEqual([]);
    const recent = scene.recorder.recent('x_total', HOUR);
    expect([recent.length, recent[0]?.value, recent.at(-1)?.value]).toEqual([61, 31, 7]);
  });
});

it('the recorder skips damaged hours of the history, logs them once and continues', async () => {
  const scene = await setUp();
  await scene.minutes(4 * 60 + 30, index => index);
  const [first, second, third, , last] = await scene.keys();
  const chunk = openChunk();
  appendSample(chunk, START, new Map([['x_total', 1]]));
  await scene.store.commit('a', [
    { key: first as string, value: 'rubbish' },
    { key: second as string, value: encodeChunk(chunk).slice(0, -8) },
    { key: 'history/not-an-hour', value: 'x' },
    { key: last as string, value: '' },
  ]);
  await scene.restart();
  await scene.minutes(12, () => 7);
  const all = await scene.read();
  expect(all[0]).toEqual([120, 119]);
  expect(all.at(-1)).toEqual([282, 7]);
  expect(third).toBeDefined();
  expect(scene.log.lines.map(({ message }) => message)).toEqual(['damaged history row skipped']);
});

it('an unreadable store causes a gap in the history and is logged once', async () => {
  const [clock, log, inner] = [createManualClock(), createTestLog(), createMemoryStore()];
  let isBroken = false;
  const scan: typeof inner.scan = (...which) => (isBroken ? Promise.reject(new Error('disk')) : inner.scan(...which));
  const recorder = await Recorder.open({ account: 'a', store: { ...inner, scan }, clock, log });
  recorder.use({ keep: HOUR, maxBytes: 1e6 });
  isBroken = true;
  for (let minute = 0; minute < 3; minute += 1) {
    await clock.advance(MINUTE);
    await recorder.sample(new Map([['x', minute]]));
  }
  isBroken = false;
  await clock.advance(MINUTE);
  await recorder.sample(new Map([['x', 3]]));
  expect(recorder.recent('x', HOUR).map(({ value }) => value)).toEqual([3]);
  expect(log.lines.map(({ message }) => message)).toEqual(['failed to read history; it may have a gap']);
});
