import { StoreError } from '../store/errors.ts';
import type { Store } from '../store/store.ts';
import type { Holding } from './holding.ts';

type Leased = Pick<Holding, 'remaining' | 'confirm' | 'isAway'>;

/** Permission of one opening of an account to send requests and to commit, until it is revoked. */
export type Session = ReturnType<typeof createSession>;

/** `holding`: undefined if no other process may hold the account. */
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
      isAway: () => holding?.isAway() ?? false,
    } satisfies Leased,
    get isRevoked() {
      return isRevoked;
    },
    /** Rejects all further requests and commits. */
    revoke(): void {
      isRevoked = true;
    },
  };
}
