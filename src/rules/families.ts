import { dataSources } from '../collectors/index.ts';
import { accountFamilies } from '../metrics/account-families.ts';
import type { Family } from '../metrics/family.ts';
import { type AlertCondition, selectorsOf } from './options.ts';

const entry = (family: Family, collector?: string) => [family.name, { family, collector }] as const;

/** Metric families for alert rules. `collector` is undefined if the values do not come from a collector. */
export const alertFamilies = new Map(
  [
    // If several collectors share a family, alert rules on the family need the data of the first collector.
    ...dataSources
      .toReversed()
      .flatMap(({ name, families }) => Object.values(families).map(family => entry(family, name))),
    ...accountFamilies.map(family => entry(family)),
  ].filter(([, { family }]) => family.type === 'gauge' || family.type === 'counter'),
);

export const collectorsOf = (when: AlertCondition): readonly string[] =>
  when.kind === 'stale'
    ? [when.collector]
    : [...new Set(selectorsOf(when).flatMap(({ metric }) => alertFamilies.get(metric)?.collector ?? []))];
