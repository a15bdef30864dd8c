import { dataSources } from '../collectors/index.ts';
import { createGlob } from '../kit/glob.ts';
import { accountFamilyNames } from '../metrics/account-families.ts';
import type { Path, Reporter } from './errors.ts';
import type { AccountSettings, Config } from './schema.ts';

/** Family that must not be excluded: without it, dashboards would show the agent as down. */
const NEEDED = 'delivery_up';

const NAMES: readonly string[] = [
  ...dataSources.flatMap(({ families }) => Object.values(families).map(({ name }) => name)),
  ...accountFamilyNames,
];

/** Reports patterns of `collect.families.exclude`, at `path`, that match nothing or too much. */
export function checkExcluded({ families }: Config['collect'], path: Path, report: Reporter): void {
  for (const [number, pattern] of families.exclude.entries()) {
    const names = NAMES.filter(createGlob(pattern));
    if (names.includes(NEEDED)) {
      const message = `matches ${NEEDED}, which cannot be excluded: without it, dashboards show the agent as down`;
      report.error([...path, number], message);
    } else if (names.length === 0) {
      report.error([...path, number], 'matches no metric family of an account (docs/metrics.md)');
    }
  }
}

export function excludedFamilies({ collect }: AccountSettings): string[] {
  const excluded = collect.families.exclude.map(createGlob);
  return NAMES.filter(name => excluded.some(matches => matches(name)));
}
