import type { Clock } from '../kit/clock.ts';
import type { Call } from './call.ts';
import { UpstreamError } from './errors.ts';
import type { TokenSource } from './token.ts';

/** A refused token is tried again after this many milliseconds: somebody may have allowed it meanwhile. */
export const RECHECK_AFTER = 300_000;

/** A reset of the token that is under way is waited for so long, milliseconds, looking this often whether it is done. */
const LONGEST_RESET = 60_000;
const LOOK_EVERY = 50;

/**
 * Each request carries the account's bearer token, asked for anew each time because it may have been changed on disk.
 * Once the service refuses it (401) nothing more is sent with that token but one request every five minutes; another
 * token is tried at once, and one that is just being reset is waited for. `onRejected` hears of every change.
 */
export const withBearer =
  (token: TokenSource, clock: Clock, onRejected: (rejected: boolean) => void) =>
  (call: Call): Call => {
    let refused: { readonly token: string; at: number } | undefined;
    const isUnauthorized = (error: unknown) => error instanceof UpstreamError && error.reason === 'unauthorized';

    /** Whether there is another token than `sent` now, or soon. */
    async function isReplaced(sent: string, signal: AbortSignal): Promise<boolean> {
      for (;;) {
        // Asked first: it ends only after the token has changed.
        const since = await token.beingReplacedSince?.();
        if ((await token()).reveal() !== sent) return true;
        if (since === undefined || clock.now() - since > LONGEST_RESET) return false;
        await clock.sleep(LOOK_EVERY, signal);
      }
    }

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
          // The token may have been replaced while the request was under way; one more try is enough.
          if (!changed && (await isReplaced(sent, request.signal))) continue;
          if (!refused) onRejected(true);
          refused = { token: sent, at: clock.monotonic() };
          throw error;
        }
      }
    };
  };
