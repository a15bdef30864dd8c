import { collectors } from '../collectors/index.ts';
import type { Family } from '../metrics/family.ts';
import { ownFamilies } from '../metrics/own.ts';
import { lowest, series } from './promql.ts';

/** `critical`: somebody should look now; `warning`: today; `info`: worth knowing. */
export type Severity = 'critical' | 'warning' | 'info';

/** The dashboards' uids: fixed, so that links to them stay good. */
export const DASHBOARDS = {
  overview: 'delivery-watch-overview',
  dlq: 'delivery-watch-dlq',
  agent: 'delivery-watch-agent',
} as const;

/** One alert as it is thought of; `rules.ts` makes the Prometheus rule. */
export interface Alert {
  readonly name: `Delivery${string}`;
  readonly severity: Severity;
  /** PromQL without the holding. Its value is never below zero: that is how what is held is told apart. */
  readonly expr: string;
  /** How long it must be true, as Prometheus writes durations. Default: fires at once. */
  readonly for?: string;
  /** How long it goes on firing when it is no longer true. Default `15m`: longer than it takes DeliveryAgentDown to fire. */
  readonly keepFiringFor?: string;
  /** Whose data it judges. While nobody can read that, an alert that fires goes on firing. */
  readonly collector?: 'flow_control' | 'dlq' | 'events';
  /** Besides: PromQL of series that go on firing while it gives them, by the labels `on`. */
  readonly heldBy?: { readonly on: readonly string[]; readonly expr: string };
  /** Labels that the expression can't give. */
  readonly labels?: Readonly<Record<string, string>>;
  /** One line, without numbers: what is wrong, and where. May use `$labels`. */
  readonly summary: string;
  /** A sentence or two with the value, humanised. */
  readonly description: string;
  readonly dashboard: keyof typeof DASHBOARDS;
  /** It is about the agent, and not about one of its accounts. */
  readonly isOfAgent?: true;
}

export interface RecordingRule {
  readonly record: string;
  readonly expr: string;
}

const auxiliaryOf = ({ auxiliary = [] }: (typeof collectors)[number]) => auxiliary;

/** Rounds that may fail without any gauge becoming wrong. */
export const auxiliaryRounds = [...new Set(collectors.flatMap(auxiliaryOf))];

/** Rounds that gauges depend on: without them, these are withdrawn in the end. */
export const decidingRounds = collectors
  .flatMap(({ rounds, options }) => Object.keys(rounds(options.parse({}))))
  .filter(round => !auxiliaryRounds.includes(round));

/** A label that has one of the values. */
export const oneOf = (values: readonly string[]) => new RegExp(values.join('|'));

/**
 * 1 where no replica reads what a collector reads: in each, some deciding round is stale or, since the agent started, never
 * complete; else 0.
 */
export const blind: RecordingRule = (() => {
  const stale = series(ownFamilies.dataStale, { round: oneOf(decidingRounds) });
  return {
    record: 'account_collector:delivery_collector_data_stale:min',
    expr: lowest(
      `max without (round) (${stale} > 0 or (${stale} unless ${series(ownFamilies.dataTimestamp)}) + 1 or ${stale})`,
    ),
  };
})();

/**
 * 1 where each replica met rows that it could not read when it last read what a collector reads; else less. What is then
 * gone may be among those.
 */
export const partial: RecordingRule = (() => {
  const of = (family: Family<'collector' | 'round'>) => series(family, { round: oneOf(decidingRounds) });
  return {
    record: 'account_collector:delivery_collector_success_minus_data_complete:min',
    expr: lowest(`max without (round) (${of(ownFamilies.success)} - ${of(ownFamilies.dataComplete)})`),
  };
})();

/**
 * An alert's expression, and what keeps it firing. When data can't be read, gauges vanish and counters stand still, which
 * looks like recovery, and so does a row that can't be read; so an alert that fires then goes on, with the value -1, until
 * there is data to judge. One that does not fire yet does not begin to: frozen counters go on to say what they said last,
 * and a time goes on getting older.
 */
export function heldExpression({ name, expr, collector, heldBy }: Alert): string {
  const firing = `max without (alertname, alertstate, severity) (ALERTS{alertname="${name}", alertstate="firing"})`;
  const isBlind = `on (job, account) ${blind.record}{collector="${collector}"} == 1`;
  return [
    collector ? `(${expr})\nunless ${isBlind}` : expr,
    ...(collector ? [`-(${firing} and ${isBlind})`] : []),
    ...(collector ? [`-(${firing} and on (job, account) ${partial.record}{collector="${collector}"} == 1)`] : []),
    ...(heldBy ? [`-(${firing} and on (${heldBy.on.join(', ')}) ${heldBy.expr})`] : []),
  ].join('\nor\n');
}
