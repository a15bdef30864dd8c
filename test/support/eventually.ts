import { availableParallelism, loadavg } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';

/** What takes so many milliseconds at most on a machine with nothing else to do takes so many on this one, as busy as it is now. */
export const atThisLoad = (ms: number): number => ms * Math.max(1, (loadavg()[0] ?? 0) / availableParallelism());

/**
 * Asks again until `look` does not throw, and gives what it gave; when patience, in milliseconds of a quiet machine, is at its end
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
    await sleep(25);
  }
}
