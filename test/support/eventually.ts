import { setTimeout as sleep } from 'node:timers/promises';

/** Asks again until `look` does not throw, and gives what it gave; after `patience` milliseconds its last error counts. */
export async function eventually<T>(look: () => Promise<T> | T, patience = 15_000): Promise<T> {
  const deadline = performance.now() + patience;
  for (;;) {
    try {
      return await look();
    } catch (error) {
      if (performance.now() > deadline) throw error;
    }
    await sleep(25);
  }
}
