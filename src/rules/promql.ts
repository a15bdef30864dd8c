import { formatDuration } from '../kit/duration.ts';
import { type AlertCondition, type AlertRule, isCertain, type Selector, selectorOf } from './options.ts';

/** A metric family, as far as PromQL goes. `labels`: its own, without `account`. */
export interface Family<L extends string = string> {
  readonly name: string;
  readonly labels: readonly L[];
}

/** What a label must be: exactly a text, one of several texts, or a pattern that matches all of it. */
type Matcher = string | readonly string[] | RegExp;

/** Labels of the family's own, of what the scrape adds, and of buckets. */
export type Matchers<L extends string = string> = Partial<Record<L | 'job' | 'instance' | 'account' | 'le', Matcher>>;

type Suffix = '' | '_bucket' | '_sum' | '_count';

/**
 * What tells one account from another; a label that is missing is empty. Everything over the replicas of an agent keeps these
 * labels and those of the family, and no other: a further label of the target must not break a rule.
 */
const ACCOUNT = ['cluster', 'namespace', 'job', 'account'] as const;

const quoted = (text: string) => JSON.stringify(text.toWellFormed());
const escapePattern = (text: string) => text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&');

function matcherText(label: string, matcher: Matcher): string {
  if (matcher instanceof RegExp) return `${label}=~${quoted(matcher.source)}`;
  const [one = '', ...others] = typeof matcher === 'string' ? [matcher] : matcher;
  if (others.length === 0) return `${label}=${quoted(one)}`;
  return `${label}=~${quoted([one, ...others].map(escapePattern).join('|'))}`;
}

/** A selector of a family's series, `name_suffix{label="text", label=~"pattern"}`. */
export function series<L extends string>({ name }: Family<L>, matchers: Matchers<L> = {}, suffix: Suffix = ''): string {
  const all: Readonly<Partial<Record<string, Matcher>>> = matchers;
  const texts = Object.entries(all).flatMap(([label, matcher]) =>
    matcher === undefined ? [] : matcherText(label, matcher),
  );
  return `${name}${suffix}${texts.length === 0 ? '' : `{${texts.join(', ')}}`}`;
}

/** The latest value of a gauge, though a scrape or a few failed: else one failed scrape would restart every `for`. */
export const latest = (selector: string, offset = '') => `last_over_time(${selector}[5m]${offset})`;

const by = (labels: readonly string[], among: readonly string[] = ACCOUNT) =>
  `by (${[...among, ...labels].join(', ')})`;

/** Of vectors of accounts: which series belong together. `labels`: besides what tells accounts apart. */
export const onAccount = (labels: readonly string[] = []) => `on (${[...ACCOUNT, ...labels].join(', ')})`;

/** The highest of the replicas, of a vector with labels of its own: a sum over replicas would count everything twice. */
export const highestOf = (expr: string, labels: readonly string[] = []) => `max ${by(labels)} (${expr})`;

export const lowestOf = (expr: string, labels: readonly string[] = []) => `min ${by(labels)} (${expr})`;

export const accountsOf = (expr: string) => `group ${by([])} (${expr})`;

export type VectorOf = (selector: string) => string;

/** The highest of the replicas: one that restarted or sees less does not pull it down. */
export const highest = <L extends string>(family: Family<L>, of: VectorOf = latest, where: Matchers<L> = {}) =>
  highestOf(of(series(family, where)), family.labels);

/** The lowest of the replicas: for times, the oldest; for what must be true of all of them. */
export const lowest = <L extends string>(family: Family<L>, of: VectorOf = latest, where: Matchers<L> = {}) =>
  lowestOf(of(series(family, where)), family.labels);

export interface SumOptions<L extends string> {
  readonly where?: Matchers<L>;
  readonly keep?: readonly L[];
  readonly suffix?: Suffix;
}

/** What selected series of a family add up to in each replica, with all labels of its target. */
export function perReplica<L extends string>(
  family: Family<L>,
  of: VectorOf,
  { where = {}, keep = [], suffix = '' }: SumOptions<L> = {},
): string {
  const gone = [...family.labels.filter(label => !keep.includes(label)), ...(suffix === '_bucket' ? ['le'] : [])];
  const vector = of(series(family, where, suffix));
  return gone.length === 0 ? vector : `sum without (${gone.join(', ')}) (${vector})`;
}

export const increase = (window: string) => (selector: string) => `increase(${selector}[${window}])`;

/**
 * Recorded quality of a collector's data, which keeps alerts firing. Blind: 0 if a replica has current data, 0.5 if
 * one has read nothing since it started, 1 if data is stale, 2 if no replica can store its data. Partial: 1 if all replicas have
 * unreadable rows, else less.
 */
export const BLIND = { name: 'account:delivery_blind:min', labels: ['collector'] } as const;
export const PARTIAL = { name: 'account:delivery_partial:min', labels: ['collector'] } as const;

interface Held {
  readonly name: string;
  readonly expr: string;
  /** Labels of the alert, in addition to the account labels. */
  readonly labels: readonly string[];
  /** Labels set by the rule, which replace account labels of the same name. */
  readonly given: readonly string[];
  /** Collectors of the alert's data. */
  readonly collectors: readonly string[];
  /** Whether the expression holds regardless of unreadable rows. */
  readonly isCertain: boolean;
}

/**
 * An alert's expression with its hold. Unreadable data looks like recovery, because gauges vanish and counters are frozen.
 * So a firing alert continues with the value -1 until there is data, or until no agent reads that data any more. An alert
 * that does not fire yet does not start.
 */
function heldExpression({ name, expr, labels, given, collectors, isCertain }: Held): string {
  if (collectors.length === 0) return expr;
  const among = ACCOUNT.filter(label => !given.includes(label));
  const firing = `max ${by(labels, among)} (ALERTS{alertname=${quoted(name)}, alertstate="firing"})`;
  const blind = `${series(BLIND, { collector: collectors })} > 0`;
  const partial = `${series(PARTIAL, { collector: collectors })} == 1`;
  const quiet = (isCertain ? [blind] : [blind, partial]).map(state => `\nunless ${onAccount()} ${state}`);
  return `(${expr})${quiet.join('')}\nor\n-1 * (${firing} and on (${among.join(', ')}) (${blind} or ${partial}))`;
}

export interface Metrics {
  readonly up: Family;
  family(metric: string): Family;
  collectorsOf(condition: AlertCondition): readonly string[];
}

/** A condition as PromQL, whose value is that by which the agent judges. What it says while data is stale is another matter. */
function expressionOf(condition: AlertCondition, { up, family }: Metrics): string {
  if (condition.kind === 'ratio') {
    const { part, whole, over, above, atLeast } = condition;
    const risen = ({ metric, labels }: Selector) =>
      perReplica(family(metric), increase(formatDuration(over)), { where: labels });
    return highestOf(`${risen(part)} / ${risen(whole)} > ${above} and ${risen(whole)} >= ${atLeast}`);
  }
  const { metric, labels } = selectorOf(condition);
  const of = family(metric);
  const asIs = (selector: string) => selector;
  switch (condition.kind) {
    case 'above':
      return `${highest(of, asIs, labels)} > ${condition.value}`;
    case 'below':
      return `${highest(of, asIs, labels)} < ${condition.value}`;
    case 'growth': {
      const before = highest(of, selector => `${selector} offset ${formatDuration(condition.over)}`, labels);
      return `${highest(of, asIs, labels)} - ${before} >= ${condition.atLeast}`;
    }
    case 'age':
      // The oldest that any replica knows, as each of them tells of its own: one that began without a store has seen
      // everything for the first time just now, and the youngest would hide how long the others have known it.
      return `time() - ${lowest(of, asIs, labels)} > ${condition.above / 1000}`;
    case 'stale':
      return `${lowest(of, asIs, labels)} == 1`;
    case 'absent': {
      const accounts = series(up, labels.account ? { account: labels.account } : {});
      return `${accountsOf(accounts)} unless ${onAccount()} ${series(of, labels)}`;
    }
  }
}

const labelsOf = (condition: AlertCondition, { family }: Metrics): readonly string[] =>
  condition.kind === 'ratio' || condition.kind === 'absent' ? [] : family(selectorOf(condition).metric).labels;

const unlessEmpty = <K extends string>(key: K, value: object) =>
  Object.keys(value).length === 0 ? {} : { [key]: value };

interface AlertingRule {
  readonly alert: string;
  readonly expr: string;
}

/** Alerts as rules of Prometheus (2.42 and newer), which need the shipped records `BLIND` and `PARTIAL` in the same group. */
export const prometheusRules = (rules: readonly AlertRule[], metrics: Metrics): readonly AlertingRule[] =>
  rules.map(({ name, when, labels, annotations, ...rule }) => ({
    alert: name,
    expr: heldExpression({
      name,
      expr: expressionOf(when, metrics),
      labels: labelsOf(when, metrics),
      given: Object.keys(labels),
      collectors: metrics.collectorsOf(when),
      isCertain: isCertain(when),
    }),
    ...(rule.for === 0 ? {} : { for: formatDuration(rule.for) }),
    ...(rule.keepFiringFor === 0 ? {} : { keep_firing_for: formatDuration(rule.keepFiringFor) }),
    ...unlessEmpty('labels', labels),
    ...unlessEmpty('annotations', annotations),
  }));
