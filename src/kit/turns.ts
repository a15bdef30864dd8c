import { systemClock } from './clock.ts';

/** Milliseconds of work after which everything else in the process has a turn. */
const SLICE = 8;
/** Items that are gone through between two looks at the clock: much less than a millisecond of work each. */
const A_LOOK = 100;

/** Gives everything else in the process a turn, but not more often than it is needed. */
export interface Turns {
  /** Resolves at once while this has not gone on for long. */
  pass(): Promise<void> | undefined;
}

/** Begins a piece of work that may take long. */
export function createTurns(): Turns {
  let start = systemClock.monotonic();
  return {
    pass() {
      if (systemClock.monotonic() - start < SLICE) return undefined;
      return new Promise(resolve =>
        setImmediate(() => {
          start = systemClock.monotonic();
          resolve();
        }),
      );
    },
  };
}

/** Goes through items, and lets everything else have turns. */
export async function inTurns<T>(items: Iterable<T>, take: (item: T) => void): Promise<void> {
  const turns = createTurns();
  let count = 0;
  for (const item of items) {
    take(item);
    count += 1;
    if (count % A_LOOK === 0) await turns.pass();
  }
}
