import { expect, it } from 'vitest';
import { startStaggered } from '../../src/scheduler/start-staggered.ts';
import { createManualClock } from '../support/manual-clock.ts';

/** Starts `takes.length` things, each of which takes so many milliseconds, three at a time, and waits for none longer than 1000. */
function setUp(takes: readonly number[]) {
  const clock = createManualClock();
  const stop = new AbortController();
  const begun: [item: number, at: number][] = [];
  let isDone = false;
  const starting = startStaggered([...takes.keys()], {
    concurrency: 3,
    timeout: 1000,
    clock,
    signal: stop.signal,
    async start(item) {
      begun.push([item, clock.monotonic()]);
      await clock.sleep(takes[item] as number);
    },
  }).then(() => {
    isDone = true;
  });
  return { clock, stop, begun, starting, isDone: () => isDone };
}

it('starts so many at a time, in their order, and the next as soon as one has started', async () => {
  const { clock, begun, starting, isDone } = setUp([100, 300, 500, 100, 100, 100]);
  await clock.advance(550);
  expect(begun).toEqual([
    [0, 0],
    [1, 0],
    [2, 0],
    [3, 100],
    [4, 200],
    [5, 300],
  ]);
  expect(isDone()).toBe(true);
  // Nothing waits on for those that were in time.
  expect(clock.sleepers).toBe(0);
  await starting;
});

it('waits for none for longer than its patience', async () => {
  const never = 1e9;
  const { clock, begun } = setUp([never, never, never, 10, 10]);
  await clock.advance(999);
  expect(begun).toHaveLength(3);
  await clock.advance(1);
  expect(begun.slice(3)).toEqual([
    [3, 1000],
    [4, 1000],
  ]);
});

it('starts no other once it is stopped, and ends', async () => {
  const { clock, stop, begun, starting } = setUp([100, 100, 100, 100]);
  await clock.advance(50);
  stop.abort();
  await clock.advance(50);
  await starting;
  expect(begun).toHaveLength(3);
});

it('has more patience while the process is busy, whose timers are late', async () => {
  const clock = createManualClock();
  const begun: [item: number, at: number][] = [];
  const never = Promise.withResolvers<void>();
  // Each turn of the event loop takes 300 ms: no sleep is shorter, and each counts for 100 ms.
  const late = { ...clock, sleep: (ms: number, signal?: AbortSignal) => clock.sleep(Math.max(ms, 300), signal) };
  void startStaggered([0, 1], {
    concurrency: 1,
    timeout: 1000,
    clock: late,
    signal: new AbortController().signal,
    async start(item) {
      begun.push([item, clock.monotonic()]);
      await never.promise;
    },
  });
  await clock.advance(2999);
  expect(begun).toHaveLength(1);
  await clock.advance(1);
  expect(begun).toEqual([
    [0, 0],
    [1, 3000],
  ]);
});
