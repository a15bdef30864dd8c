import type { Clock } from '../kit/clock.ts';

export interface LoopOptions {
  readonly every: number;
  readonly firstDelay: number;
  readonly clock: Clock;
  readonly random: () => number;
  readonly signal: AbortSignal;
  /** Must not throw. The next run starts only after this one has ended. */
  readonly body: (signal: AbortSignal) => Promise<void>;
  /** Returns when to repeat a failed run; undefined if the last run succeeded. */
  readonly retry?: (() => RetryPlan | undefined) | undefined;
  /** Sleeps before a retry. Default: `clock.sleep`. */
  readonly sleep?: ((retry: RetryPlan, signal: AbortSignal) => Promise<void>) | undefined;
}

/** How a failed run is repeated. */
export interface RetryPlan {
  /** Time from the end of the failed run to the next one (ms). */
  readonly delay: number;
  /** Whether the next run may start as soon as the cause of the failure has probably ended. */
  readonly mayStartEarlier: boolean;
}

/** Maximum share by which an interval is shortened at random, so that loops do not synchronize. */
export const JITTER = 0.1;
/** Average interval as a share of the configured one. */
export const MEAN_INTERVAL = 1 - JITTER / 2;

/** Runs `body` periodically until the signal is aborted, and resolves when the last run has ended. Skips missed starts. */
export async function runLoop({ every, firstDelay, clock, random, signal, body, ...of }: LoopOptions): Promise<void> {
  const { retry, sleep = ({ delay }) => clock.sleep(delay, signal) } = of;
  try {
    await clock.sleep(firstDelay, signal);
    while (!signal.aborted) {
      const next = clock.monotonic() + every * (1 - JITTER * random());
      await body(signal);
      const failed = retry?.();
      await (failed ? sleep(failed, signal) : clock.sleep(Math.max(0, next - clock.monotonic()), signal));
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

export type Loops = ReturnType<typeof createLoops>;

export function createLoops({ clock, random }: Pick<LoopOptions, 'clock' | 'random'>) {
  // One controller per loop: the cost of adding a listener, as each sleep does, grows with the number of listeners.
  const stops: AbortController[] = [];
  const running: Promise<void>[] = [];
  /** Functions that end the sleep before a retry. */
  const sleeping = new Set<() => void>();
  let isClosed = false;

  async function sleep({ delay, mayStartEarlier }: RetryPlan, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return;
    const ending = new AbortController();
    const wake = () => ending.abort();
    signal.addEventListener('abort', wake, { once: true });
    if (mayStartEarlier) sleeping.add(wake);
    try {
      await clock.sleep(delay, ending.signal);
    } catch (error) {
      if (!ending.signal.aborted) throw error;
    } finally {
      signal.removeEventListener('abort', wake);
      sleeping.delete(wake);
    }
  }

  return {
    /** Starts a loop like `runLoop`, and resolves when it has ended. Does nothing after `close`. */
    async start(
      every: number,
      firstDelay: number,
      body: LoopOptions['body'],
      retry?: LoopOptions['retry'],
    ): Promise<void> {
      if (isClosed) return;
      const stop = new AbortController();
      const loop = runLoop({ every, firstDelay, clock, random, signal: stop.signal, body, retry, sleep });
      stops.push(stop);
      running.push(loop);
      await loop;
    },
    /** Starts the retries that may start earlier. */
    retryNow(): void {
      for (const wake of sleeping) wake();
    },
    async close(): Promise<void> {
      isClosed = true;
      for (const stop of stops) stop.abort();
      await Promise.all(running);
    },
  };
}
