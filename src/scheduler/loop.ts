import type { Clock } from '../kit/clock.ts';

export interface LoopOptions {
  readonly every: number;
  readonly firstDelay: number;
  readonly clock: Clock;
  readonly random: () => number;
  readonly signal: AbortSignal;
  /** Must not throw. The next start waits for its end. */
  readonly body: (signal: AbortSignal) => Promise<void>;
}

/** Starts differ by up to this share of the interval, so that many loops do not march in step. */
const JITTER = 0.1;
/** What is left of an interval on average. */
export const MEAN_INTERVAL = 1 - JITTER / 2;

/** Runs `body` again and again until the signal is aborted, then resolves once it has ended. Starts that were missed are skipped. */
export async function runLoop({ every, firstDelay, clock, random, signal, body }: LoopOptions): Promise<void> {
  try {
    await clock.sleep(firstDelay, signal);
    while (!signal.aborted) {
      const next = clock.monotonic() + every * (1 - JITTER * random());
      await body(signal);
      await clock.sleep(Math.max(0, next - clock.monotonic()), signal);
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

export type Loops = ReturnType<typeof createLoops>;

export function createLoops({ clock, random }: Pick<LoopOptions, 'clock' | 'random'>) {
  // One controller a loop: a listener on a signal costs as much as it has listeners, and each sleep adds one.
  const stops: AbortController[] = [];
  const running: Promise<void>[] = [];
  let isClosed = false;
  return {
    /** Begins one, as `runLoop` does; resolves when it has ended. After `close` none begins. */
    async start(every: number, firstDelay: number, body: LoopOptions['body']): Promise<void> {
      if (isClosed) return;
      const stop = new AbortController();
      const loop = runLoop({ every, firstDelay, clock, random, signal: stop.signal, body });
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
