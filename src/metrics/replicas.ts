import {
  counter,
  createHistogram,
  gauge,
  histogram,
  histogramSamples,
  observeValue,
  type Sample,
  type Source,
} from './family.ts';
import { createCounter } from './own.ts';

export const replicaFamilies = {
  leader: gauge(
    'delivery_watch_leader',
    'Whether this replica holds and collects the account (1) or not (0). Also 0 if its lease may have expired.',
    ['account'],
  ),
  replicas: gauge(
    'delivery_watch_replicas',
    'Replicas with current leases at the last renewal, including this one. Absent before the first renewal.',
  ),
  lastRenewal: gauge(
    'delivery_watch_lease_last_renewal_timestamp_seconds',
    'Last successful renewal of leases, by the database’s clock. Absent before the first renewal.',
  ),
  renewals: counter(
    'delivery_watch_lease_renewals_total',
    'Renewals of this replica’s leases by outcome. failed: the database was unreachable or rejected the renewal.',
    ['outcome'],
  ),
  renewalSeconds: histogram(
    'delivery_watch_lease_renewal_duration_seconds',
    'Duration of lease renewals, including failed ones. Leases may expire if a renewal takes nearly as long as the lease time.',
  ),
  handOvers: counter(
    'delivery_watch_lease_hand_overs_total',
    'Accounts that this replica gained, released, or lost because it did not renew the lease in time.',
    ['reason'],
  ),
} as const;

const BOUNDS = [0.005, 0.025, 0.1, 0.5, 1, 2.5, 5, 15];
const OUTCOMES = ['ok', 'failed'] as const;
const REASONS = ['gained', 'released', 'lost'] as const;

interface Shared {
  readonly at: number;
  readonly replicas: readonly unknown[];
}

export type LeaseMeter = ReturnType<typeof createLeaseMeter>;

export function createLeaseMeter(sharing: () => Shared | undefined) {
  const { leader, replicas, lastRenewal, renewals, renewalSeconds, handOvers } = replicaFamilies;
  const changes = { count: 0 };
  const durations = createHistogram(BOUNDS);
  const outcomes = OUTCOMES.map(outcome => ({ outcome }));
  const reasons = REASONS.map(reason => ({ reason }));
  const renewed = createCounter(renewals, outcomes, changes);
  const handed = createCounter(handOvers, reasons, changes);
  return {
    renewed(outcome: (typeof OUTCOMES)[number], seconds: number): void {
      observeValue(durations, BOUNDS, seconds);
      renewed.inc({ outcome });
    },
    handedOver(reason: (typeof REASONS)[number], accounts: number): void {
      handed.inc({ reason }, accounts);
    },
    /** Returns a source for the configured accounts. `isHeld` is evaluated at each scrape. */
    sourceOf(accounts: readonly string[], isHeld: (account: string) => boolean): Source {
      const values = () => accounts.map(account => Number(isHeld(account)));
      return {
        families: Object.values(replicaFamilies),
        // Changes with each renewal, and when a lease expires without one.
        revision: () => `${changes.count} ${values().join('')}`,
        samples() {
          const shared = sharing();
          return new Map<string, readonly Sample[]>([
            [leader.name, values().map((value, index) => ({ labels: { account: accounts[index] ?? '' }, value }))],
            [replicas.name, shared ? [{ labels: {}, value: shared.replicas.length }] : []],
            [lastRenewal.name, shared ? [{ labels: {}, value: shared.at / 1000 }] : []],
            [renewals.name, renewed.samples()],
            [renewalSeconds.name, histogramSamples({}, BOUNDS, durations)],
            [handOvers.name, handed.samples()],
          ]);
        },
      };
    },
  };
}
