import { unlessAborted } from '../kit/clock.ts';
import type { Store } from '../store/store.ts';
import type { Budget } from '../upstream/budget.ts';
import { UpstreamError } from '../upstream/errors.ts';
import type { Leadership } from './leadership.ts';

type Leading = Pick<Leadership, 'remaining' | 'confirm' | 'isUnavailable'>;

/** Permission of an opened account to send requests and to commit, until it is revoked. */
export type Session = ReturnType<typeof createSession>;

/** Creates the session of an account. `storeFor`: returns a handle that refuses commits once `isRevoked`; `leadership`: undefined if no other process uses the store. */
export function createSession(
  account: string,
  storeFor: (isRevoked: () => boolean) => Store,
  leadership: Leading | undefined,
) {
  let isRevoked = false;
  return {
    account,
    store: storeFor(() => isRevoked),
    leadership: {
      remaining: () => (isRevoked ? 0 : (leadership?.remaining() ?? Number.POSITIVE_INFINITY)),
      confirm: async () => !isRevoked && (leadership ? leadership.confirm() : true),
      isUnavailable: () => leadership?.isUnavailable() ?? false,
    } satisfies Leading,
    get isRevoked() {
      return isRevoked;
    },
    revoke(): void {
      isRevoked = true;
    },
  };
}

/**
 * Wraps a budget so that it verifies an expired lease after each wait: if this process was paused, another one may lead.
 */
export function whileLeading(budget: Budget, leadership: Pick<Leading, 'remaining' | 'confirm'> | undefined): Budget {
  if (!leadership) return budget;
  return {
    ...budget,
    run: (priority, signal, work) =>
      budget.run(priority, signal, async () => {
        if (leadership.remaining() <= 0) {
          const isLeading = await unlessAborted(leadership.confirm(), signal);
          signal.throwIfAborted();
          if (!isLeading) throw new UpstreamError('refused', 'another process leads');
        }
        return work();
      }),
  };
}
