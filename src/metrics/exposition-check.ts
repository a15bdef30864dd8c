import { familyName } from './exposition-text.ts';
import type { Family, FamilyType } from './family.ts';

const NAME = /^[a-zA-Z_][a-zA-Z0-9_]*$/;

const ENDING: Readonly<Partial<Record<FamilyType, RegExp>>> = { counter: /._total$/, info: /._info$/ };

/** Suffixes that OpenMetrics appends to a family's name; other families must not use the resulting names. */
const RESERVED: Readonly<Record<FamilyType, readonly string[]>> = {
  gauge: [],
  counter: ['_total', '_created'],
  histogram: ['_bucket', '_sum', '_count', '_created'],
  info: ['_info'],
};

function errorIn({ name, type, labels }: Family): string | undefined {
  if (!NAME.test(name)) return 'is not a metric name';
  if (ENDING[type]?.test(name) === false) return `is not a name of type ${type}`;
  if (new Set(labels).size !== labels.length) return 'has a label twice';
  if (type === 'histogram' && labels.includes('le')) return 'has the label le, which is reserved for its buckets';
  const wrong = labels.find(label => !NAME.test(label) || label.startsWith('__'));
  return wrong === undefined ? undefined : `has the label ${wrong}, which is not a label name`;
}

function isSame(a: Family, b: Family): boolean {
  return a.type === b.type && a.help === b.help && a.labels.join() === b.labels.join();
}

/** Returns the families of all sources, once each, in order of first appearance. Throws if they conflict. */
export function checkFamilies(
  sources: readonly { readonly account?: string; readonly families: readonly Family[] }[],
): Family[] {
  const families = new Map<string, Family>();
  const owners = new Map<string, Family>();

  function add(family: Family): void {
    const error = errorIn(family);
    if (error !== undefined) throw new Error(`family ${family.name} ${error}`);
    const base = familyName(family, 'openmetrics');
    for (const name of [base, ...RESERVED[family.type].map(suffix => base + suffix)]) {
      const owner = owners.get(name);
      if (owner) throw new Error(`family ${family.name} and family ${owner.name} both use the name ${name}`);
      owners.set(name, family);
    }
    families.set(family.name, family);
  }

  for (const { account, families: listed } of sources) {
    for (const family of listed) {
      const known = families.get(family.name);
      if (known === undefined) add(family);
      else if (known !== family && !isSame(known, family))
        throw new Error(`family ${family.name} is defined in two ways`);
      if (account !== undefined && family.labels.includes('account')) {
        throw new Error(`family ${family.name} has the label account, which its source adds`);
      }
    }
  }
  return [...families.values()];
}
