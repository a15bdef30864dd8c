import { allGroups } from '../../mixin/rules.ts';
import { accountPlan, collectors } from '../../src/collectors/index.ts';
import { alertingFamilies } from '../../src/metrics/alerting.ts';
import { autoCancelFamilies } from '../../src/metrics/auto-cancel.ts';
import type { Family } from '../../src/metrics/family.ts';
import { leaderFamilies } from '../../src/metrics/leader.ts';
import { objectiveFamilies } from '../../src/metrics/objectives.ts';
import { accountInfoFamily, ownFamilies } from '../../src/metrics/own.ts';
import { createProcessMetrics } from '../../src/metrics/process.ts';

const { source } = createProcessMetrics({ version: '', configHash: '', configLoadedAt: 0, endpoints: [] });

const ofAccounts: readonly Family[] = [
  ...collectors.flatMap(({ families }) => Object.values(families)),
  ...Object.values(accountPlan.families),
  ...Object.values(ownFamilies),
  ...Object.values(objectiveFamilies),
  ...Object.values(autoCancelFamilies),
  alertingFamilies.alerts,
  alertingFamilies.problem,
  accountInfoFamily([]),
];

function seriesOf({ name, type, labels }: Family, more: readonly string[]): [string, readonly string[]][] {
  const all = ['job', 'instance', 'pod', 'replica', 'cluster', 'namespace', 'team', 'node', ...more, ...labels];
  // prom-client also has summaries, which have _sum and _count, too.
  if (type !== 'histogram' && (type as string) !== 'summary') return [[name, all]];
  return [
    [`${name}_bucket`, [...all, 'le']],
    [`${name}_sum`, all],
    [`${name}_count`, all],
  ];
}

const ofAgents: readonly Family[] = [
  ...source.families,
  alertingFamilies.notifications,
  ...Object.values(leaderFamilies),
];

const records = Object.values(allGroups).flatMap(({ rules }) => rules.flatMap(({ record }) => record ?? []));
const OF_RECORDS = ['cluster', 'namespace', 'job', 'account', 'collector', 'objective', 'kind', 'severity', 'subject'];

/** All series that rules and dashboards may use, with their possible labels. */
export const knownSeries: ReadonlyMap<string, readonly string[]> = new Map([
  ...ofAccounts.flatMap(family => seriesOf(family, ['account'])),
  ...ofAgents.flatMap(family => seriesOf(family, [])),
  ['up', ['job', 'instance', 'cluster', 'namespace']],
  ...records.map(record => [record, OF_RECORDS] as const),
]);

export const knownFamilies = new Set([...ofAccounts, ...ofAgents].map(({ name }) => name));
