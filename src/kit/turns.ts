import { systemClock } from './clock.ts';

/** Milliseconds of work after which everything else in the process has a turn. */
const SLICE = 5;

/** Gives everything else in the process a turn, but not more often than it is needed. */
export interface Turns {
  /** Resolves at once while this work has not gone on for long. */
  pass(): Promise<void> | undefined;
}

/** Long work that shares these goes on one piece after the other, never two in the same turn of the event loop. */
export function createTurns(): Turns {
  const waiting: (() => void)[] = [];
  let start = systemClock.monotonic();

  function next(): void {
    start = systemClock.monotonic();
    waiting.shift()?.();
    // Set within an immediate, it is for the next turn of the event loop.
    if (waiting.length > 0) setImmediate(next);
  }

  return {
    pass() {
      if (systemClock.monotonic() - start < SLICE) return undefined;
      return new Promise(resolve => {
        waiting.push(resolve);
        if (waiting.length === 1) setImmediate(next);
      });
    },
  };
}
