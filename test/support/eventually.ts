import { availableParallelism, loadavg } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';

/** What takes so many milliseconds at most on a machine with nothing else to do takes so many on this one, as busy as it is now. */
export const atThisLoad = (ms: number): number => ms * Math.max(1, (loadavg()[0] ?? 0) / availableParallelism());

/** Milliseconds between two looks: at first, and at most. */
const [SOON, SELDOM] = [25, 500];

/**
 * Asks again until `look` does not throw, and gives what it gave: ever more seldom, as a look has its price and nothing is then seen
 * much later than a tenth of the time it took. When patience, in milliseconds of a quiet machine, is at its end
 * the last error counts. That is for what never comes: how long something takes proves nothing.
 */
export async function eventually<T>(look: () => Promise<T> | T, patience = 90_000): Promise<T> {
  const start = performance.now();
  for (;;) {
    try {
      return await look();
    } catch (error) {
      if (performance.now() - start > atThisLoad(patience)) throw error;
    }
    await sleep(Math.min(SELDOM, Math.max(SOON, (performance.now() - start) / 10)));
  }
}
