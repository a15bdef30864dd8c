import { subscribe } from 'node:diagnostics_channel';
import { setImmediate } from 'node:timers/promises';
import { type Clock, systemClock } from '../../../src/kit/clock.ts';

/**
 * Starts in the past and leaves out all time in which everyone sleeps, until it is the system's clock. What is done takes as
 * long as it really takes, so measured durations stay true.
 */
export interface CatchUpClock extends Clock {
  /** For servers: requests under way that sleep here do not keep time from being left out. */
  readonly ofServers: Clock;
  /** Catches up; calls `each` every `every` milliseconds of its time, with nothing under way. */
  catchUp(every: number, each: () => Promise<void>): Promise<void>;
}

interface Sleeper {
  readonly until: number;
  readonly wake: () => void;
}

/** Turns of the event loop in which everything that is ready runs. */
const TURNS = 12;

/** What is done beside the event loop: files and compression. */
const WORK = /^(FSReq|Zlib|Brotli|WORK)/;

/** Longer ones fire at once. */
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
  const monotonic = () => systemClock.monotonic() - behind;

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
    // Whole milliseconds, as every clock tells them.
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
