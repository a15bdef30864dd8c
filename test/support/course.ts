import { setImmediate } from 'node:timers/promises';
import type { Clock } from '../../src/kit/clock.ts';

/** A clock that advances immediately when a caller sleeps. */
export interface DrivenClock extends Clock {
  /** Advances `monotonic` to `time` unless it is already later. */
  reach(time: number): void;
}

export function createDrivenClock(start = Date.UTC(2026, 0, 1)): DrivenClock {
  let time = 0;
  const reach = (until: number) => {
    time = Math.max(time, until);
  };
  return {
    now: () => Math.floor(start + time),
    monotonic: () => time,
    reach,
    // Yield before advancing, so that concurrent sleepers count from the same time.
    async sleep(ms, signal) {
      const until = time + ms;
      await setImmediate();
      signal?.throwIfAborted();
      reach(until);
    },
  };
}

const MINUTE = 60_000;

/** Runs the rounds sequentially, each when it is due, and calls `scrape` every minute. */
export async function drive(
  clock: DrivenClock,
  rounds: readonly { readonly every: number; run(signal: AbortSignal): Promise<void> }[],
  minutes: number,
  scrape: (minute: number) => void | Promise<void>,
): Promise<void> {
  const { signal } = new AbortController();
  const due = new Map(rounds.map(round => [round, 0]));
  for (let minute = 0; minute <= minutes; minute += 1) {
    for (;;) {
      const [next, at] = [...due].reduce((first, other) => (other[1] < first[1] ? other : first));
      if (at > minute * MINUTE) break;
      clock.reach(at);
      await next.run(signal);
      due.set(next, Math.max(at + next.every, clock.monotonic()));
    }
    clock.reach(minute * MINUTE);
    await scrape(minute);
  }
}
