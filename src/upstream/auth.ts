import type { Clock } from '../kit/clock.ts';
import type { Call } from './call.ts';
import { UpstreamError } from './errors.ts';
import type { TokenSource } from './token.ts';

/** A refused token is tried again after this many milliseconds: somebody may have allowed it meanwhile. */
export const RECHECK_AFTER = 300_000;

/**
 * Each request carries the account's bearer token, asked for anew each time because it may have been changed on disk.
 * Once the service refuses it (401) nothing more is sent with that token but one request every five minutes; another
 * token is tried at once. `onRejected` hears of every change.
 */
export const withBearer =
  (token: TokenSource, clock: Clock, onRejected: (rejected: boolean) => void) =>
  (call: Call): Call => {
    let refused: { readonly token: string; at: number } | undefined;
    const isUnauthorized = (error: unknown) => error instanceof UpstreamError && error.reason === 'unauthorized';

    return async (request, headers) => {
      for (let changed = false; ; changed = true) {
        const sent = (await token()).reveal();
        if (refused?.token === sent) {
          if (clock.monotonic() - refused.at < RECHECK_AFTER) {
            throw new UpstreamError('unauthorized', 'the service refused the token; it is tried again every 5 minutes');
          }
          // Taken before the answer, so that one request asks and not all that wait.
          refused.at = clock.monotonic();
        }
        try {
          const answer = await call(request, { ...headers, authorization: `Bearer ${sent}` });
          if (refused) onRejected(false);
          refused = undefined;
          return answer;
        } catch (error) {
          if (!isUnauthorized(error)) throw error;
          if (!refused) onRejected(true);
          refused = { token: sent, at: clock.monotonic() };
          // The token may have been replaced while the request was under way; one more try is enough.
          if (changed || (await token()).reveal() === sent) throw error;
        }
      }
    };
  };
