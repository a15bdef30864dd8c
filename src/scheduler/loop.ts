import type { Runtime } from '../kit/runtime.ts';

export interface LoopOptions extends Pick<Runtime, 'clock' | 'random'> {
  readonly every: number;
  readonly firstDelay: number;
  readonly signal: AbortSignal;
  /** Must not throw. The next run starts only after this one has ended. */
  readonly body: (signal: AbortSignal) => Promise<void>;
  /** Returns the time from the end of a failed run to the next one (ms); undefined if the last run succeeded. */
  readonly retry?: (() => number | undefined) | undefined;
}

/** Maximum share by which an interval is shortened at random, so that loops do not synchronize. */
export const JITTER = 0.1;
/** Average interval as a share of the configured one. */
export const MEAN_INTERVAL = 1 - JITTER / 2;

/** Runs `body` periodically until the signal is aborted, and resolves when the last run has ended. Skips missed starts. */
export async function runLoop({ every, firstDelay, clock, random, signal, body, retry }: LoopOptions): Promise<void> {
  try {
    await clock.sleep(firstDelay, signal);
    while (!signal.aborted) {
      const next = clock.monotonic() + every * (1 - JITTER * random());
      await body(signal);
      await clock.sleep(retry?.() ?? Math.max(0, next - clock.monotonic()), signal);
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
  let isClosed = false;

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
      const loop = runLoop({ every, firstDelay, clock, random, signal: stop.signal, body, retry });
      stops.push(stop);
      running.push(loop);
      await loop;
    },
    async close(): Promise<void> {
      isClosed = true;
      for (const stop of stops) stop.abort();
      await Promise.all(running);
    },
  };
}
