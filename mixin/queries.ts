import type { Family } from '../src/metrics/family.ts';
import { createProcessMetrics } from '../src/metrics/process.ts';
import { highestOf, lowestOf, type Matchers, series } from '../src/rules/promql.ts';

/** An account in a legend. What a label of it does not have leaves nothing behind. */
export const ACCOUNT_LEGEND = '{{cluster}} {{namespace}} {{account}}';

const { source } = createProcessMetrics({ version: '', configHash: '', configLoadedAt: 0, endpoints: [] });
/** Families of the agent itself; prom-client makes them, so there are no objects to name. */
export const agentFamilies = source.families;

/** One of them. Throws when there is none. */
export function agentFamily(name: string): Family {
  const family = agentFamilies.find(family => family.name === name);
  if (!family) throw new RangeError(`the agent has no family ${name}`);
  return family;
}

type Suffix = '' | '_bucket' | '_sum' | '_count';

/** Series about the chosen accounts, of the chosen jobs and instances. */
export const chosen = <L extends string>(family: Family<L>, where: Matchers<L> = {}, suffix: Suffix = '') =>
  series(family, { job: /$job/, instance: /$instance/, account: /$account/, ...where } as Matchers<L>, suffix);

/** Series of the agent itself. */
export const ofAgent = (name: string, where: Matchers = {}, suffix: Suffix = '') =>
  series(agentFamily(name), { job: /$job/, instance: /$instance/, ...where }, suffix);

/** Recorded series about the chosen accounts: of no instance, as the rules take the highest of them. */
export const recorded = (record: string, where: Matchers = {}) =>
  series({ name: record, labels: [] }, { job: /$job/, account: /$account/, ...where });

/** What is added up, and by which labels; `account`: for each account. */
interface Sum<L extends string> {
  readonly keep?: readonly (L | 'account' | 'le')[];
  readonly where?: Matchers<L>;
  readonly suffix?: Suffix;
}

/** In each replica what the labels not kept add up to; the highest of the replicas; and then the sum over accounts unless `account` is kept. */
function add<L extends string>(of: (selector: string) => string, family: Family<L>, sum: Sum<L> = {}): string {
  const { keep = [], where = {}, suffix = '' } = sum;
  const kept: readonly string[] = keep.filter(label => label !== 'account');
  const own: readonly string[] = [...family.labels, ...(suffix === '_bucket' ? ['le'] : [])];
  const gone = own.filter(label => !kept.includes(label));
  const vector = of(chosen(family, where, suffix));
  const each = highestOf(gone.length === 0 ? vector : `sum without (${gone.join(', ')}) (${vector})`, kept);
  if (keep.includes('account')) return each;
  return kept.length === 0 ? `sum(${each})` : `sum by (${kept.join(', ')}) (${each})`;
}

/** A gauge, added up. */
export const level = <L extends string>(family: Family<L>, sum?: Sum<L>) => add(selector => selector, family, sum);

/** How fast a counter rises a second. */
export const flow = <L extends string>(family: Family<L>, sum?: Sum<L>) =>
  add(selector => `rate(${selector}[$__rate_interval])`, family, sum);

/** By how much a counter rose. */
export const rise = <L extends string>(family: Family<L>, window: string, sum?: Sum<L>) =>
  add(selector => `increase(${selector}[${window}])`, family, sum);

/** By how much a gauge of each account has changed. */
export const change = (family: Family, window: string) =>
  `${highestOf(chosen(family))} - ${highestOf(`${chosen(family)} offset ${window}`)}`;

/** A quantile of a histogram as it was filled in `window`; of one that was not, no number. */
export const quantile = <L extends string>(
  q: number,
  family: Family<L>,
  keep: readonly (L | 'account')[] = [],
  window = '$__rate_interval',
) => `histogram_quantile(${q}, ${rise(family, window, { keep: [...keep, 'le'], suffix: '_bucket' })}) >= 0`;

/** Seconds since a time: in each account the longest. */
export const age = <L extends string>(family: Family<L>, keep: readonly L[] = [], where: Matchers<L> = {}) =>
  `time() - ${lowestOf(chosen(family, where), keep)}`;

export const inHours = (seconds: string) => `(${seconds}) / 3600`;

/**
 * Of many series those ten that peak highest in the range that is shown. One choice for the whole range: a plain topk chooses
 * at every step and leaves broken lines.
 */
export const highestTen = (expr: string, of = 'max') => `(${expr})\nand ${ten('topk', expr, of)}`;
/** The same, for descriptions. */
export const PER_TEN = 'The ten with the highest peak.';

/** Those ten that fall lowest. */
export const lowestTen = (expr: string, of = 'min') => `(${expr})\nand ${ten('bottomk', expr, of)}`;
const ten = (pick: string, expr: string, of: string) =>
  `${pick}(10, ${of}_over_time((${expr})[$__range:$__rate_interval] @ end()))`;

/** The account that is worst off, by its name. */
export const worst = (expr: string) => `topk(1, ${expr})`;
/** The same where less is worse. */
export const least = (expr: string) => `bottomk(1, ${expr})`;
