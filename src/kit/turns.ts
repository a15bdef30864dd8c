import { type Clock, systemClock } from './clock.ts';

/** Milliseconds of work after which everything else in the process has a turn. */
const SLICE = 5;

/** Gives everything else in the process a turn, but not more often than it is needed. */
export type Turns = ReturnType<typeof createTurns>;

/**
 * Long work that shares these goes on one piece after the other, never two in the same turn of the event loop. `longest`:
 * milliseconds of work in which it may go on, where the others had the process for as long before: half of it, however busy
 * they are.
 */
export function createTurns(longest = SLICE, clock: Pick<Clock, 'monotonic'> = systemClock) {
  const waiting: (() => void)[] = [];
  let start = clock.monotonic();
  let end = start;
  let slice = SLICE;

  function next(): void {
    start = clock.monotonic();
    slice = Math.min(Math.max(SLICE, start - end), longest);
    waiting.shift()?.();
    // Set within an immediate, it is for the next turn of the event loop.
    if (waiting.length > 0) setImmediate(next);
  }

  return {
    /** Resolves at once while this work has not gone on for long. */
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
