/** Time as a dependency. Only this file uses the process's clocks and timers. */
export interface Clock {
  /** Returns wall time (ms since the Unix epoch), for timestamps. May jump. */
  now(): number;
  /** Returns monotonic time (ms), for durations. */
  monotonic(): number;
  /** Resolves after `ms`. Aborting the signal rejects with its reason. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>;
}

/** Maximum clock skew relative to the service (ms). Above it, auto-cancel stops. */
export const MAX_CLOCK_SKEW = 5000;

/** Maximum correction by the service's clock (ms). A larger difference is only reported: its correction could hide all data. */
export const MAX_CLOCK_CORRECTION = 86_400_000;

/** Maximum delay of setTimeout (ms): Node.js fires longer timers immediately. */
const MAX_TIMER = 2 ** 31 - 1;

export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  // Thousands of loops sleep concurrently. This promise takes a third of the memory of a sleep by node:timers/promises.
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

/** Returns a clock that runs `speed` times as fast. Deadlines (`withDeadline`) still use real time. */
export function acceleratedClock(clock: Clock, speed: number): Clock {
  const [now, monotonic] = [clock.now(), clock.monotonic()];
  return {
    now: () => Math.floor(now + (clock.now() - now) * speed),
    monotonic: () => monotonic + (clock.monotonic() - monotonic) * speed,
    sleep: (ms, signal) => clock.sleep(ms / speed, signal),
  };
}

/**
 * Runs `work` with a signal that `parent` or a timeout aborts. `grace`: time for which work continues after `parent` is aborted
 * (ms). Unlike AbortSignal.any, leaves no listener on `parent`.
 */
export async function withDeadline<T>(
  ms: number,
  parent: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
  grace = 0,
): Promise<T> {
  const controller = new AbortController();
  const abort = () => controller.abort(parent.reason);
  let aborting: NodeJS.Timeout | undefined;
  const onAbort = () => {
    if (grace > 0) aborting = setTimeout(abort, grace);
    else abort();
  };
  if (parent.aborted) abort();
  parent.addEventListener('abort', onAbort, { once: true });
  const onTimeout = () => controller.abort(new DOMException(`no response within ${ms} ms`, 'TimeoutError'));
  // The deadline may already have passed, and Node.js warns about negative delays.
  const handle = setTimeout(onTimeout, Math.min(Math.max(0, ms), MAX_TIMER));
  try {
    return await work(controller.signal);
  } finally {
    clearTimeout(handle);
    clearTimeout(aborting);
    parent.removeEventListener('abort', onAbort);
  }
}

/** Awaits `work`. Rejects with the signal's reason as soon as the signal is aborted, without waiting for the work. */
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

/** Ends the process after `ms` if work still keeps it alive. */
export function endWithin(ms: number): void {
  setTimeout(() => process.exit(), ms).unref();
}
