import type { Family } from '../src/metrics/family.ts';
import { replicaFamilies } from '../src/metrics/replicas.ts';
import { series } from '../src/rules/promql.ts';
import { ofRow } from './dashboard-links.ts';
import { each, type PanelSpec, type RowSpec } from './panel.ts';
import { chosen, highestTen, PER_TEN } from './queries.ts';

const { leader, replicas, lastRenewal, renewalSeconds, handOvers } = replicaFamilies;
const NOT_SHARED = 'replicas share no store';
/** Agent-wide series of each replica. */
const ofReplica = (family: Family, suffix: '' | '_bucket' = '') =>
  series(family, { job: /$job/, instance: /$instance/ }, suffix);

const panels: readonly PanelSpec[] = [
  {
    kind: 'stack',
    title: 'Accounts held',
    description: 'Which replica collects how many accounts? Together: as many as are configured.',
    queries: each('{{instance}}', `sum by (instance) (${chosen(leader)})`),
    noValue: NOT_SHARED,
  },
  {
    title: 'Replicas',
    description: 'How many replicas does each see in the database? All should see the same number.',
    queries: each('{{instance}}', highestTen(ofReplica(replicas))),
    hasManyLines: true,
    noValue: NOT_SHARED,
  },
  {
    kind: 'stack',
    title: 'Hand-overs',
    description:
      'How many accounts change hands, and why? Should be none but in rollouts. lost: not renewed in time, so another took over.',
    queries: each('{{reason}}', `sum by (reason) (increase(${ofReplica(handOvers)}[$__rate_interval]))`),
    noValue: NOT_SHARED,
  },
  {
    title: 'Age of the last renewal',
    description: `How long ago did each replica last reach the database? Seconds, where all is well. ${PER_TEN}`,
    unit: 'seconds',
    queries: each('{{instance}}', highestTen(`time() - ${ofReplica(lastRenewal)}`)),
    hasManyLines: true,
    noValue: NOT_SHARED,
  },
  {
    title: 'Renewal duration, p95',
    description: `How long do renewals of leases take? Must stay far below the lease time. ${PER_TEN}`,
    unit: 'seconds',
    queries: each(
      '{{instance}}',
      highestTen(
        `histogram_quantile(0.95, sum by (instance, le) (rate(${ofReplica(renewalSeconds, '_bucket')}[$__rate_interval]))) >= 0`,
      ),
    ),
    hasManyLines: true,
    noValue: NOT_SHARED,
  },
  {
    kind: 'table',
    title: 'Accounts with no or two holders',
    description: 'Which accounts does no replica collect, or more than one? In a hand-over for a moment.',
    labels: { account: 'Account' },
    columns: [
      {
        title: 'Holders',
        width: 90,
        expr: `topk(50, sum by (cluster, namespace, job, account) (${chosen(leader)}) != 1)`,
      },
    ],
    sortBy: ['Holders'],
    links: { Account: ofRow('agent', 'overview') },
    noValue: 'None: every account has one holder',
  },
];

/** Replicas that share a database, and the holders of accounts. */
export const replicaRow: RowSpec = {
  title: 'Replicas that share a database',
  isCollapsed: true,
  panels: panels,
};
