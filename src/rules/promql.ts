import { formatDuration } from '../kit/duration.ts';
import { type AlertCondition, type AlertRule, isCertain, type Selector, selectorOf } from './options.ts';

/** A metric family. `labels` does not include `account`. */
export interface QueriedFamily<L extends string = string> {
  readonly name: string;
  readonly labels: readonly L[];
}

/** Matches a label value: an exact text, one of several texts, or a pattern for the complete value. */
type Matcher = string | readonly string[] | RegExp;

/** Matchers by label: labels of the family, labels added by the scrape, `account` and `le`. */
export type Matchers<L extends string = string> = Partial<Record<L | 'job' | 'instance' | 'account' | 'le', Matcher>>;

type Suffix = '' | '_bucket' | '_sum' | '_count';

/**
 * Labels that identify an account; missing labels are empty. Aggregations over the replicas of an agent keep only these labels and
 * the labels of the family: additional target labels must not break a rule.
 */
const ACCOUNT = ['cluster', 'namespace', 'job', 'account'] as const;

const quoted = (text: string) => JSON.stringify(text);
const escapePattern = (text: string) => text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&');

function matcherText(label: string, matcher: Matcher): string {
  if (matcher instanceof RegExp) return `${label}=~${quoted(matcher.source)}`;
  const [one = '', ...others] = typeof matcher === 'string' ? [matcher] : matcher;
  if (others.length === 0) return `${label}=${quoted(one)}`;
  return `${label}=~${quoted([one, ...others].map(escapePattern).join('|'))}`;
}

/** Returns a selector of series of a family: `name_suffix{label="text", label=~"pattern"}`. */
export function series<L extends string>(
  { name }: QueriedFamily<L>,
  matchers: Matchers<L> = {},
  suffix: Suffix = '',
): string {
  const all: Readonly<Partial<Record<string, Matcher>>> = matchers;
  const texts = Object.entries(all).flatMap(([label, matcher]) =>
    matcher === undefined ? [] : matcherText(label, matcher),
  );
  return `${name}${suffix}${texts.length === 0 ? '' : `{${texts.join(', ')}}`}`;
}

/** Returns a gauge's latest value, even if some scrapes have failed: otherwise, each gap would restart the `for` duration. */
export const latest = (selector: string, offset = '') => `last_over_time(${selector}[5m]${offset})`;

const by = (labels: readonly string[], among: readonly string[] = ACCOUNT) =>
  `by (${[...among, ...labels].join(', ')})`;

/** Joins vectors by account. `labels`: further labels to join by. */
export const onAccount = (labels: readonly string[] = []) => `on (${[...ACCOUNT, ...labels].join(', ')})`;

/** Returns the maximum over replicas: a sum would count everything twice. `labels`: further labels to keep. */
export const highestOf = (expr: string, labels: readonly string[] = []) => `max ${by(labels)} (${expr})`;

export const lowestOf = (expr: string, labels: readonly string[] = []) => `min ${by(labels)} (${expr})`;

export type VectorOf = (selector: string) => string;

/** Returns the maximum of a family over replicas, so that replicas with less data do not lower it. */
export const highest = <L extends string>(family: QueriedFamily<L>, of: VectorOf = latest, where: Matchers<L> = {}) =>
  highestOf(of(series(family, where)), family.labels);

/** Returns the minimum of a family over replicas: the oldest time, or 1 only if all replicas report 1. */
export const lowest = <L extends string>(family: QueriedFamily<L>, of: VectorOf = latest, where: Matchers<L> = {}) =>
  lowestOf(of(series(family, where)), family.labels);

export interface SumOptions<L extends string> {
  readonly where?: Matchers<L>;
  readonly keep?: readonly L[];
  readonly suffix?: Suffix;
}

/** Sums the selected series of a family in each replica, and keeps all target labels. */
export function perReplica<L extends string>(
  family: QueriedFamily<L>,
  of: VectorOf,
  { where = {}, keep = [], suffix = '' }: SumOptions<L> = {},
): string {
  const dropped = [...family.labels.filter(label => !keep.includes(label)), ...(suffix === '_bucket' ? ['le'] : [])];
  const vector = of(series(family, where, suffix));
  return dropped.length === 0 ? vector : `sum without (${dropped.join(', ')}) (${vector})`;
}

export const increase = (window: string) => (selector: string) => `increase(${selector}[${window}])`;

/**
 * Recorded quality of a collector's data. Without good data, alerts keep firing. Blind: 0 if a replica has current data, 0.5 if
 * one has read nothing since it started, 1 if data is stale, 2 if no replica can store its data. Partial: 1 if all replicas
 * have unreadable rows, otherwise less.
 */
export const BLIND = { name: 'account:delivery_blind:min', labels: ['collector'] } as const;
export const PARTIAL = { name: 'account:delivery_partial:min', labels: ['collector'] } as const;

export interface Metrics {
  family(metric: string): QueriedFamily;
  collectorsOf(condition: AlertCondition): readonly string[];
}

/** Returns a condition as PromQL with the same value as in the agent. `guardedExpression` handles stale data. */
function expressionOf(condition: AlertCondition, { family }: Metrics): string {
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
      // Use the oldest time of all replicas: a replica that started without a store has only just seen everything.
      return `time() - ${lowest(of, asIs, labels)} > ${condition.above / 1000}`;
    case 'stale':
      return `${lowest(of, asIs, labels)} == 1`;
  }
}

const labelsOf = (condition: AlertCondition, { family }: Metrics): readonly string[] =>
  condition.kind === 'ratio' ? [] : family(selectorOf(condition).metric).labels;

/**
 * Returns the expression of an alert, guarded against unreadable data. Unreadable data looks like recovery, because gauges vanish
 * and counters are frozen. A firing alert therefore continues with the value -1 until there is data, or until no agent reads
 * that data any more. Other alerts do not start.
 */
function guardedExpression({ name, when, labels: given }: AlertRule, metrics: Metrics): string {
  const expr = expressionOf(when, metrics);
  const collectors = metrics.collectorsOf(when);
  if (collectors.length === 0) return expr;
  // Labels of the rule replace account labels of the same name.
  const among = ACCOUNT.filter(label => !Object.hasOwn(given, label));
  const firing = `max ${by(labelsOf(when, metrics), among)} (ALERTS{alertname=${quoted(name)}, alertstate="firing"})`;
  const blind = `${series(BLIND, { collector: collectors })} > 0`;
  const partial = `${series(PARTIAL, { collector: collectors })} == 1`;
  const quiet = (isCertain(when) ? [blind] : [blind, partial]).map(state => `\nunless ${onAccount()} ${state}`);
  return `(${expr})${quiet.join('')}\nor\n-1 * (${firing} and on (${among.join(', ')}) (${blind} or ${partial}))`;
}

/** Returns annotations that show no number for the value -1 of unreadable data. Data of collectors is never negative. */
const annotationsOf = ({ when, annotations }: AlertRule, { collectorsOf }: Metrics): AlertRule['annotations'] =>
  collectorsOf(when).length === 0
    ? annotations
    : Object.fromEntries(
        Object.entries(annotations).map(([name, text]) => [
          name,
          text.replace(/\{\{\s*\$value\s*\}\}/g, '{{ if eq $value -1.0 }}(unknown){{ else }}$&{{ end }}'),
        ]),
      );

const unlessEmpty = <K extends string>(key: K, value: object) =>
  Object.keys(value).length === 0 ? {} : { [key]: value };

/**
 * Converts alerts to rules for Prometheus 2.42 or newer. Their group must contain the shipped recording rules `BLIND` and
 * `PARTIAL`.
 */
export const prometheusRules = (rules: readonly AlertRule[], metrics: Metrics) =>
  rules.map(rule => ({
    alert: rule.name,
    expr: guardedExpression(rule, metrics),
    ...(rule.for === 0 ? {} : { for: formatDuration(rule.for) }),
    ...(rule.keepFiringFor === 0 ? {} : { keep_firing_for: formatDuration(rule.keepFiringFor) }),
    ...unlessEmpty('labels', rule.labels),
    ...unlessEmpty('annotations', annotationsOf(rule, metrics)),
  }));
