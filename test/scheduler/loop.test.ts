import { describe, expect, it } from 'vitest';
import { createLoops, runLoop } from '../../src/scheduler/loop.ts';
import { createManualClock, settle } from '../support/manual-clock.ts';

function setUp(options: { every: number; takes?: number; random?: number }) {
  const clock = createManualClock();
  const stop = new AbortController();
  const starts: number[] = [];
  let running = 0;
  let mostRunning = 0;
  const loop = runLoop({
    every: options.every,
    firstDelay: 100,
    clock,
    random: () => options.random ?? 0,
    signal: stop.signal,
    async body(signal) {
      starts.push(clock.monotonic());
      running += 1;
      mostRunning = Math.max(mostRunning, running);
      try {
        if (options.takes) await clock.sleep(options.takes, signal);
      } catch {
        // An aborted body ends without an error, like a runner.
      } finally {
        running -= 1;
      }
    },
  });
  return { clock, stop, starts, loop, running: () => running, mostRunning: () => mostRunning };
}

describe('loop', () => {
  it('a loop starts its body after the first delay, then every interval', async () => {
    const { clock, stop, starts, loop } = setUp({ every: 1000 });
    await clock.advance(3500);
    expect(starts).toEqual([100, 1100, 2100, 3100]);
    stop.abort();
    await loop;
  });

  it.each([
    [0, 1000],
    [0.5, 950],
    [0.999, 900.1],
  ])(
    'a loop starts its body up to 10 %% of the interval early: with the random number %d, it starts after %d ms',
    async (random, after) => {
      const { clock, stop, starts, loop } = setUp({ every: 1000, random });
      await clock.advance(1100);
      expect(starts[1]).toBeCloseTo(100 + after);
      stop.abort();
      await loop;
    },
  );

  it('bodies of a loop never overlap: a slow body delays the next start, and missed starts are skipped', async () => {
    const { clock, stop, starts, loop, mostRunning } = setUp({ every: 1000, takes: 2500 });
    await clock.advance(8000);
    expect(starts).toEqual([100, 2600, 5100, 7600]);
    expect(mostRunning()).toBe(1);
    stop.abort();
    await loop;
  });

  it('an aborted loop ends after the running body and leaves no timer', async () => {
    const { clock, stop, loop, running } = setUp({ every: 1000, takes: 500 });
    await clock.advance(200);
    expect(running()).toBe(1);
    stop.abort();
    await loop;
    expect(running()).toBe(0);
    await settle();
    expect(clock.sleepers).toBe(0);
  });

  /** Starts a loop with an interval of an hour, whose runs fail while `plan` is set. */
  function setUpRetries(plan: number | undefined) {
    const clock = createManualClock();
    const loops = createLoops({ clock, random: () => 0 });
    const state = { plan };
    const starts: number[] = [];
    const body = async () => void starts.push(clock.monotonic());
    void loops.start(3_600_000, 0, body, () => state.plan);
    return { clock, loops, state, starts };
  }

  it('a loop repeats a failed body after the delay of its plan, and a successful one after the interval', async () => {
    const { clock, loops, state, starts } = setUpRetries(2000);
    await clock.advance(5000);
    state.plan = undefined;
    await clock.advance(3_600_000);
    expect(starts).toEqual([0, 2000, 4000, 6000]);
    await loops.close();
    expect(clock.sleepers).toBe(0);
  });
});
