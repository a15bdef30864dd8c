import { availableParallelism, loadavg } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';

/** Scales a duration on an idle machine to the current load. */
export const atThisLoad = (ms: number): number => ms * Math.max(1, (loadavg()[0] ?? 0) / availableParallelism());

/** Shortest and longest interval between two calls (ms). */
const [SHORTEST_WAIT, LONGEST_WAIT] = [25, 500];

/**
 * Retries `attempt` until it does not throw, and returns its result. Intervals grow with the elapsed time, so that
 * repeated attempts stay cheap. Throws the last error after `timeout` (ms on an idle machine), which only guards
 * against hangs.
 */
export async function eventually<T>(attempt: () => Promise<T> | T, timeout = 90_000): Promise<T> {
  const start = performance.now();
  for (;;) {
    try {
      return await attempt();
    } catch (error) {
      if (performance.now() - start > atThisLoad(timeout)) throw error;
    }
    await sleep(Math.min(LONGEST_WAIT, Math.max(SHORTEST_WAIT, (performance.now() - start) / 10)));
  }
}
