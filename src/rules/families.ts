import { dataSources } from '../collectors/index.ts';
import { accountFamilies } from '../metrics/account-families.ts';
import type { Family } from '../metrics/family.ts';
import { type AlertCondition, selectorsOf } from './options.ts';

/** A metric family for alert rules. `collector` is undefined if the values do not come from a collector. */
export interface AlertFamily {
  readonly family: Family;
  readonly collector: string | undefined;
}

export const alertFamilies: ReadonlyMap<string, AlertFamily> = new Map(
  [
    // If several collectors share a family, alert rules on the family need the data of the first collector.
    ...dataSources
      .toReversed()
      .flatMap(({ name, families }) =>
        Object.values(families).map((family): AlertFamily => ({ family, collector: name })),
      ),
    ...accountFamilies.map((family): AlertFamily => ({ family, collector: undefined })),
  ]
    .filter(({ family: { type } }) => type === 'gauge' || type === 'counter')
    .map(each => [each.family.name, each]),
);

export const collectorsOf = (when: AlertCondition): readonly string[] =>
  when.kind === 'stale'
    ? [when.collector]
    : [...new Set(selectorsOf(when).flatMap(({ metric }) => alertFamilies.get(metric)?.collector ?? []))];
