import { dlq } from '../src/collectors/dlq/dlq.ts';
import { alertingFamilies } from '../src/metrics/alerting.ts';
import type { Family } from '../src/metrics/family.ts';
import { ownFamilies } from '../src/metrics/own.ts';
import { createProcessMetrics } from '../src/metrics/process.ts';
import { highestOf, lowestOf, type Matchers, series } from '../src/rules/promql.ts';
import { essentialRounds } from './rules.ts';

/** Legend of an account. Missing labels are omitted. */
export const ACCOUNT_LEGEND = '{{cluster}} {{namespace}} {{account}}';

const { source } = createProcessMetrics({ version: '', configHash: '', configLoadedAt: 0, endpoints: [] });
/** Families of the agent process. prom-client creates them, so there are no constants for them. */
export const agentFamilies = source.families;

/** Returns an agent family. Throws if the name is unknown. */
export function agentFamily(name: string): Family {
  const family = agentFamilies.find(family => family.name === name);
  if (!family) throw new RangeError(`the agent has no family ${name}`);
  return family;
}

type Suffix = '' | '_bucket' | '_sum' | '_count';

/** Selects the series of the accounts, jobs and instances that are selected in the dashboard. */
export const chosen = <L extends string>(family: Family<L>, where: Matchers<L> = {}, suffix: Suffix = '') =>
  series(family, { job: /$job/, instance: /$instance/, account: /$account/, ...where } as Matchers<L>, suffix);

/** Selects agent-wide series of the selected jobs and instances. */
export const ofAgents = <L extends string>(family: Family<L>, suffix: Suffix = '', where: Matchers<L> = {}) =>
  series(family, { job: /$job/, instance: /$instance/, ...where } as Matchers<L>, suffix);

/** Selects series of the agent process. */
export const ofAgent = (name: string, suffix: Suffix = '') => ofAgents(agentFamily(name), suffix);

/** 1 for each account with stale data, otherwise 0. */
export const blind = highestOf(chosen(ownFamilies.dataStale, { round: essentialRounds }));

/** Selects problems of the selected accounts, and the agents' own problems, which have no account. `severity`: default all. */
const problem = (severity?: string) =>
  series(alertingFamilies.problem, {
    job: /$job/,
    instance: /$instance/,
    account: /$account|/,
    ...(severity !== undefined && { severity }),
  });

const byProblem = (expr: string) => `max by (cluster, namespace, account, kind, subject) (${expr})`;

/** 1 for each current problem of a severity. Processes that report the same problem count once. */
export const problems = (severity: string) => `${byProblem(problem(severity))} == 1`;

/** Severity of each current problem (3: critical), with the label `alert` as a copy of its kind. */
export const problemSeverity = `label_replace(${byProblem(
  `3 * (${problem('critical')} == 1)\nor 2 * (${problem('warning')} == 1)\nor ${problem('info')} == 1`,
)}, "alert", "$1", "kind", "(.*)")`;

const firing = `${byProblem(problem())} == 1`;
const firedBefore = `${byProblem(`last_over_time(${problem()}[10m] offset 1m)`)} == 1`;
/**
 * Time since the latest start of each current problem (s). A problem starts when it fires after ten minutes without firing. After
 * a shorter gap, such as a takeover, the earlier start remains. Absent if the start is more than a day ago.
 */
export const problemAge = `time() - (max_over_time(timestamp(${firing}\nunless ${firedBefore})[1d:1m])\nand ${firing})`;

/** Labels to keep in a sum, and series to select. `account` in `keep`: one sum per account. */
interface Sum<L extends string> {
  readonly keep?: readonly (L | 'account' | 'le')[];
  readonly where?: Matchers<L>;
  readonly suffix?: Suffix;
}

/**
 * Selects replicas that counted events in real time throughout the interval. After an outage, a replica counts all missed events
 * at once, which would look like a burst.
 */
const asItHappened = (labels: readonly string[]) =>
  ` and${labels.length === 0 ? '' : ` ignoring (${labels.join(', ')})`} min_over_time(${chosen(ownFamilies.counting)}[$__rate_interval]) == 1`;

/** Sums the series of each replica by the kept labels and takes the highest sum. Adds up accounts unless `account` is kept. */
function add<L extends string>(
  of: (selector: string) => string,
  family: Family<L>,
  { keep = [], where = {}, suffix = '' }: Sum<L> = {},
  onlyIf: (labels: readonly string[]) => string = () => '',
): string {
  const kept: readonly string[] = keep.filter(label => label !== 'account');
  const own: readonly string[] = [...family.labels, ...(suffix === '_bucket' ? ['le'] : [])];
  const others = own.filter(label => !kept.includes(label));
  const vector = of(chosen(family, where, suffix));
  const sum = others.length === 0 ? vector : `sum without (${others.join(', ')}) (${vector})`;
  const each = highestOf(`${sum}${onlyIf(kept)}`, kept);
  if (keep.includes('account')) return each;
  return kept.length === 0 ? `sum(${each})` : `sum by (${kept.join(', ')}) (${each})`;
}

/** Sums a gauge. */
export const level = <L extends string>(family: Family<L>, sum?: Sum<L>) => add(selector => selector, family, sum);

/** Sums the values that a gauge had `window` ago. */
export const levelBefore = <L extends string>(family: Family<L>, window: string, sum?: Sum<L>) =>
  add(selector => `${selector} offset ${window}`, family, sum);

/** Returns the per-second rate of a counter. */
export const flow = <L extends string>(family: Family<L>, sum?: Sum<L>) =>
  add(selector => `rate(${selector}[$__rate_interval])`, family, sum);

/** Returns the increase of a counter. */
export const rise = <L extends string>(family: Family<L>, window: string, sum?: Sum<L>) =>
  add(selector => `increase(${selector}[${window}])`, family, sum);

/** Returns the increase of a counter in the last hour by account. In a group, only the leader's counters increase. */
export const inLastHour = <L extends string>(family: Family<L>, where?: Matchers<L>) =>
  `sum by (cluster, namespace, account) (increase(${chosen(family, where)}[1h]))`;

/** Returns the per-second rate of a counter of the event log, except for intervals in which the agent was catching up. */
export const eventFlow = <L extends string>(family: Family<L>, sum?: Sum<L>) =>
  add(selector => `rate(${selector}[$__rate_interval])`, family, sum, asItHappened);

/** Returns the increase of a histogram of the event log by bucket, except for intervals in which the agent was catching up. */
export const eventBuckets = <L extends string>(family: Family<L>, keep: readonly L[] = []) =>
  add(
    selector => `increase(${selector}[$__rate_interval])`,
    family,
    { keep: [...keep, 'le'], suffix: '_bucket' },
    asItHappened,
  );

/** Returns the quantile `q` of `buckets`. It is absent if there are no observations. */
export const quantile = (q: number, buckets: string) => `histogram_quantile(${q}, ${buckets}) >= 0`;

/** Returns the change of a gauge within `window` for each account. */
export const changeOver = (family: Family, window: string) =>
  `${highestOf(chosen(family))} - ${highestOf(`${chosen(family)} offset ${window}`)}`;

/** Returns the time since the oldest timestamp of each account (s). */
export const age = <L extends string>(family: Family<L>, keep: readonly L[] = [], where: Matchers<L> = {}) =>
  `time() - ${lowestOf(chosen(family, where), keep)}`;

const { oldestEntered } = dlq.families;
/** Share of the retention that the oldest dead letter of each account has used. */
export const retentionUsed = `(${age(oldestEntered)}) / ${highestOf(chosen(ownFamilies.dlqRetention))}`;

/**
 * Selects the same ten series for the complete visible time range. A plain `topk` selects anew at every step, which interrupts
 * lines. `ranking`: one value per series, with the labels of the series.
 */
export const onlyTen = (expr: string, ranking: string, pick: 'topk' | 'bottomk' = 'topk') =>
  `${expr}\nand ${pick}(10, ${ranking})`;

/** Returns the maximum, minimum or mean of the selected series over the visible time range. */
export const inRange = (of: 'max' | 'min' | 'avg', selector: string) =>
  `${of}_over_time(${selector}[$__range] @ end())`;

/** Returns a gauge by account and `keep`, limited to the ten series with the highest peak. */
export const highestTen = <L extends string>(family: Family<L>, keep: readonly L[] = []) =>
  onlyTen(
    level(family, { keep: ['account', ...keep] }),
    add(selector => inRange('max', selector), family, { keep: ['account', ...keep] }),
  );

/** Text for the descriptions of panels that show only the ten series with the highest peak. */
export const PER_TEN = 'The ten with the highest peak.';

/** Selects the worst account. */
export const worst = (expr: string) => `topk(1, ${expr})`;
