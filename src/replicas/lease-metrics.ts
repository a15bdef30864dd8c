import type { Clock } from '../kit/clock.ts';
import { createLeaseMeter, type LeaseMeter } from '../metrics/replicas.ts';
import { NO_ACCOUNT, type Replicas, type Store } from '../store/store.ts';

const accountsIn = (names: readonly string[]) => names.filter(name => name !== NO_ACCOUNT).length;

/** Wraps `replicas` to count renewals and moves of accounts. */
function counted(replicas: Replicas, meter: LeaseMeter, clock: Pick<Clock, 'monotonic'>): Replicas {
  /** Lost accounts that are not released yet. Their release is not counted. */
  const lost = new Set<string>();
  return {
    ...replicas,
    async renew(accounts) {
      const start = clock.monotonic();
      const seconds = () => (clock.monotonic() - start) / 1000;
      try {
        const result = await replicas.renew(accounts);
        // Each renewal reports lost accounts again until they are released.
        const lostNow = result.lost.filter(name => !lost.has(name));
        for (const name of lostNow) lost.add(name);
        meter.handedOver('gained', accountsIn(result.gained));
        meter.handedOver('lost', accountsIn(lostNow));
        meter.renewed('ok', seconds());
        return result;
      } catch (error) {
        meter.renewed('failed', seconds());
        throw error;
      }
    },
    async release(accounts) {
      await replicas.release(accounts);
      meter.handedOver('released', accountsIn(accounts.filter(name => !lost.delete(name))));
    },
  };
}

/** Returns the store with metrics of its leases. The metrics are undefined if the store is not shared. */
export function withLeaseMetrics(
  store: Store,
  clock: Pick<Clock, 'monotonic'>,
): { readonly store: Store; readonly leases: LeaseMeter | undefined } {
  const { replicas } = store;
  if (!replicas) return { store, leases: undefined };
  const leases = createLeaseMeter(() => replicas.sharing());
  return { store: { ...store, replicas: counted(replicas, leases, clock) }, leases };
}
