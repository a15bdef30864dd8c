import { formatDuration } from '../kit/duration.ts';
import { type AlertCondition, type AlertRule, type Selector, selectorOf } from './options.ts';

/** A metric family. `labels` does not include `account`. */
export interface QueriedFamily<L extends string = string> {
  readonly name: string;
  readonly labels: readonly L[];
}

/** Matches a label value: an exact text, one of several texts, or a pattern for the complete value. */
type Matcher = string | readonly string[] | RegExp;

/** Matchers by label: labels of the family, labels added by the scrape, `account` and `le`. */
export type Matchers<L extends string = string> = Partial<Record<L | 'job' | 'instance' | 'account' | 'le', Matcher>>;

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
  suffix: '' | '_bucket' | '_sum' | '_count' = '',
): string {
  const all: Readonly<Partial<Record<string, Matcher>>> = matchers;
  const texts = Object.entries(all).flatMap(([label, matcher]) =>
    matcher === undefined ? [] : matcherText(label, matcher),
  );
  return `${name}${suffix}${texts.length === 0 ? '' : `{${texts.join(', ')}}`}`;
}

const by = (labels: readonly string[]) => `by (${[...ACCOUNT, ...labels].join(', ')})`;

/** Joins vectors by account. */
export const onAccount = () => `on (${ACCOUNT.join(', ')})`;

/** Returns the maximum over replicas: a sum would count everything twice. `labels`: further labels to keep. */
export const highestOf = (expr: string, labels: readonly string[] = []) => `max ${by(labels)} (${expr})`;

export const lowestOf = (expr: string, labels: readonly string[] = []) => `min ${by(labels)} (${expr})`;

/** Returns a condition as PromQL with the same value as in the agent. `family`: returns the family of a metric. */
function expressionOf(condition: AlertCondition, family: (metric: string) => QueriedFamily): string {
  if (condition.kind === 'ratio') {
    const { part, whole, over, above, atLeast } = condition;
    const risen = ({ metric, labels: where }: Selector) => {
      const of = family(metric);
      const rise = `increase(${series(of, where)}[${formatDuration(over)}])`;
      return of.labels.length === 0 ? rise : `sum without (${of.labels.join(', ')}) (${rise})`;
    };
    return highestOf(`${risen(part)} / ${risen(whole)} > ${above} and ${risen(whole)} >= ${atLeast}`);
  }
  const { metric, labels: where } = selectorOf(condition);
  const of = family(metric);
  const selected = series(of, where);
  const highest = highestOf(selected, of.labels);
  // For ages: the oldest time, because a replica that started without a store has recent times. For staleness: 1 if all report 1.
  const lowest = lowestOf(selected, of.labels);
  switch (condition.kind) {
    case 'above':
      return `${highest} > ${condition.value}`;
    case 'below':
      return `${highest} < ${condition.value}`;
    case 'growth':
      return `${highest} - ${highestOf(`${selected} offset ${formatDuration(condition.over)}`, of.labels)} >= ${condition.atLeast}`;
    case 'age':
      return `time() - ${lowest} > ${condition.above / 1000}`;
    case 'stale':
      return `${lowest} == 1`;
  }
}

const unlessEmpty = <K extends string>(key: K, value: object) =>
  Object.keys(value).length === 0 ? {} : { [key]: value };

/** Converts alerts to rules for Prometheus 2.42 or newer. `family`: returns the family of a metric. */
export const prometheusRules = (rules: readonly AlertRule[], family: (metric: string) => QueriedFamily) =>
  rules.map(rule => ({
    alert: rule.name,
    expr: expressionOf(rule.when, family),
    ...(rule.for === 0 ? {} : { for: formatDuration(rule.for) }),
    ...(rule.keepFiringFor === 0 ? {} : { keep_firing_for: formatDuration(rule.keepFiringFor) }),
    ...unlessEmpty('labels', rule.labels),
    ...unlessEmpty('annotations', rule.annotations),
  }));
