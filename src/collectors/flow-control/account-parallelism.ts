import { withDeadline } from '../../kit/clock.ts';
import { MINUTE } from '../../kit/duration.ts';
import type { GlobalParallelism } from '../../model/service.ts';
import type { Reader } from '../../upstream/api.ts';
import { isMissingPath } from '../../upstream/errors.ts';

/** Time for which a value is used if it cannot be read again (ms). */
const VALID_FOR = 2 * MINUTE;
/** Interval of the reads if the service lacks the path (ms). */
const PROBE_EVERY = 60 * MINUTE;
/** Maximum duration of a read (ms), because the keys of the same round have to wait for it. */
const TIMEOUT = 5000;

/**
 * Creates a function that reads the account's parallelism at most once a minute. It returns undefined if the service does not
 * report it, and an empty object if it is unknown. It rejects only if `signal` is aborted. Call it after keys of the account have
 * been read: a missing path then shows that the service lacks it.
 */
export function createParallelismReader() {
  let last: { readonly value: GlobalParallelism | undefined; readonly at: number } | undefined;
  let [askedAt, nextAt] = [0, 0];
  return async (api: Reader, now: number, signal: AbortSignal): Promise<GlobalParallelism | undefined> => {
    if (now >= nextAt || now < askedAt) {
      // Set before the response arrives, because rounds run concurrently.
      [askedAt, nextAt] = [now, now + MINUTE];
      try {
        last = { value: await withDeadline(TIMEOUT, signal, deadline => api.globalParallelism(deadline)), at: now };
      } catch (error) {
        signal.throwIfAborted();
        if (isMissingPath(error)) {
          last = { value: undefined, at: now };
          nextAt = now + PROBE_EVERY;
        }
      }
    }
    if (!last) return {};
    const isValid = last.value === undefined || Math.abs(now - last.at) < VALID_FOR;
    return isValid ? last.value : {};
  };
}
