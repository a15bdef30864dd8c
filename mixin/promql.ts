import { ownFamilies } from '../src/metrics/own.ts';
import {
  BLIND,
  highestOf,
  latest,
  lowestOf,
  onAccount,
  PARTIAL,
  perReplica,
  type QueriedFamily,
  type SumOptions,
  series,
  type VectorOf,
} from '../src/rules/promql.ts';
import { decidingRounds } from './alert.ts';

export interface RecordingRule {
  readonly record: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly expr: string;
}

/** Selects current samples only. */
export const current: VectorOf = selector => selector;

/**
 * Returns the current value of an aggregation over replicas, or its last one if no replica has been scraped for up to 15
 * minutes. A false "resolved" would otherwise precede DeliveryAgentDown.
 */
export const lastKnown = (expr: string) => `last_over_time((${expr})[15m:15s])`;

/** Sums the selected series of a family for each replica, and returns the highest of these sums. */
export const total = <L extends string>(family: QueriedFamily<L>, of: VectorOf, options: SumOptions<L> = {}): string =>
  highestOf(perReplica(family, of, options), options.keep);

/**
 * Returns the difference between a counter's values at the two ends of a window. A restored backup can lower a counter by one;
 * `increase` would treat that as a reset and return the complete value.
 */
export const difference = (window: string) => (selector: string) => `delta(${selector}[${window}])`;

const ofRounds = (family: QueriedFamily) => series(family, { round: decidingRounds });
const worstRound = (expr: string) => `max without (round) (${expr})`;
const stale = ofRounds(ownFamilies.dataStale);
const BLIND_REPLICA = { name: 'replica:delivery_blind:max', labels: ['collector'] } as const;

/** Labels of alerts in addition to the account labels. A label that an alert lacks is empty. */
const ALERT_LABELS = ['alertname', 'collector', 'destination', 'flow_control_key', 'schedule'];
const FIRING = {
  name: 'account:delivery_hold:why',
  labels: ALERT_LABELS,
} as const satisfies QueriedFamily;

/**
 * Selects the hold values of firing alerts with this name: -1 if their data is readable, -2 if it is partial, -4 or less if all
 * replicas are blind.
 */
export const firing = (alertname: string) => series(FIRING, { alertname });

const collector = ['collector'];
/**
 * Quality of collected data, over the rounds on which gauges depend:
 * - blind, by replica and for the best replica: 1 if data is stale, 2 if it is stale because the agent cannot store it, 0.5 if
 *   nothing has been read since the agent started, otherwise 0;
 * - partial: 1 if the last round of every replica had unreadable rows (a missing entry may be one of them), otherwise 0 or
 *   negative;
 * - firing, for each firing alert on collected data: -1 if that data is readable, -2 if it is partial, -4 or less if it is
 *   blind, or not collected for up to 15 minutes.
 */
export const healthRecords: readonly RecordingRule[] = [
  {
    record: BLIND_REPLICA.name,
    expr: worstRound(
      `${stale} == 1 unless ${series(ownFamilies.dataComplete)} > ${series(ownFamilies.success)}\nor (${stale} == 0 unless ${series(ownFamilies.dataTimestamp)}) + 0.5\nor 2 * ${stale}`,
    ),
  },
  // A stopped replica counts for five more minutes, which gives its successor time to read data.
  { record: BLIND.name, expr: lowestOf(latest(series(BLIND_REPLICA)), BLIND.labels) },
  {
    record: PARTIAL.name,
    expr: lowestOf(
      worstRound(`${ofRounds(ownFamilies.success)} - ${ofRounds(ownFamilies.dataComplete)}`),
      PARTIAL.labels,
    ),
  },
  {
    record: FIRING.name,
    expr: `${highestOf('ALERTS{alertstate="firing", collector!=""}', ALERT_LABELS)}\n* ${onAccount(collector)} group_left () (-2 - 4 * (${series(BLIND)} > 0) or -1 - (${series(PARTIAL)} > 0) or 0 * ${series(BLIND)} - 1 or 0 * last_over_time(${series(BLIND)}[15m]) - 6)`,
  },
];

/** Excludes accounts whose `collector` is blind. The vector on the left must have the account labels and `labels`. */
export const unlessBlind = (collector: string, labels: readonly string[] = []) =>
  `unless ignoring (${['collector', ...labels].join(', ')}) ${series(BLIND, { collector })} > 0`;

/**
 * Returns the last value of a record that is 0 while a condition is false and absent while it is unknown. The range exceeds every
 * `keepFiringFor`.
 */
export const lastResult = (record: string) => `last_over_time(${record}[30m])`;

/** Matching clause that ignores the labels that the record of firing alerts has and an alert's expression lacks. */
export const IGNORING_NAME = 'ignoring (alertname, collector)';
