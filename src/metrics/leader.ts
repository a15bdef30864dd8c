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

export const leaderFamilies = {
  leader: gauge(
    'delivery_watch_leader',
    'Whether this process leads the processes with the same schema (1) or is a standby (0). Also 0 if its lease may have expired.',
    ['schema'],
  ),
  renewals: counter(
    'delivery_watch_lease_renewals_total',
    'Renewals of the lease by the leader, and attempts of a standby to acquire it. failed: the database was unreachable or rejected the request.',
    ['outcome'],
  ),
  renewalSeconds: histogram(
    'delivery_watch_lease_renewal_duration_seconds',
    'Duration of these requests, including failed ones. The lease may expire if a renewal takes nearly as long as the lease time.',
  ),
} as const;

const BOUNDS = [0.005, 0.025, 0.1, 0.5, 1, 2.5, 5, 15];
const OUTCOMES = ['ok', 'failed'] as const;

export function createLeaseMeter() {
  const { leader, renewals, renewalSeconds } = leaderFamilies;
  const changes = { count: 0 };
  const durations = createHistogram(BOUNDS);
  const renewed = createCounter(
    renewals,
    OUTCOMES.map(outcome => ({ outcome })),
    changes,
  );
  return {
    renewed(outcome: (typeof OUTCOMES)[number], seconds: number): void {
      observeValue(durations, BOUNDS, seconds);
      renewed.inc({ outcome });
    },
    /** Returns a source for a group. `isLeader` is evaluated at each scrape. */
    sourceOf: (schema: string, isLeader: () => boolean): Source => ({
      families: Object.values(leaderFamilies),
      // Changes with each renewal, and when the lease expires without one.
      revision: () => `${changes.count} ${isLeader()}`,
      samples: () =>
        new Map<string, readonly Sample[]>([
          [leader.name, [{ labels: { schema }, value: Number(isLeader()) }]],
          [renewals.name, renewed.samples()],
          [renewalSeconds.name, histogramSamples({}, BOUNDS, durations)],
        ]),
    }),
  };
}
