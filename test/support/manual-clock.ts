import type { Clock } from '../../src/kit/clock.ts';

export interface ManualClock extends Clock {
  /** Advances time by `ms`, waking sleepers in order. Each sleeper's work runs before the next one wakes. */
  advance(ms: number): Promise<void>;
  /** Number of current sleepers. */
  readonly sleepers: number;
}

/** Runs everything that is ready to run. */
export async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await new Promise<void>(resolve => setImmediate(resolve));
}

/** A clock that only `advance` moves. */
export function createManualClock(start = Date.UTC(2026, 0, 1)): ManualClock {
  let time = 0;
  let sleeping: { until: number; wake: () => void }[] = [];
  return {
    // Whole milliseconds, like the system clock.
    now: () => Math.floor(start + time),
    monotonic: () => time,
    sleep(ms, signal) {
      return new Promise((resolve, reject) => {
        if (signal?.aborted) return reject(signal.reason);
        const sleeper = { until: time + ms, wake: resolve };
        sleeping.push(sleeper);
        signal?.addEventListener('abort', () => {
          sleeping = sleeping.filter(other => other !== sleeper);
          reject(signal.reason);
        });
      });
    },
    async advance(ms) {
      const end = time + ms;
      await settle();
      for (;;) {
        const next = sleeping.filter(({ until }) => until <= end).sort((a, b) => a.until - b.until)[0];
        if (!next) break;
        time = Math.max(time, next.until);
        sleeping = sleeping.filter(other => other !== next);
        next.wake();
        await settle();
      }
      time = end;
      await settle();
    },
    get sleepers() {
      return sleeping.length;
    },
  };
}
