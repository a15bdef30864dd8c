import { counter, gauge, type Sample, type Source } from './family.ts';
import { createCounter } from './own.ts';

export const leaderFamilies = {
  leader: gauge(
    'delivery_watch_leader',
    'Whether this process is the leader of all processes with the same schema (1) or a standby (0). A leader whose lease may have expired also reports 0.',
    ['schema'],
  ),
  renewals: counter(
    'delivery_watch_lease_renewals_total',
    'Attempts of the leader to renew the lease, and of standbys to acquire it, by outcome. failed: the database was unreachable or rejected the request.',
    ['outcome'],
  ),
} as const;

export function createLeaseMeter() {
  const { leader, renewals } = leaderFamilies;
  const changes = { count: 0 };
  const renewed = createCounter(renewals, [{ outcome: 'ok' }, { outcome: 'failed' }], changes);
  return {
    renewed: (outcome: 'ok' | 'failed'): void => renewed.inc({ outcome }),
    /** Returns a source for a group. `isLeader` is evaluated at each scrape. */
    sourceOf: (schema: string, isLeader: () => boolean): Source => ({
      families: Object.values(leaderFamilies),
      // Changes with each renewal, and when the lease expires without one.
      revision: () => `${changes.count} ${isLeader()}`,
      samples: () =>
        new Map<string, readonly Sample[]>([
          [leader.name, [{ labels: { schema }, value: Number(isLeader()) }]],
          [renewals.name, renewed.samples()],
        ]),
    }),
  };
}
