import { collectors, dataSources, enabledRounds } from '../collectors/index.ts';
import { createGlob } from '../kit/glob.ts';
import { accountFamilyNames } from '../metrics/account-families.ts';
import type { Path, Reporter } from './errors.ts';
import { neverShown } from './label-values.ts';
import type { Config } from './schema.ts';

type Accounts = Config['accounts'];

/** Family that must not be excluded: without it, dashboards would show the agent as down. */
const NEEDED = 'delivery_up';

const NAMES: readonly string[] = [
  ...dataSources.flatMap(({ families }) => Object.values(families).map(({ name }) => name)),
  ...accountFamilyNames,
];

/** Returns a suggestion for a name that is not a family. */
function hintOf(pattern: string): string {
  const whole = pattern.replace(/_(bucket|sum|count)$/, '');
  if (NAMES.includes(whole)) return `; a histogram is excluded as a whole: write ${whole}`;
  const beginning = NAMES.filter(name => name.startsWith(pattern));
  if (beginning.length > 0) return `; write ${pattern}* for the ${beginning.length} families with this prefix`;
  return '';
}

function isShownByNone(name: string, config: Config, accounts: Accounts): boolean {
  const owner = collectors.find(({ families }) => Object.values(families).some(family => family.name === name));
  const isOff = owner && accounts.every(({ collect }) => !enabledRounds(collect).has(owner.name));
  return isOff || neverShown(name, config, accounts) !== undefined;
}

function checkPattern(pattern: string, config: Config, accounts: Accounts, path: Path, report: Reporter): void {
  const matches = createGlob(pattern);
  const names = NAMES.filter(matches);
  if (names.includes(NEEDED)) {
    report.error(path, `matches ${NEEDED}, which cannot be excluded: without it missing data looks like no data`);
  } else if (names.length === 0) {
    report.error(path, `matches no metric family of an account (docs/metrics.md)${hintOf(pattern)}`);
  } else if (accounts.length > 0 && names.every(name => isShownByNone(name, config, accounts))) {
    report.warn(path, 'matches only families that are not collected: it has no effect');
  }
}

/** Reports patterns of `collect.families.exclude` that match nothing or too much. */
export function checkExcludedFamilies(config: Config, report: Reporter): void {
  const own = (index: number) => ['accounts', index, 'collect', 'families', 'exclude'];
  const isOwn = config.accounts.map((_, index) => report.isGiven(own(index)));
  const inheriting = config.accounts.filter((_, index) => !isOwn[index]);
  for (const [number, pattern] of config.collect.families.exclude.entries()) {
    checkPattern(pattern, config, inheriting, ['collect', 'families', 'exclude', number], report);
  }
  for (const [index, account] of config.accounts.entries()) {
    if (!isOwn[index]) continue;
    for (const [number, pattern] of account.collect.families.exclude.entries()) {
      checkPattern(pattern, config, [account], [...own(index), number], report);
    }
  }
}

export function excludedFamilies({ collect }: Accounts[number]): string[] {
  const excluded = collect.families.exclude.map(createGlob);
  return NAMES.filter(name => excluded.some(matches => matches(name)));
}
