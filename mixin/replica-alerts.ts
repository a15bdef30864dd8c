import { formatDuration } from '../src/kit/duration.ts';
import { replicaFamilies } from '../src/metrics/replicas.ts';
import { UNCOLLECTED } from '../src/metrics/thresholds.ts';
import { highestOf, latest, series } from '../src/rules/promql.ts';
import type { Alert } from './alert.ts';
import { DATABASE_AWAY, HELD_TWICE } from './thresholds.ts';

const { leader, renewals } = replicaFamilies;

const written = (seconds: number) => formatDuration(seconds * 1000);
const renewed = (outcome: string) =>
  `sum by (cluster, namespace, job) (increase(${series(renewals, { outcome })}[${written(DATABASE_AWAY)}]))`;

/** Replicas that share a database. Without them there are no such series. */
export const replicaAlerts: readonly Alert[] = [
  {
    name: 'DeliveryDatabaseAway',
    severity: 'critical',
    // Counted, not by the time of the last renewal: clocks of database, agents and Prometheus may differ by minutes.
    expr: `${renewed('failed')} > 0 unless ${renewed('ok')} > 0`,
    keepFiringFor: '5m',
    summary: 'No replica of the agent can use the database.',
    description:
      'In the last three minutes {{ $value | printf "%.0f" }} renewals of leases failed and none succeeded. Replicas go on reading what they hold, but counters stand still, auto-cancel cancels nothing, and no replica can take over from another.',
    dashboard: 'agent',
    isOfAgent: true,
  },
  {
    name: 'DeliveryAccountUncollected',
    severity: 'critical',
    // That of a replica that can't be scraped counts for five minutes more: it may well go on.
    expr: `${highestOf(latest(series(leader)))} == 0`,
    for: written(UNCOLLECTED),
    keepFiringFor: '5m',
    summary: 'No replica collects {{ $labels.account }}.',
    description:
      'For more than two minutes no replica that can be scraped has held {{ $labels.account }}, though it is configured. Nothing new about it is known, and no alert on it can start.',
    dashboard: 'agent',
  },
  {
    name: 'DeliveryAccountHeldTwice',
    severity: 'warning',
    // A replica that is gone counts for two minutes at most, whether Prometheus has noticed its end or not.
    expr: `sum by (cluster, namespace, job, account) (last_over_time(${series(leader)}[2m])) > 1`,
    for: written(HELD_TWICE),
    keepFiringFor: '5m',
    summary: 'More than one replica collects {{ $labels.account }}.',
    description:
      '{{ $value | printf "%.0f" }} replicas collect {{ $labels.account }}: most likely all but one of them cannot reach the database. API calls are multiplied. Only the holder of the lease counts events and acts.',
    dashboard: 'agent',
  },
];
