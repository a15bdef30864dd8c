import type { Clock } from '../../src/kit/clock.ts';

interface Sleeper {
  readonly until: number;
  readonly wake: () => void;
}

export interface ManualClock extends Clock {
  /** Advances time by `ms`, waking sleepers in order. Each sleeper's work runs before the next one wakes. */
  advance(ms: number): Promise<void>;
  /** Number of sleeping callers. */
  readonly sleepers: number;
}

/** Runs all work that is ready to run. */
export async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await new Promise<void>(resolve => setImmediate(resolve));
}

/** Creates a clock that moves only when `advance` is called. */
export function createManualClock(start = Date.UTC(2026, 0, 1)): ManualClock {
  let time = 0;
  const sleeping = new Set<Sleeper>();
  const nextSleeper = () => {
    let next: Sleeper | undefined;
    for (const sleeper of sleeping) if (!next || sleeper.until < next.until) next = sleeper;
    return next;
  };
  return {
    // Return whole milliseconds, as the system clock does.
    now: () => Math.floor(start + time),
    monotonic: () => time,
    sleep(ms, signal) {
      return new Promise((resolve, reject) => {
        if (signal?.aborted) return reject(signal.reason);
        const abort = () => {
          sleeping.delete(sleeper);
          reject(signal?.reason);
        };
        const wake = () => {
          signal?.removeEventListener('abort', abort);
          resolve();
        };
        const sleeper = { until: time + ms, wake };
        sleeping.add(sleeper);
        signal?.addEventListener('abort', abort);
      });
    },
    async advance(ms) {
      const end = time + ms;
      await settle();
      for (;;) {
        const next = nextSleeper();
        if (!next || next.until > end) break;
        time = Math.max(time, next.until);
        sleeping.delete(next);
        next.wake();
        await settle();
      }
      time = end;
      await settle();
    },
    get sleepers() {
      return sleeping.size;
    },
  };
}
