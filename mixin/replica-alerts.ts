import { formatDuration } from '../src/kit/duration.ts';
import { replicaFamilies } from '../src/metrics/replicas.ts';
import { UNCOLLECTED } from '../src/metrics/thresholds.ts';
import { highestOf, latest, series } from '../src/rules/promql.ts';
import type { AlertSpec } from './alert.ts';
import { lastKnown } from './promql.ts';
import { DATABASE_AWAY, HELD_TWICE } from './thresholds.ts';

const { leader, renewals } = replicaFamilies;

const durationOf = (seconds: number) => formatDuration(seconds * 1000);
const renewed = (outcome: string) =>
  `sum by (cluster, namespace, job) (increase(${series(renewals, { outcome })}[${durationOf(DATABASE_AWAY)}]))`;

/** Alerts about replicas that share a database. Without a shared database, these series do not exist. */
export const replicaAlerts: readonly AlertSpec[] = [
  {
    name: 'DeliveryDatabaseAway',
    set: 'postgresql',
    severity: 'critical',
    // Counts renewals instead of comparing times, because the clocks of database, agents and Prometheus may differ by
    // minutes.
    expr: `${renewed('failed')} > 0 unless ${renewed('ok')} > 0`,
    summary: 'No replica of the agent can use the database.',
    description:
      'In the last three minutes {{ $value | printf "%.0f" }} renewals of leases failed and none succeeded. Replicas keep reading their accounts, but counters are frozen, auto-cancel is suspended, and no replica can take over from another.',
    dashboard: 'agent',
    isOfAgent: true,
  },
  {
    name: 'DeliveryAccountUncollected',
    set: 'postgresql',
    severity: 'critical',
    // A replica that cannot be scraped counts for five more minutes, because it may still be running.
    expr: `${lastKnown(highestOf(latest(series(leader))))} == 0`,
    for: durationOf(UNCOLLECTED),
    summary: 'No replica collects {{ $labels.account }}.',
    description:
      'No replica that can be scraped has held {{ $labels.account }} for more than two minutes. Its data is not updated, and no alert on it can start.',
    dashboard: 'agent',
  },
  {
    name: 'DeliveryAccountHeldTwice',
    set: 'postgresql',
    severity: 'warning',
    // A stopped replica counts for at most two minutes, even without a staleness marker.
    expr: `sum by (cluster, namespace, job, account) (last_over_time(${series(leader)}[2m])) > 1`,
    for: durationOf(HELD_TWICE),
    summary: 'More than one replica collects {{ $labels.account }}.',
    description:
      '{{ $value | printf "%.0f" }} replicas collect {{ $labels.account }}: most likely all but one of them cannot reach the database. API calls are multiplied. Only the holder of the lease counts events and acts.',
    dashboard: 'agent',
  },
];
