import { type Backoff, backoffDelay } from '../kit/backoff.ts';
import type { Clock } from '../kit/clock.ts';
import type { Call } from './call.ts';
import { UpstreamError } from './errors.ts';

const TRIES = 4;
const BACKOFF: Backoff = { first: 250, longest: 5000 };
/** A service that asks for more than this is left alone until the collector's next round. */
const LONGEST_RETRY_AFTER = 30_000;

/** Reads that failed for a passing reason are tried again, up to 4 times in all, later each time. */
export const withRetry =
  (clock: Clock, random: () => number) =>
  (call: Call): Call =>
  async (request, headers) => {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await call(request, headers);
      } catch (error) {
        if (!(error instanceof UpstreamError) || !error.retryable || attempt === TRIES) throw error;
        const asked = error.retryAfter ?? 0;
        if (asked > LONGEST_RETRY_AFTER) throw error;
        await clock.sleep(asked + backoffDelay(BACKOFF, attempt, random), request.signal);
      }
    }
  };
