import { ownFamilies } from '../src/metrics/own.ts';
import {
  BLIND,
  type Family,
  highestOf,
  latest,
  lowestOf,
  PARTIAL,
  perReplica,
  type SumOptions,
  series,
  type VectorOf,
} from '../src/rules/promql.ts';
import { decidingRounds } from './alert.ts';

export interface RecordingRule {
  readonly record: string;
  readonly expr: string;
}

/** Sums selected series of a family in each replica, and takes the highest of these sums. */
export const total = <L extends string>(family: Family<L>, of: VectorOf, options: SumOptions<L> = {}): string =>
  highestOf(perReplica(family, of, options), options.keep);

/**
 * Increase of a counter above its lowest value in a window. A restored backup can lower a counter by one; `increase`
 * treats that as a reset and returns the complete value.
 */
export const riseAboveLowest = (window: string) => (selector: string) =>
  `last_over_time(${selector}[${window}]) - min_over_time(${selector}[${window}])`;

const BLIND_REPLICA = { name: 'replica_collector:delivery_collector_data_stale:max', labels: ['collector'] } as const;

const ofRounds = (family: Family) => series(family, { round: decidingRounds });
const worstRound = (expr: string) => `max without (round) (${expr})`;
const stale = ofRounds(ownFamilies.dataStale);

/**
 * Three rules for each collector, over the rounds that gauges depend on. Blind: 1 if a round is stale, or never
 * completed since the agent started, in a replica (first rule) or in all replicas (second rule); else 0. Partial: 1 if
 * the last round of every replica had unreadable rows, so that a missing entry may be one of them; else less.
 */
export const healthRecords: readonly RecordingRule[] = [
  {
    record: BLIND_REPLICA.name,
    expr: worstRound(`${stale} > 0 or (${stale} unless ${series(ownFamilies.dataTimestamp)}) + 1 or ${stale}`),
  },
  // A replica that ended counts for five more minutes, until its successor has read data.
  { record: BLIND.name, expr: lowestOf(latest(series(BLIND_REPLICA)), BLIND.labels) },
  {
    record: PARTIAL.name,
    expr: lowestOf(
      worstRound(`${ofRounds(ownFamilies.success)} - ${ofRounds(ownFamilies.dataComplete)}`),
      PARTIAL.labels,
    ),
  },
];

/** Excludes blind replicas from a vector with all labels of the target, and `labels`. */
export const unlessBlind = (collector: string, labels: readonly string[] = []) =>
  `unless ignoring (${['collector', ...labels].join(', ')}) ${series(BLIND_REPLICA, { collector })} == 1`;
