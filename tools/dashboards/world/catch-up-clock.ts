import { subscribe } from 'node:diagnostics_channel';
import { setImmediate } from 'node:timers/promises';
import { type Clock, systemClock } from '../../../src/kit/clock.ts';

/**
 * A clock that starts in the past. Until it reaches the system clock, it skips the time while all tasks sleep. Work takes its
 * real duration, so measured durations are correct.
 */
export interface CatchUpClock extends Clock {
  /** A clock for servers. A request in flight whose handler sleeps on this clock does not prevent time from being skipped. */
  readonly ofServers: Clock;
  /** Catches up with the system clock. Calls `each` every `every` (ms) of simulated time while no work is in flight. */
  catchUp(every: number, each: () => Promise<void>): Promise<void>;
}

interface Sleeper {
  readonly until: number;
  readonly wake: () => void;
}

/** Number of event loop turns after which all ready work has run. */
const TURNS = 12;

/** Active resources that represent work outside the event loop: files and compression. */
const WORK = /^(FSReq|Zlib|Brotli|WORK)/;

/** Maximum delay of a timer (ms). Longer timers fire immediately. */
const LONGEST_TIMER = 2 ** 31 - 1;

export function createCatchUpClock(behindMs: number): CatchUpClock {
  let behind = behindMs;
  const sleeping = new Set<Sleeper>();
  let requests = 0;
  for (const [end, by] of Object.entries({ create: 1, trailers: -1, error: -1 })) {
    subscribe(`undici:request:${end}`, () => {
      requests += by;
    });
  }
  // Times must not be negative, because callers use 0 as a time that has always passed.
  const monotonic = () => systemClock.monotonic() + behindMs - behind;

  function sleep(ms: number, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      const end = (settle: () => void) => {
        clearTimeout(timer);
        sleeping.delete(sleeper);
        signal?.removeEventListener('abort', onAbort);
        settle();
      };
      const sleeper = { until: monotonic() + ms, wake: () => end(resolve) };
      const onAbort = () => end(() => reject(signal?.reason));
      const timer = setTimeout(sleeper.wake, Math.min(ms, LONGEST_TIMER));
      signal?.addEventListener('abort', onAbort, { once: true });
      sleeping.add(sleeper);
    });
  }

  async function settle(): Promise<void> {
    do {
      for (let turn = 0; turn < TURNS; turn += 1) await setImmediate();
    } while (requests > 0 || process.getActiveResourcesInfo().some(name => WORK.test(name)));
  }

  const ofServers = {
    // Return whole milliseconds, like the system clock.
    now: () => Math.floor(systemClock.now() - behind),
    monotonic,
    async sleep(ms: number, signal?: AbortSignal) {
      requests -= 1;
      await sleep(ms, signal).finally(() => {
        requests += 1;
      });
    },
  };

  return {
    now: ofServers.now,
    monotonic,
    sleep,
    ofServers,
    async catchUp(every, each) {
      let next = monotonic();
      while (behind > 0) {
        await settle();
        if (monotonic() >= next) {
          await each();
          next += every;
          continue;
        }
        const first = Math.min(next, ...[...sleeping].map(({ until }) => until));
        behind -= Math.min(behind, Math.max(0, first - monotonic()));
        for (const { until, wake } of sleeping) if (until <= monotonic()) wake();
      }
    },
  };
}
