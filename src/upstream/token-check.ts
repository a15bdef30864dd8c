import type { Clock } from '../kit/clock.ts';
import type { Secret } from '../kit/secret.ts';
import { LARGEST_SINGLE } from './api.ts';
import type { Call } from './call.ts';
import { UpstreamError } from './errors.ts';
import { withRetry } from './retry.ts';
import { createSend, type SendDeps } from './send.ts';

/** What the service says of a token; an error where it could not be asked, or said nothing that tells. */
export type TokenVerdict = 'accepted' | 'refused' | UpstreamError;

/** Asks the service whether it takes a token, by the smallest read there is, tried again when it fails for a passing reason. */
export type TokenCheck = (token: Secret) => Promise<TokenVerdict>;

export interface TokenCheckDeps extends Omit<SendDeps, 'onBytes' | 'now'> {
  readonly clock: Clock;
  readonly random: () => number;
}

export function createTokenCheck({ clock, random, ...deps }: TokenCheckDeps): TokenCheck {
  const send = createSend({ ...deps, now: clock.now, onBytes: () => undefined });
  const call: Call = withRetry(clock, random)(send);
  return async token => {
    try {
      await call(
        {
          endpoint: 'dlq',
          method: 'GET',
          address: 'base',
          path: '/v2/dlq',
          template: '/v2/dlq',
          query: new URLSearchParams({ count: '1' }),
          priority: 'background',
          largest: LARGEST_SINGLE,
          signal: new AbortController().signal,
        },
        { authorization: `Bearer ${token.reveal()}` },
      );
      return 'accepted';
    } catch (error) {
      if (!(error instanceof UpstreamError)) throw error;
      if (error.reason === 'unauthorized') return 'refused';
      // Whoever may not do this is known all the same.
      return error.reason === 'forbidden' ? 'accepted' : error;
    }
  };
}
