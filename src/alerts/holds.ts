import type { Clock } from '../kit/clock.ts';
import { isNotHeld, NO_ACCOUNT, type Store } from '../store/store.ts';

/** Whether what an account has to tell is this process's to tell. */
export interface Holds {
  /** To be asked right before something is told. Waits only where the lease may have ended. */
  has(account: string): true | Promise<boolean>;
  /** Whether a commit was refused because another replica goes on with the account. */
  isLost(account: string, error: unknown): boolean;
}

export interface HoldsDeps {
  readonly store: Store;
  readonly clock: Pick<Clock, 'monotonic'>;
  /** What no replica holds because it is no longer configured is told by the one that held it last. */
  isConfigured(account: string): boolean;
}

/** A row that never is: to remove it asks the database whether this replica holds the account, and changes nothing. */
const ASKING = 'alerts/held';
/** Milliseconds in which a database that did not answer is not asked again. */
const ASK_AGAIN = 5000;

/** This process has all accounts. */
export const holdsAll: Holds = { has: () => true, isLost: () => false };

/**
 * Without replicas everything is this process's. With them, an account is while its lease lasts. Where that has ended by this
 * process's clock, which may have been stopped, the database says. While it can't be reached the account stays this replica's:
 * an alert told twice is better than one that is never told. What is of no account the database does not guard: it waits.
 */
export function createHolds({ store, clock, isConfigured }: HoldsDeps): Holds {
  const { replicas } = store;
  if (!replicas) return holdsAll;
  let askAt = Number.NEGATIVE_INFINITY;

  async function ask(account: string): Promise<boolean> {
    if (account === NO_ACCOUNT) return false;
    if (!isConfigured(account) || clock.monotonic() < askAt) return true;
    try {
      await store.commit(account, [{ key: ASKING, value: null }]);
      return true;
    } catch (error) {
      if (isNotHeld(error)) return false;
      askAt = clock.monotonic() + ASK_AGAIN;
      return true;
    }
  }

  return {
    has: account => (replicas.remaining(account) > 0 ? true : ask(account)),
    isLost: (account, error) => isNotHeld(error) && isConfigured(account),
  };
}

/** Whether what is of no account is done by this process: by the replica that holds it, as of the last renewal. */
export const holdsNone = ({ replicas }: Pick<Store, 'replicas'>): boolean =>
  replicas === undefined || replicas.sharing()?.holders.get(NO_ACCOUNT) === replicas.self.id;
