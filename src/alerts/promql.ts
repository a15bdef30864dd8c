import { formatDuration } from '../kit/duration.ts';
import type { AlertCondition, Selector } from './condition-options.ts';
import { selectorOf } from './judge.ts';

/** What tells the replicas of one agent apart: each shows the same. */
const REPLICA = 'instance, pod, replica';

const highest = (expr: string) => `max without (${REPLICA}) (${expr})`;
const lowest = (expr: string) => `min without (${REPLICA}) (${expr})`;

const quoted = (text: string) => JSON.stringify(text.toWellFormed());
const escapePattern = (text: string) => text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&');

function matcher(label: string, values: readonly string[]): string {
  const [one, ...others] = values;
  if (one !== undefined && others.length === 0) return `${label}=${quoted(one)}`;
  return `${label}=~${quoted(values.map(escapePattern).join('|'))}`;
}

function series({ metric, labels }: Selector): string {
  const matchers = Object.entries(labels).map(([label, values]) => matcher(label, values));
  return matchers.length === 0 ? metric : `${metric}{${matchers.join(', ')}}`;
}

/** `ownLabels`: what the family has beside `account`, which a sum is over. */
function risen(selector: Selector, over: number, ownLabels: readonly string[]): string {
  const increase = `increase(${series(selector)}[${formatDuration(over)}])`;
  return highest(ownLabels.length === 0 ? increase : `sum without (${ownLabels.join(', ')}) (${increase})`);
}

/**
 * A condition as PromQL, whose value is that by which the agent judges. `labelsOf`: the labels of a family beside
 * `account`. What it says while data is stale is another matter.
 */
export function promqlOf(condition: AlertCondition, labelsOf: (metric: string) => readonly string[]): string {
  if (condition.kind === 'ratio') {
    const { part, whole, over, above, atLeast } = condition;
    const of = risen(whole, over, labelsOf(whole.metric));
    return `${risen(part, over, labelsOf(part.metric))} / ${of} > ${above} and ${of} >= ${atLeast}`;
  }
  const selected = series(selectorOf(condition));
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
      const { account } = condition.labels;
      const accounts = series({ metric: 'delivery_up', labels: account ? { account } : {} });
      return `group without (${REPLICA}) (${accounts}) unless on (job, account) ${selected}`;
    }
  }
}

/** Name of the recording rule that says which collectors are blind in which accounts. */
export const BLIND = 'account_collector:delivery_collector_data_stale:min';

/**
 * The expression of that rule: 1 where no replica can tell what a collector reads, because in each some of these rounds is
 * stale, or never was complete since the agent started; else 0.
 */
export function blindness(rounds: readonly string[]): string {
  const labels = { round: [...rounds] };
  const stale = series({ metric: 'delivery_collector_data_stale', labels });
  const read = series({ metric: 'delivery_collector_data_timestamp_seconds', labels });
  return lowest(`max without (round) (${stale} > 0 or (${stale} unless ${read}) + 1 or ${stale})`);
}

/** Name of the recording rule that says of which collectors rows could not be read in which accounts. */
export const PARTIAL = 'account_collector:delivery_collector_success_minus_data_complete:min';

/** The expression of that rule: 1 where each replica met such rows when one of these rounds last came to its end; else less. */
export function partiality(rounds: readonly string[]): string {
  const labels = { round: [...rounds] };
  const success = series({ metric: 'delivery_collector_success', labels });
  const complete = series({ metric: 'delivery_collector_data_complete', labels });
  return `min without (${REPLICA}) (max without (round) (${success} - ${complete}))`;
}

/** What an alert is beside its condition. */
interface Held {
  readonly name: string;
  /** Names of the labels that the rule adds. */
  readonly labels: readonly string[];
  /** Whose data its condition is about. */
  readonly collectors: readonly string[];
  /** What the condition says is true though rows could not be read. */
  readonly isCertain: boolean;
}

/**
 * A condition's expression that begins to say nothing while one of the collectors is blind, and then goes on with what fired
 * when it became so, at the value -1. So it does where rows could not be read, but for what is true all the same.
 */
export function heldPromql(expr: string, { name, labels, collectors, isCertain }: Held): string {
  const blind = `${series({ metric: BLIND, labels: { collector: [...collectors] } })} == 1`;
  const partial = `${series({ metric: PARTIAL, labels: { collector: [...collectors] } })} == 1`;
  const gone = ['alertname', 'alertstate', ...labels].join(', ');
  const firing = `max without (${gone}) (ALERTS{alertname=${quoted(name)}, alertstate="firing"})`;
  const unless = isCertain ? '' : ` unless on (job, account) ${partial}`;
  const held = (state: string) => `\nor\n-(${firing} and on (job, account) ${state})`;
  return `(${expr}) unless on (job, account) ${blind}${unless}${held(blind)}${held(partial)}`;
}
