import type { Clock } from '../kit/clock.ts';
import type { Replica, Replicas, Sharing } from '../store/store.ts';

/** Holder of each account, as of the last renewal. */
export type Holders = ReturnType<typeof createHolders>;

export function createHolders({ self, leaseTime, sharing }: Replicas, clock: Pick<Clock, 'monotonic'>) {
  const lastHolders = new Map<string, Replica>();
  /** Monotonic time at which each account was first found without a holder. */
  const unheld = new Map<string, number>();
  let seen: { readonly sharing: Sharing; readonly at: number } | undefined;

  /** Returns the last renewal with the monotonic time at which it was first read, to extrapolate the database's clock. */
  function current() {
    const last = sharing();
    if (!last || seen?.sharing.at === last.at) return seen;
    seen = { sharing: last, at: clock.monotonic() };
    const replicas = new Map(last.replicas.map(each => [each.id, each]));
    for (const [account, id] of last.holders) {
      const holder = replicas.get(id);
      if (holder) lastHolders.set(account, holder);
    }
    return seen;
  }

  function holderOf(account: string): Replica | undefined {
    const id = current()?.sharing.holders.get(account);
    const last = lastHolders.get(account);
    const holder = last?.id === id ? last : undefined;
    if (holder) unheld.delete(account);
    else if (!unheld.has(account)) unheld.set(account, clock.monotonic());
    return holder;
  }

  return {
    self,
    leaseTime,
    /** Returns the database's time (ms since the Unix epoch); undefined before the first renewal. */
    now(): number | undefined {
      const now = current();
      return now && now.sharing.at + clock.monotonic() - now.at;
    },
    sharing: (): Sharing | undefined => current()?.sharing,
    holderOf,
    lastHolderOf: (account: string): Replica | undefined => holderOf(account) ?? lastHolders.get(account),
    /** Returns how long this process has found no holder (ms); 0 if there is one. */
    unheldFor: (account: string): number =>
      holderOf(account) ? 0 : clock.monotonic() - (unheld.get(account) ?? clock.monotonic()),
  };
}
