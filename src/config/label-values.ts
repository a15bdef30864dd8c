import { breakdownFamilies, filterFamilies, LABEL_VALUES } from '../collectors/index.ts';
import type { AccountSettings, Config } from './schema.ts';

/** Returns the values that a label may have in these accounts; undefined if any value is possible. */
function valuesOf(family: string, label: string, { autoCancel }: Config, accounts: readonly AccountSettings[]) {
  if (label === 'filter') return accounts.flatMap(({ collect }) => collect.dlq.filters.map(({ name }) => name));
  if (label === 'rule') return autoCancel.rules.map(({ name }) => name);
  return LABEL_VALUES.get(family)?.[label];
}

/** Returns why these accounts never have a series of the family, or undefined. */
export function neverShown(family: string, accounts: readonly AccountSettings[]): string | undefined {
  const [dimension] = Object.entries(breakdownFamilies).find(([, { name }]) => name === family) ?? [];
  if (
    dimension !== undefined &&
    !accounts.some(({ collect }) => collect.dlq.breakdowns.some(each => each === dimension))
  ) {
    return `has no series: collect.dlq.breakdowns does not list ${dimension}`;
  }
  const isOfFilters = Object.values(filterFamilies).some(({ name }) => name === family);
  return isOfFilters && accounts.every(({ collect }) => collect.dlq.filters.length === 0)
    ? 'has no series: collect.dlq.filters is empty'
    : undefined;
}

/** Returns why no series has this label value, or undefined. */
export function neverIs(
  family: string,
  label: string,
  value: string,
  config: Config,
  accounts: readonly AccountSettings[],
): string | undefined {
  if (label === 'destination' && accounts.every(account => account.collect.events.destination === 'none')) {
    return 'there is no such label while collect.events.destination is none';
  }
  const values = valuesOf(family, label, config, accounts);
  if (!values || values.includes(value)) return undefined;
  if (values.length === 0) return `there is no ${label} called ${value}`;
  return `must be one of ${[...new Set(values)].join(', ')}; ${value} does not occur`;
}
