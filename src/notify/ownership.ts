import type { Holding } from '../replicas/holding.ts';
import { isNotHeld, NO_ACCOUNT } from '../store/store.ts';

/** Whether this process may send notifications for an account. */
export interface Ownership {
  /** Call immediately before sending. Waits only if the lease may have ended. */
  has(account: string): true | Promise<boolean>;
  /** Whether a commit was refused because another replica has taken over the account. */
  isLost(account: string, error: unknown): boolean;
}

export const ownsAll: Ownership = { has: () => true, isLost: () => false };

/**
 * Creates the check for a process with replicas. After a lease has expired by this process's clock, the database decides. While
 * it is unavailable, the process keeps its accounts, because a duplicate alert is better than none, but agent-wide notices wait.
 * Removed accounts belong to their last holder.
 */
export function createOwnership(
  leases: Pick<Holding, 'remaining' | 'confirm'>,
  isConfigured: (account: string) => boolean,
): Ownership {
  async function confirm(account: string): Promise<boolean> {
    if (account === NO_ACCOUNT) return false;
    return !isConfigured(account) || leases.confirm(account);
  }
  return {
    has: account => (leases.remaining(account) > 0 ? true : confirm(account)),
    isLost: (account, error) => isNotHeld(error) && isConfigured(account),
  };
}
