import {
  accountRounds,
  breakdownFamilies,
  filterFamilies,
  LABEL_VALUES,
  scheduleFamilies,
  schedulesOf,
} from '../collectors/index.ts';
import { createGlob } from '../kit/glob.ts';
import { OBJECTIVES } from '../metrics/objectives.ts';
import type { AccountSettings, Config } from './schema.ts';

const OTHER = '__other__';
const unique = (all: readonly string[]) => [...new Set(all)];

function showsKey(account: AccountSettings, key: string): boolean {
  const { include, exclude, watch } = account.collect.flowControl;
  const isAny = (globs: readonly string[]) => globs.some(glob => createGlob(glob)(key));
  return key === OTHER || watch.includes(key) || ((include.length === 0 || isAny(include)) && !isAny(exclude));
}

const isOf = (families: Readonly<Record<string, { readonly name: string }>>, family: string) =>
  Object.values(families).some(({ name }) => name === family);
const isOfSchedules = (family: string) => isOf(scheduleFamilies, family);

const namesOfSchedules = (schedules: Config['schedules'], accounts: readonly AccountSettings[]) =>
  accounts.flatMap(account => schedulesOf(schedules, account.name).map(({ name }) => name));

/** Returns the values that a label may have in these accounts; undefined if any value is possible. */
function valuesOf(
  family: string,
  label: string,
  { autoCancel, schedules }: Config,
  accounts: readonly AccountSettings[],
): readonly string[] | undefined {
  const closed = LABEL_VALUES.get(family)?.[label];
  if (closed) return closed;
  switch (label) {
    case 'schedule':
      return isOfSchedules(family) ? unique(namesOfSchedules(schedules, accounts)) : undefined;
    case 'filter':
      return unique(accounts.flatMap(({ collect }) => collect.dlq.filters.map(({ name }) => name)));
    case 'objective':
      return OBJECTIVES;
    case 'collector':
      return unique(accounts.flatMap(({ collect }) => [...accountRounds(collect).keys()]));
    case 'round':
      return unique(accounts.flatMap(({ collect }) => [...accountRounds(collect).values()].flatMap(Object.keys)));
    case 'rule':
      return autoCancel.rules.map(({ name }) => name);
    default:
      return undefined;
  }
}

/** Returns why these accounts never have a series of the family, or undefined. */
export function neverShown(
  family: string,
  { schedules }: Config,
  accounts: readonly AccountSettings[],
): string | undefined {
  const [dimension] = Object.entries(breakdownFamilies).find(([, { name }]) => name === family) ?? [];
  if (
    dimension !== undefined &&
    !accounts.some(({ collect }) => collect.dlq.breakdowns.some(each => each === dimension))
  ) {
    return `has no series: collect.dlq.breakdowns does not list ${dimension}`;
  }
  if (isOfSchedules(family) && namesOfSchedules(schedules, accounts).length === 0) {
    return 'has no series: schedules is empty';
  }
  return isOf(filterFamilies, family) && accounts.every(({ collect }) => collect.dlq.filters.length === 0)
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
  if (label === 'flow_control_key' && !accounts.some(account => showsKey(account, value))) {
    return `${value} is not shown: collect.flowControl.include and exclude filter it out`;
  }
  if (label === 'destination' && accounts.every(account => account.collect.events.destination === 'none')) {
    return 'there is no such label while collect.events.destination is none';
  }
  const values = valuesOf(family, label, config, accounts);
  if (!values || values.includes(value)) return undefined;
  if (values.length === 0) return `there is no ${label} called ${value}`;
  return `must be one of ${values.join(', ')}; ${value} does not occur`;
}
