import type { Family } from '../src/metrics/family.ts';
import { createProcessMetrics } from '../src/metrics/process.ts';
import { highestOf, lowestOf, type Matchers, series } from '../src/rules/promql.ts';

/** Legend of an account. Missing labels are omitted. */
export const ACCOUNT_LEGEND = '{{cluster}} {{namespace}} {{account}}';

const { source } = createProcessMetrics({ version: '', configHash: '', configLoadedAt: 0, endpoints: [] });
/** Families of the agent process. prom-client creates them, so they have no named objects. */
export const agentFamilies = source.families;

/** Returns an agent family. Throws if the name is unknown. */
export function agentFamily(name: string): Family {
  const family = agentFamilies.find(family => family.name === name);
  if (!family) throw new RangeError(`the agent has no family ${name}`);
  return family;
}

type Suffix = '' | '_bucket' | '_sum' | '_count';

/** Series of the selected accounts, jobs and instances. */
export const chosen = <L extends string>(family: Family<L>, where: Matchers<L> = {}, suffix: Suffix = '') =>
  series(family, { job: /$job/, instance: /$instance/, account: /$account/, ...where } as Matchers<L>, suffix);

/** Series of the agent process. */
export const ofAgent = (name: string, where: Matchers = {}, suffix: Suffix = '') =>
  series(agentFamily(name), { job: /$job/, instance: /$instance/, ...where }, suffix);

/** Recorded series of the selected accounts. They have no instance, because rules aggregate over instances. */
export const recorded = (record: string, where: Matchers<'objective' | 'collector'> = {}) =>
  series({ name: record, labels: [] }, { job: /$job/, account: /$account/, ...where } as Matchers);

/** Labels to keep in a sum, and selected series; `account`: one sum per account. */
interface Sum<L extends string> {
  readonly keep?: readonly (L | 'account' | 'le')[];
  readonly where?: Matchers<L>;
  readonly suffix?: Suffix;
}

/** Sums each replica by the kept labels, takes the highest replica, and sums over accounts unless `account` is kept. */
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

/** Sum of a gauge. */
export const level = <L extends string>(family: Family<L>, sum?: Sum<L>) => add(selector => selector, family, sum);

/** Per-second rate of a counter. */
export const flow = <L extends string>(family: Family<L>, sum?: Sum<L>) =>
  add(selector => `rate(${selector}[$__rate_interval])`, family, sum);

/** Increase of a counter. */
export const rise = <L extends string>(family: Family<L>, window: string, sum?: Sum<L>) =>
  add(selector => `increase(${selector}[${window}])`, family, sum);

/** Change of a gauge for each account. */
export const change = (family: Family, window: string) =>
  `${highestOf(chosen(family))} - ${highestOf(`${chosen(family)} offset ${window}`)}`;

/** A quantile of a histogram over `window`; absent without observations. */
export const quantile = <L extends string>(
  q: number,
  family: Family<L>,
  keep: readonly (L | 'account')[] = [],
  window = '$__rate_interval',
) => `histogram_quantile(${q}, ${rise(family, window, { keep: [...keep, 'le'], suffix: '_bucket' })}) >= 0`;

/** Seconds since a time: the longest for each account. */
export const age = <L extends string>(family: Family<L>, keep: readonly L[] = [], where: Matchers<L> = {}) =>
  `time() - ${lowestOf(chosen(family, where), keep)}`;

export const inHours = (seconds: string) => `(${seconds}) / 3600`;

/**
 * The ten series with the highest peak in the visible time range. They are selected once for the whole range: a plain
 * topk selects at every step and breaks lines.
 */
export const highestTen = (expr: string, of = 'max') => `(${expr})\nand ${ten('topk', expr, of)}`;
/** Text for descriptions of these panels. */
export const PER_TEN = 'The ten with the highest peak.';

/** The ten series with the lowest minimum. */
export const lowestTen = (expr: string, of = 'min') => `(${expr})\nand ${ten('bottomk', expr, of)}`;
const ten = (pick: string, expr: string, of: string) =>
  `${pick}(10, ${of}_over_time((${expr})[$__range:$__rate_interval] @ end()))`;

/** The worst account, if high values are bad. */
export const worst = (expr: string) => `topk(1, ${expr})`;
/** The worst account, if low values are bad. */
export const least = (expr: string) => `bottomk(1, ${expr})`;
