import { dataSources } from '../collectors/index.ts';
import { createGlob } from '../kit/glob.ts';
import { accountFamilyNames } from '../metrics/account-families.ts';
import type { Path, Reporter } from './errors.ts';
import type { Config } from './schema.ts';

type Accounts = Config['accounts'];

/** Family that must not be excluded: without it, dashboards would show the agent as down. */
const NEEDED = 'delivery_up';

const NAMES: readonly string[] = [
  ...dataSources.flatMap(({ families }) => Object.values(families).map(({ name }) => name)),
  ...accountFamilyNames,
];

function checkPattern(pattern: string, path: Path, report: Reporter): void {
  const names = NAMES.filter(createGlob(pattern));
  if (names.includes(NEEDED)) {
    report.error(path, `matches ${NEEDED}, which cannot be excluded: without it, dashboards show the agent as down`);
  } else if (names.length === 0) {
    report.error(path, 'matches no metric family of an account (docs/metrics.md)');
  }
}

/** Reports patterns of `collect.families.exclude` that match nothing or too much. */
export function checkExcludedFamilies(config: Config, report: Reporter): void {
  for (const [number, pattern] of config.collect.families.exclude.entries()) {
    checkPattern(pattern, ['collect', 'families', 'exclude', number], report);
  }
  for (const [index, account] of config.accounts.entries()) {
    const own = ['accounts', index, 'collect', 'families', 'exclude'];
    if (!report.isGiven(own)) continue;
    for (const [number, pattern] of account.collect.families.exclude.entries()) {
      checkPattern(pattern, [...own, number], report);
    }
  }
}

export function excludedFamilies({ collect }: Accounts[number]): string[] {
  const excluded = collect.families.exclude.map(createGlob);
  return NAMES.filter(name => excluded.some(matches => matches(name)));
}
