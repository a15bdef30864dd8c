import { isNotHeld, NO_ACCOUNT } from '../store/store.ts';

/** Whether what an account has to tell is this process's to tell. */
export interface Holds {
  /** To be asked right before something is told. Waits only where the lease may have ended. */
  has(account: string): true | Promise<boolean>;
  /** Whether a commit was refused because another replica goes on with the account. */
  isLost(account: string, error: unknown): boolean;
}

export interface Leased {
  /** Milliseconds for which the account is surely held; 0 where it may be another's. */
  remaining(account: string): number;
  /** Asks the database whose it is. While that is away the account counts as held. */
  confirm(account: string): Promise<boolean>;
}

export const holdsAll: Holds = { has: () => true, isLost: () => false };

/**
 * Without replicas this process holds everything. With them it holds an account while its lease lasts by its own clock; after
 * that the database decides. While the database is unavailable the account stays: an alert that is sent twice is better than
 * none. Agent-wide notices then wait. `isConfigured`: accounts that were removed belong to their last holder.
 */
export function createHolds(leases: Leased, isConfigured: (account: string) => boolean): Holds {
  async function ask(account: string): Promise<boolean> {
    if (account === NO_ACCOUNT) return false;
    return !isConfigured(account) || leases.confirm(account);
  }
  return {
    has: account => (leases.remaining(account) > 0 ? true : ask(account)),
    isLost: (account, error) => isNotHeld(error) && isConfigured(account),
  };
}
