import type { Clock } from '../kit/clock.ts';
import { createLeaseMeter, type LeaseMeter } from '../metrics/replicas.ts';
import { NO_ACCOUNT, type Replicas, type Store } from '../store/store.ts';

const accountsIn = (names: readonly string[]) => names.filter(name => name !== NO_ACCOUNT).length;

/** The same replicas; what they do about leases is counted. */
function counted(replicas: Replicas, meter: LeaseMeter, clock: Pick<Clock, 'monotonic'>): Replicas {
  /** Lost, and not yet released: then nothing is given back. */
  const lost = new Set<string>();
  return {
    ...replicas,
    async renew(accounts) {
      const start = clock.monotonic();
      const seconds = () => (clock.monotonic() - start) / 1000;
      try {
        const turn = await replicas.renew(accounts);
        // Named again at each renewal until they are released.
        const lostNow = turn.lost.filter(name => !lost.has(name));
        for (const name of lostNow) lost.add(name);
        meter.handedOver('gained', accountsIn(turn.gained));
        meter.handedOver('lost', accountsIn(lostNow));
        meter.renewed('ok', seconds());
        return turn;
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

/** The store, as all of this process use it, and the numbers of what it shares: undefined where it shares nothing. */
export function withLeaseMetrics(
  store: Store,
  clock: Pick<Clock, 'now' | 'monotonic'>,
): { readonly store: Store; readonly leases: LeaseMeter | undefined } {
  const { replicas } = store;
  if (!replicas) return { store, leases: undefined };
  const leases = createLeaseMeter(() => replicas.sharing(), clock.now);
  return { store: { ...store, replicas: counted(replicas, leases, clock) }, leases };
}
