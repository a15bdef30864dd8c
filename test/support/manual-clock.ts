import type { Clock } from '../../src/kit/clock.ts';

export interface ManualClock extends Clock {
  /** Moves time on by `ms`, waking sleepers in order and letting what they do next happen before the next wakes. */
  advance(ms: number): Promise<void>;
  /** Sleepers that wait now. */
  readonly sleepers: number;
}

/** Lets everything that is ready to run, run. */
export async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await new Promise<void>(resolve => setImmediate(resolve));
}

/** A clock that moves only when told to. */
export function createManualClock(start = Date.UTC(2026, 0, 1)): ManualClock {
  let time = 0;
  let sleeping: { until: number; wake: () => void }[] = [];
  return {
    // Whole milliseconds, as every clock tells them.
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
