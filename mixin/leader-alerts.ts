import { formatDuration } from '../src/kit/duration.ts';
import { leaderFamilies } from '../src/metrics/leader.ts';
import { series } from '../src/rules/promql.ts';
import type { AlertSpec } from './alert.ts';
import { DATABASE_AWAY, NO_LEADER, TWO_LEADERS } from './thresholds.ts';

const { leader, renewals } = leaderFamilies;

const durationOf = (seconds: number) => formatDuration(seconds * 1000);
const renewed = (outcome: string) =>
  `sum by (cluster, namespace, job) (increase(${series(renewals, { outcome })}[${durationOf(DATABASE_AWAY)}]))`;

/** Aggregates over the processes with the same schema. */
const ofGroup = (operator: 'max' | 'sum', expr: string) => `${operator} by (cluster, namespace, job, schema) (${expr})`;

/** Alerts about processes that share a database. Without a shared database, these series do not exist. */
export const leaderAlerts: readonly AlertSpec[] = [
  {
    name: 'DeliveryDatabaseAway',
    set: 'postgresql',
    severity: 'critical',
    // Counts renewals instead of comparing times, because the clocks of database, agents and Prometheus may differ by
    // minutes.
    expr: `${renewed('failed')} > 0 unless ${renewed('ok')} > 0`,
    summary: 'No process of the agent can use the database.',
    description:
      'In the last three minutes {{ $value | printf "%.0f" }} requests for the lease failed and none succeeded. The leader keeps reading the accounts, but counters are frozen, auto-cancel is suspended, and no standby can take over.',
    dashboard: 'agent',
    isOfAgent: true,
  },
  {
    name: 'DeliveryNoLeader',
    set: 'postgresql',
    severity: 'critical',
    expr: `${ofGroup('max', series(leader))} == 0`,
    for: durationOf(NO_LEADER),
    summary: 'No process leads the schema {{ $labels.schema }}.',
    description:
      'No process that can be scraped has led the schema {{ $labels.schema }} for a minute. The data of its accounts is not updated, and no alert on them can start.',
    dashboard: 'agent',
    isOfAgent: true,
  },
  {
    name: 'DeliveryTwoLeaders',
    set: 'postgresql',
    severity: 'warning',
    // A stopped leader counts for at most two minutes, even without a staleness marker.
    expr: `${ofGroup('sum', `last_over_time(${series(leader)}[2m])`)} > 1`,
    for: durationOf(TWO_LEADERS),
    summary: 'More than one process leads the schema {{ $labels.schema }}.',
    description:
      '{{ $value | printf "%.0f" }} processes lead the schema {{ $labels.schema }}: most likely all but one of them cannot reach the database. API calls and notifications are multiplied. Only the holder of the lease counts events and acts.',
    dashboard: 'agent',
    isOfAgent: true,
  },
];
