import { describe, expect, it } from 'vitest';
import { runLoop } from '../../src/scheduler/loop.ts';
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
        // Aborted: the body ends, like a runner.
      } finally {
        running -= 1;
      }
    },
  });
  return { clock, stop, starts, loop, running: () => running, mostRunning: () => mostRunning };
}

describe('loop', () => {
  it('starts after the first delay, then every interval', async () => {
    const { clock, stop, starts, loop } = setUp({ every: 1000 });
    await clock.advance(3500);
    expect(starts).toEqual([100, 1100, 2100, 3100]);
    stop.abort();
    await loop;
  });

  it('starts up to a tenth of the interval early, never late', async () => {
    const { clock, stop, starts, loop } = setUp({ every: 1000, random: 0.999 });
    await clock.advance(1100);
    expect(starts[1]).toBeCloseTo(100 + 900.1);
    stop.abort();
    await loop;
  });

  it('never overlaps: a slow body delays the next start, and missed starts are skipped', async () => {
    const { clock, stop, starts, loop, mostRunning } = setUp({ every: 1000, takes: 2500 });
    await clock.advance(8000);
    expect(starts).toEqual([100, 2600, 5100, 7600]);
    expect(mostRunning()).toBe(1);
    stop.abort();
    await loop;
  });

  it('ends after the running body when aborted, and leaves no sleeper', async () => {
    const { clock, stop, loop, running } = setUp({ every: 1000, takes: 500 });
    await clock.advance(200);
    expect(running()).toBe(1);
    stop.abort();
    await loop;
    expect(running()).toBe(0);
    await settle();
    expect(clock.sleepers).toBe(0);
  });
});
