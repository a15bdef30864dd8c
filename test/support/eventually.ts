import { setTimeout as sleep } from 'node:timers/promises';

/** Milliseconds that a busy machine may need for what takes a moment on a quiet one. */
const PATIENCE = 90_000;

/**
 * Asks again until `look` does not throw, and gives what it gave; when patience is at its end its last error counts. That is for
 * what never comes: how long something takes proves nothing, so less than the usual patience can't be asked for.
 */
export async function eventually<T>(look: () => Promise<T> | T, patience = PATIENCE): Promise<T> {
  const deadline = performance.now() + Math.max(patience, PATIENCE);
  for (;;) {
    try {
      return await look();
    } catch (error) {
      if (performance.now() > deadline) throw error;
    }
    await sleep(25);
  }
}
