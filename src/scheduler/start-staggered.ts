import type { Clock } from '../kit/clock.ts';

export interface StartOptions<T> {
  /** How many are starting at the same time. */
  readonly concurrency: number;
  /** Milliseconds after which one that is still starting is no longer waited for: it goes on, and the next begins. */
  readonly timeout: number;
  readonly clock: Pick<Clock, 'sleep'>;
  /** Aborted: no other begins. */
  readonly signal: AbortSignal;
  /** Begins one; resolves when it has started. Must not throw. */
  readonly start: (item: T) => Promise<unknown>;
}

/**
 * Starts many things in their order, a few at a time; resolves when the last has begun. What all of them need only while
 * they start is then needed a few times over, and not as often as there are things.
 */
export async function startStaggered<T>(
  items: readonly T[],
  { concurrency, timeout, clock, signal, start }: StartOptions<T>,
): Promise<void> {
  const queue = items.values();
  async function work(): Promise<void> {
    for (const item of queue) {
      if (signal.aborted) return;
      const started = new AbortController();
      const waited = clock.sleep(timeout, started.signal).catch(() => undefined);
      await Promise.race([start(item), waited]);
      started.abort();
    }
  }
  await Promise.all(Array.from({ length: concurrency }, work));
}
