import { type Clock, systemClock } from './clock.ts';

/** Minimum time between yields (ms). */
const SLICE = 5;

export type Yielder = ReturnType<typeof createYielder>;

/**
 * Interleaves long tasks with other work. Each piece of a task takes as long as the other work before it (at least 5 ms, at
 * most `longest`), so tasks take about half of a busy process's time.
 */
export function createYielder(longest = SLICE, clock: Pick<Clock, 'monotonic'> = systemClock) {
  const waiting: (() => void)[] = [];
  let start = clock.monotonic();
  let end = start;
  let slice = SLICE;

  function next(): void {
    start = clock.monotonic();
    slice = Math.min(Math.max(SLICE, start - end), longest);
    waiting.shift()?.();
    // An immediate set within an immediate runs in the next turn of the event loop.
    if (waiting.length > 0) setImmediate(next);
  }

  return {
    /** Returns undefined if the task may continue; otherwise a promise for its next turn. */
    pass(): Promise<void> | undefined {
      end = clock.monotonic();
      if (end - start < slice) return undefined;
      return new Promise(resolve => {
        waiting.push(resolve);
        if (waiting.length === 1) setImmediate(next);
      });
    },
  };
}
