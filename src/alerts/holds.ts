import type { Clock } from '../kit/clock.ts';
import { isNotHeld, NO_ACCOUNT, type Store } from '../store/store.ts';

/** Asked before something of an account is told: whether it is this process's to tell. */
export type Holds = (account: string) => Promise<boolean>;

/** A row that never is: to remove it asks the database whether this replica holds the account, and changes nothing. */
const ASKING = 'alerts/held';
/** Milliseconds in which a database that did not answer is not asked again. */
const ASK_AGAIN = 5000;

/**
 * Without replicas everything is this process's. With them, an account is while its lease lasts. Where that has ended by this
 * process's clock, which may have been stopped, the database says. While it can't be reached the account stays this replica's:
 * an alert told twice is better than one that is never told. What is of no account the database does not guard: it waits.
 */
export function createHolds({
  store,
  clock,
}: {
  readonly store: Store;
  readonly clock: Pick<Clock, 'monotonic'>;
}): Holds {
  const { replicas } = store;
  if (!replicas) return async () => true;
  let askAt = Number.NEGATIVE_INFINITY;
  return async account => {
    if (replicas.remaining(account) > 0) return true;
    if (account === NO_ACCOUNT) return false;
    if (clock.monotonic() < askAt) return true;
    try {
      await store.commit(account, [{ key: ASKING, value: null }]);
    } catch (error) {
      if (isNotHeld(error)) return false;
      askAt = clock.monotonic() + ASK_AGAIN;
    }
    return true;
  };
}

/** Whether what is of no account is done by this process: by the replica that holds it, as of the last renewal. */
export const holdsNone = ({ replicas }: Store): boolean =>
  replicas === undefined || replicas.sharing()?.holders.get(NO_ACCOUNT) === replicas.self.id;
