import { setTimeout as sleep } from 'node:timers/promises';

/** Asks again until `look` neither throws nor gives undefined; after `patience` milliseconds its last word counts. */
export async function eventually<T>(look: () => Promise<T | undefined> | T | undefined, patience = 15_000): Promise<T> {
  const deadline = performance.now() + patience;
  for (;;) {
    let failure: unknown = new Error('nothing came of it');
    try {
      const found = await look();
      if (found !== undefined) return found;
    } catch (error) {
      failure = error;
    }
    if (performance.now() > deadline) throw failure;
    await sleep(25);
  }
}
