import pLimit from 'p-limit';
import type { Clock } from '../kit/clock.ts';

export interface StartOptions<T> {
  readonly concurrency: number;
  /**
   * Time after which the next start no longer waits for a running one (ms). Extended while the process is busy, because further
   * starts would increase its load.
   */
  readonly timeout: number;
  readonly clock: Pick<Clock, 'monotonic' | 'sleep'>;
  readonly signal: AbortSignal;
  /** Starts an item and resolves when it is running. Must not throw. */
  readonly start: (item: T) => Promise<unknown>;
}

const SLEEP = 50;
/** Share of a delayed sleep that counts towards the timeout. */
const DELAYED_SHARE = 1 / 3;

/** Sleeps for `ms`, or longer while the process is busy. Resolves early if the signal is aborted. */
async function sleepAdaptively(ms: number, clock: StartOptions<unknown>['clock'], signal: AbortSignal): Promise<void> {
  try {
    for (let left = ms; left > 0; ) {
      const start = clock.monotonic();
      await clock.sleep(Math.min(left, SLEEP), signal);
      left -= Math.max(SLEEP, (clock.monotonic() - start) * DELAYED_SHARE);
    }
  } catch {
    // Aborted because the item has started.
  }
}

/**
 * Starts items in order, a few concurrently, to bound the resources that starting takes. Resolves when the last one has started
 * or timed out.
 */
export async function startStaggered<T>(
  items: readonly T[],
  { concurrency, timeout, clock, signal, start }: StartOptions<T>,
): Promise<void> {
  await pLimit(concurrency).map(items, async item => {
    if (signal.aborted) return;
    const started = new AbortController();
    await Promise.race([start(item), sleepAdaptively(timeout, clock, started.signal)]);
    started.abort();
  });
}
