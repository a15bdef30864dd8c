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
 * Without replicas everything is this process's. With them an account is while its lease lasts; where that has ended by this
 * process's clock, which may have been stopped, the database says. While the database is away an account stays where it is: an
 * alert told twice is better than one that is never told. What is of no account waits: nothing guards its rows. `isConfigured`:
 * what no replica can hold any more is told by the one that held it last.
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
