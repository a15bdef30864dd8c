import { formatDuration } from '../kit/duration.ts';
import { type AlertCondition, type AlertRule, isCertain, type Selector, selectorOf } from './options.ts';

/** A metric family, as far as PromQL goes. `labels`: its own, without `account`. */
interface Family<L extends string = string> {
  readonly name: string;
  readonly labels: readonly L[];
}

/** What a label must be: exactly a text, one of several texts, or a pattern that matches all of it. */
type Matcher = string | readonly string[] | RegExp;

/** Labels of the family's own, of what the scrape adds, and of buckets. */
export type Matchers<L extends string = string> = Partial<Record<L | 'job' | 'instance' | 'account' | 'le', Matcher>>;

type Suffix = '' | '_bucket' | '_sum' | '_count';

export interface RecordingRule {
  readonly record: string;
  readonly expr: string;
}

/** What tells the replicas of one agent apart: each counts and shows the same, so that sums over them would double. */
const REPLICA = 'instance, pod, replica';

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
  }: { readonly where?: Matchers<L>; readonly keep?: readonly L[]; readonly suffix?: Suffix } = {},
): string {
  const gone = [...family.labels.filter(label => !keep.includes(label)), ...(suffix === '_bucket' ? ['le'] : [])];
  const vector = of(series(family, where, suffix));
  return highest(gone.length === 0 ? vector : `sum without (${gone.join(', ')}) (${vector})`);
}

export const increase = (window: string) => (selector: string) => `increase(${selector}[${window}])`;
export const rate = (window: string) => (selector: string) => `rate(${selector}[${window}])`;

/** The families that say of each account whether the agent reads it, and of each round how it fares. */
export type HealthFamilies = Readonly<
  Record<'up' | 'dataStale' | 'dataTimestamp' | 'dataComplete' | 'success', Family>
>;

/** Names of the recording rules by which alerts are held. */
const BLIND = { name: 'account_collector:delivery_collector_data_stale:min', labels: ['collector'] } as const;
const PARTIAL = {
  name: 'account_collector:delivery_collector_success_minus_data_complete:min',
  labels: ['collector'],
} as const;

/**
 * Two rules about each collector of each account. Blind: 1 where no replica reads it, because in each some of these rounds is
 * stale or, since the agent started, never was complete; else 0. Partial: 1 where each replica met rows that it could not
 * read when one of these rounds last ended, so that what is gone may be among those; else less.
 */
export function healthRecords(
  { dataStale, dataTimestamp, dataComplete, success }: HealthFamilies,
  rounds: readonly string[],
): readonly RecordingRule[] {
  const of = (family: Family) => series(family, { round: rounds });
  const stale = of(dataStale);
  const worst = (expr: string) => lowest(`max without (round) (${expr})`);
  return [
    {
      record: BLIND.name,
      expr: worst(`${stale} > 0 or (${stale} unless ${series(dataTimestamp)}) + 1 or ${stale}`),
    },
    { record: PARTIAL.name, expr: worst(`${of(success)} - ${of(dataComplete)}`) },
  ];
}

/** What an alert is beside its expression. */
interface Held {
  readonly name: string;
  readonly expr: string;
  /** Names of the labels that the rule adds. */
  readonly labels: readonly string[];
  /** Whose data the expression judges; empty: it can always be judged. */
  readonly collectors: readonly string[];
  /** What the expression says is true though rows could not be read. */
  readonly isCertain: boolean;
  /** Besides: PromQL of series that go on firing while it gives them, by the labels `on`. */
  readonly heldBy?: { readonly on: readonly string[]; readonly expr: string } | undefined;
}

/**
 * An alert's expression, and what keeps it firing. When data can't be read, gauges vanish and counters stand still, which
 * looks like recovery, and so does a row that can't be read; so an alert that fires then goes on, with the value -1, until
 * there is data to judge. One that does not fire yet does not begin to: frozen counters go on to say what they said last,
 * and a time goes on getting older.
 */
export function heldExpression({ name, expr, labels, collectors, isCertain, heldBy }: Held): string {
  const firing = `max without (${['alertname', 'alertstate', ...labels].join(', ')}) (ALERTS{alertname=${quoted(name)}, alertstate="firing"})`;
  const held = (on: readonly string[], state: string) => `-(${firing} and on (${on.join(', ')}) ${state})`;
  const account = ['job', 'account'];
  const states =
    collectors.length === 0 ? [] : [BLIND, PARTIAL].map(of => `${series(of, { collector: collectors })} == 1`);
  const quiet = states.slice(0, isCertain ? 1 : 2).map(state => `\nunless on (${account.join(', ')}) ${state}`);
  return [
    states.length === 0 ? expr : `(${expr})${quiet.join('')}`,
    ...states.map(state => held(account, state)),
    ...(heldBy ? [held(heldBy.on, heldBy.expr)] : []),
  ].join('\nor\n');
}

/** What rules need to know of the metrics. */
export interface Metrics {
  readonly health: HealthFamilies;
  /** A family that conditions may name. */
  family(metric: string): Family;
  /** Collectors whose data a condition judges. */
  collectorsOf(condition: AlertCondition): readonly string[];
  /** Rounds without which a collector's gauges are withdrawn. */
  roundsOf(collector: string): readonly string[];
}

/** A condition as PromQL, whose value is that by which the agent judges. What it says while data is stale is another matter. */
function expressionOf(condition: AlertCondition, { health, family }: Metrics): string {
  if (condition.kind === 'ratio') {
    const { part, whole, over, above, atLeast } = condition;
    const risen = ({ metric, labels }: Selector) =>
      total(family(metric), increase(formatDuration(over)), { where: labels });
    return `${risen(part)} / ${risen(whole)} > ${above} and ${risen(whole)} >= ${atLeast}`;
  }
  const { metric, labels } = selectorOf(condition);
  const selected = series({ name: metric, labels: [] }, labels);
  switch (condition.kind) {
    case 'above':
      return `${highest(selected)} > ${condition.value}`;
    case 'below':
      return `${highest(selected)} < ${condition.value}`;
    case 'growth':
      return `${highest(selected)} - ${highest(`${selected} offset ${formatDuration(condition.over)}`)} >= ${condition.atLeast}`;
    case 'age':
      // The oldest that any replica knows, as each of them tells of its own: one that began without a store has seen
      // everything for the first time just now, and the youngest would hide how long the others have known it.
      return `time() - ${lowest(selected)} > ${condition.above / 1000}`;
    case 'stale':
      return `${lowest(selected)} == 1`;
    case 'absent': {
      const accounts = series(health.up, labels.account ? { account: labels.account } : {});
      return `group without (${REPLICA}) (${accounts}) unless on (job, account) ${selected}`;
    }
  }
}

const unlessEmpty = <K extends string>(key: K, value: object) =>
  Object.keys(value).length === 0 ? {} : { [key]: value };

/** Rules as the content of a Prometheus rule file (2.42 and newer). `evaluateEvery`: milliseconds. */
export function prometheusRules(rules: readonly AlertRule[], evaluateEvery: number, metrics: Metrics): object {
  const collectors = [...new Set(rules.flatMap(({ when }) => metrics.collectorsOf(when)))];
  const records = collectors.length === 0 ? [] : healthRecords(metrics.health, collectors.flatMap(metrics.roundsOf));
  const alerts = rules.map(({ name, when, labels, annotations, ...rule }) => ({
    alert: name,
    expr: heldExpression({
      name,
      expr: expressionOf(when, metrics),
      labels: Object.keys(labels),
      collectors: metrics.collectorsOf(when),
      isCertain: isCertain(when),
    }),
    ...(rule.for === 0 ? {} : { for: formatDuration(rule.for) }),
    ...(rule.keepFiringFor === 0 ? {} : { keep_firing_for: formatDuration(rule.keepFiringFor) }),
    ...unlessEmpty('labels', labels),
    ...unlessEmpty('annotations', annotations),
  }));
  return {
    groups: [{ name: 'delivery-watch', interval: formatDuration(evaluateEvery), rules: [...records, ...alerts] }],
  };
}
