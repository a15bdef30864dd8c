/** Time as a dependency. Only this file uses the clocks and timers of the process. */
export interface Clock {
  /** Returns wall time (ms since the Unix epoch), which may jump. For timestamps that leave the process. */
  now(): number;
  /** Returns the time of a clock that never goes backwards (ms). For durations. */
  monotonic(): number;
  /** Resolves after `ms`; rejects with the signal's reason as soon as the signal is aborted. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

/** Maximum difference between this machine's clock and the service's (ms). Above it, auto-cancel stops. */
export const MAX_CLOCK_SKEW = 5000;

/** Longest delay of setTimeout (a signed 32-bit number of ms, 24.8 days). Node.js fires timers with a longer delay immediately. */
const MAX_TIMER = 2 ** 31 - 1;

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  // Thousands of loops sleep concurrently. One promise takes a third of the memory of node:timers/promises.
  sleep: (ms, signal) =>
    new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason);
      let handle: NodeJS.Timeout;
      const onAbort = () => {
        clearTimeout(handle);
        reject(signal?.reason);
      };
      const wait = (left: number) => {
        handle = setTimeout(
          () => {
            if (left > MAX_TIMER) return wait(left - MAX_TIMER);
            signal?.removeEventListener('abort', onAbort);
            resolve();
          },
          Math.min(left, MAX_TIMER),
        );
      };
      signal?.addEventListener('abort', onAbort, { once: true });
      wait(Math.max(0, ms));
    }),
};

/** Returns a clock on which time passes `speed` times as fast from now on. Deadlines (`withDeadline`) stay real. */
export function acceleratedClock(clock: Clock, speed: number): Clock {
  const [now, monotonic] = [clock.now(), clock.monotonic()];
  return {
    now: () => Math.floor(now + (clock.now() - now) * speed),
    monotonic: () => monotonic + (clock.monotonic() - monotonic) * speed,
    sleep: (ms, signal) => clock.sleep(ms / speed, signal),
  };
}

/**
 * Runs `work` with a signal that is aborted when `parent` is, or after `ms` with a `TimeoutError`. The listener and timer are
 * removed when `work` ends (AbortSignal.any would keep them as long as `parent` lives).
 */
export async function withDeadline<T>(
  ms: number,
  parent: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const controller = new AbortController();
  const onAbort = () => controller.abort(parent.reason);
  if (parent.aborted) onAbort();
  parent.addEventListener('abort', onAbort, { once: true });
  const onTimeout = () => controller.abort(new DOMException(`no response within ${ms} ms`, 'TimeoutError'));
  const handle = setTimeout(onTimeout, Math.min(ms, MAX_TIMER));
  try {
    return await work(controller.signal);
  } finally {
    clearTimeout(handle);
    parent.removeEventListener('abort', onAbort);
  }
}

/** Returns the result of `work`. Aborting the signal rejects with its reason at once and abandons the work. */
export async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const aborted = Promise.withResolvers<never>();
  const onAbort = () => aborted.reject(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    return await Promise.race([work, aborted.promise]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

/** Ends the process after `ms` if running work keeps it alive. */
export function endWithin(ms: number): void {
  setTimeout(() => process.exit(), ms).unref();
}
