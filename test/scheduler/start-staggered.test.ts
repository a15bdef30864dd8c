import { expect, it } from 'vitest';
import { startStaggered } from '../../src/scheduler/start-staggered.ts';
import { createManualClock } from '../support/manual-clock.ts';

/** Starts one item for each duration in `takes` (ms), at most three concurrently, with a timeout of 1000 ms each. */
function setUp(takes: readonly number[]) {
  const clock = createManualClock();
  const stop = new AbortController();
  const started: [item: number, at: number][] = [];
  let isDone = false;
  const starting = startStaggered([...takes.keys()], {
    concurrency: 3,
    timeout: 1000,
    clock,
    signal: stop.signal,
    async start(item) {
      started.push([item, clock.monotonic()]);
      await clock.sleep(takes[item] as number);
    },
  }).then(() => {
    isDone = true;
  });
  return { clock, stop, started, starting, isDone: () => isDone };
}

it('startStaggered starts a limited number of items concurrently, in order, and the next item as soon as an earlier one has finished starting', async () => {
  const { clock, started, starting, isDone } = setUp([100, 300, 500, 100, 100, 100]);
  await clock.advance(550);
  expect(started).toEqual([
    [0, 0],
    [1, 0],
    [2, 0],
    [3, 100],
    [4, 200],
    [5, 300],
  ]);
  expect(isDone()).toBe(true);
  // No timers remain for items that started in time.
  expect(clock.sleepers).toBe(0);
  await starting;
});

it('startStaggered continues with the next item when an item times out', async () => {
  const never = 1e9;
  const { clock, started } = setUp([never, never, never, 10, 10]);
  await clock.advance(999);
  expect(started).toHaveLength(3);
  await clock.advance(1);
  expect(started.slice(3)).toEqual([
    [3, 1000],
    [4, 1000],
  ]);
});

it('startStaggered ends when aborted, without starting further items', async () => {
  const { clock, stop, started, starting } = setUp([100, 100, 100, 100]);
  await clock.advance(50);
  stop.abort();
  await clock.advance(50);
  await starting;
  expect(started).toHaveLength(3);
});

it('startStaggered extends the timeout while the process is so busy that timers fire late', async () => {
  const clock = createManualClock();
  const started: [item: number, at: number][] = [];
  const never = Promise.withResolvers<void>();
  // Each turn of the event loop takes 300 ms: no sleep is shorter, and each one counts as 100 ms.
  const late = { ...clock, sleep: (ms: number, signal?: AbortSignal) => clock.sleep(Math.max(ms, 300), signal) };
  void startStaggered([0, 1], {
    concurrency: 1,
    timeout: 1000,
    clock: late,
    signal: new AbortController().signal,
    async start(item) {
      started.push([item, clock.monotonic()]);
      await never.promise;
    },
  });
  await clock.advance(2999);
  expect(started).toHaveLength(1);
  await clock.advance(1);
  expect(started).toEqual([
    [0, 0],
    [1, 3000],
  ]);
});
