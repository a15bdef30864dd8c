import { unlessAborted } from '../kit/clock.ts';
import { someOf } from '../kit/text.ts';
import { StoreError } from '../store/errors.ts';
import { NO_ACCOUNT, type Store } from '../store/store.ts';
import type { Budget } from '../upstream/budget.ts';
import { UpstreamError } from '../upstream/errors.ts';
import type { Holding } from './holding.ts';

type Leased = Pick<Holding, 'remaining' | 'confirm' | 'isUnavailable'>;

/** Permission of an opened account to send requests and to commit, until it is revoked. */
export type Session = ReturnType<typeof createSession>;

/** Creates the session of an account. `holding`: undefined if no other process can own the account. */
export function createSession(account: string, store: Store, holding: Leased | undefined) {
  let isRevoked = false;
  return {
    account,
    store: {
      ...store,
      async commit(...what) {
        if (isRevoked) throw new StoreError('not_held', `the account ${account}`);
        return store.commit(...what);
      },
    } satisfies Store,
    holding: {
      remaining: name => (isRevoked ? 0 : (holding?.remaining(name) ?? Number.POSITIVE_INFINITY)),
      confirm: async name => !isRevoked && (holding ? holding.confirm(name) : true),
      isUnavailable: () => holding?.isUnavailable() ?? false,
    } satisfies Leased,
    get isRevoked() {
      return isRevoked;
    },
    revoke(): void {
      isRevoked = true;
    },
  };
}

/**
 * Wraps a budget so that it verifies an expired lease after each wait: if this process was paused, another replica may own the
 * account.
 */
export function whileHeld(
  budget: Budget,
  account: string,
  holding: Pick<Holding, 'remaining' | 'confirm'> | undefined,
): Budget {
  if (!holding) return budget;
  return {
    ...budget,
    run: (priority, signal, work) =>
      budget.run(priority, signal, async () => {
        if (holding.remaining(account) <= 0) {
          const isHeld = await unlessAborted(holding.confirm(account), signal);
          signal.throwIfAborted();
          if (!isHeld) throw new UpstreamError('refused', 'another replica owns the account');
        }
        return work();
      }),
  };
}

/** Returns the fields of a log line about accounts that this replica gained and lost. */
export function handoverFields(gained: readonly string[], lost: readonly string[]): Readonly<Record<string, string>> {
  const named = (accounts: readonly string[]) =>
    someOf(accounts.map(account => (account === NO_ACCOUNT ? '(shared: heartbeat)' : account)));
  return {
    ...(gained.length > 0 && { gained: named(gained) }),
    ...(lost.length > 0 && { lost: named(lost) }),
  };
}
