import type { Family } from '../metrics/family.ts';

/** What tells the replicas of one agent apart: each counts and shows the same, so that sums over them would double. */
const REPLICA = 'instance, pod, replica';

/** What a label must be: exactly a text, or a pattern that matches all of it. */
type Matcher = string | RegExp;

/** Labels of the family's own, of what the scrape adds, and of buckets. */
export type Matchers<L extends string = string> = Partial<Record<L | 'job' | 'instance' | 'account' | 'le', Matcher>>;

const quoted = (text: string) => `"${text.replace(/["\\]/g, '\\$&')}"`;

/** A selector of a family's series, `name_suffix{label="text",label=~"pattern"}`. */
export function series<L extends string>(
  family: Family<L>,
  matchers: Matchers<L> = {},
  suffix: '' | '_bucket' | '_sum' | '_count' = '',
): string {
  const texts = Object.entries(matchers as Readonly<Record<string, Matcher>>).map(([label, matcher]) =>
    typeof matcher === 'string' ? `${label}=${quoted(matcher)}` : `${label}=~${quoted(matcher.source)}`,
  );
  return `${family.name}${suffix}${texts.length === 0 ? '' : `{${texts.join(', ')}}`}`;
}

/** The latest value of a gauge, though a scrape or a few failed: else one failed scrape would begin every `for` anew. */
export const latest = (selector: string, offset = '') => `last_over_time(${selector}[5m]${offset})`;

/** The highest of the replicas: one that restarted or sees less does not pull it down. */
export const highest = (expr: string) => `max without (${REPLICA}) (${expr})`;

/** The lowest of the replicas: for times, the oldest; for what must be true of all of them. */
export const lowest = (expr: string) => `min without (${REPLICA}) (${expr})`;

/**
 * What selected series of a family add up to, in each replica and then the highest of them: `of` makes a vector from the
 * selector. `keep` names labels that the sum is not over.
 */
export function total<L extends string>(
  family: Family<L>,
  of: (selector: string) => string,
  {
    where = {},
    keep = [],
    suffix = '',
  }: {
    readonly where?: Matchers<L>;
    readonly keep?: readonly L[];
    readonly suffix?: '' | '_bucket' | '_sum' | '_count';
  } = {},
): string {
  const gone = [...family.labels.filter(label => !keep.includes(label)), ...(suffix === '_bucket' ? ['le'] : [])];
  return highest(`sum without (${gone.join(', ')}) (${of(series(family, where, suffix))})`);
}

export const increase = (window: string) => (selector: string) => `increase(${selector}[${window}])`;
export const rate = (window: string) => (selector: string) => `rate(${selector}[${window}])`;
