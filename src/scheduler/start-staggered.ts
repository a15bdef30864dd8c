import type { Clock } from '../kit/clock.ts';

export interface StartOptions<T> {
  readonly concurrency: number;
  /**
   * Milliseconds after which the next start does not wait for one that is still running. They are counted in short sleeps,
   * which take longer while this process is busy: then more starts would make it busier.
   */
  readonly timeout: number;
  readonly clock: Pick<Clock, 'monotonic' | 'sleep'>;
  readonly signal: AbortSignal;
  /** Begins one; resolves when it has started. Must not throw. */
  readonly start: (item: T) => Promise<unknown>;
}

const SHORT = 50;
/** A late one counts for this part of what it took. */
const LATE = 1 / 3;

/** Resolves after `ms` of them, or when the signal is aborted. */
async function patience(ms: number, clock: StartOptions<unknown>['clock'], signal: AbortSignal): Promise<void> {
  try {
    for (let left = ms; left > 0; ) {
      const start = clock.monotonic();
      await clock.sleep(Math.min(left, SHORT), signal);
      left -= Math.max(SHORT, (clock.monotonic() - start) * LATE);
    }
  } catch {
    // It has started.
  }
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
      await Promise.race([start(item), patience(timeout, clock, started.signal)]);
      started.abort();
    }
  }
  await Promise.all(Array.from({ length: concurrency }, work));
}
