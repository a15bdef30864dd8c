import { collectors, dataSources } from '../src/collectors/index.ts';

/** `critical`: act now; `warning`: today; `info`: worth knowing. */
export type Severity = 'critical' | 'warning' | 'info';

/** The dashboards' uids: fixed, so that links to them stay good. */
export const DASHBOARDS = {
  overview: 'delivery-watch-overview',
  dlq: 'delivery-watch-dlq',
  agent: 'delivery-watch-agent',
} as const;

/** One alert; `rules.ts` makes the Prometheus rule. */
export interface Alert {
  readonly name: `Delivery${string}`;
  readonly severity: Severity;
  /** PromQL without the hold. Its value is never below zero, as that of a held alert is. */
  readonly expr: string;
  /** Labels of the expression, besides those that tell accounts apart. */
  readonly labels?: readonly string[];
  /** How long it must be true, as Prometheus writes durations. Default: fires at once. */
  readonly for?: string;
  /** How long it goes on firing when it is no longer true. Default `15m`: longer than it takes DeliveryAgentDown to fire. */
  readonly keepFiringFor?: string;
  /** Whose data it judges. While no replica can read that, an alert that fires goes on firing, and none begins. */
  readonly collector?: 'flow_control' | 'dlq' | 'events';
  /** Unreadable rows are included in its numbers: it resolves although there are some. */
  readonly countsUnreadable?: true;
  /** PromQL of the accounts that it can judge now, as far as `collector` is read: an alert on windows needs whole ones. */
  readonly judged?: string;
  /** Besides: PromQL of series that go on firing while it gives them, by the account and `labels`; and what is then said. */
  readonly heldBy?: { readonly expr: string; readonly says: string };
  /** Labels that the expression can't give. */
  readonly given?: Readonly<Record<string, string>>;
  /** One line, without numbers: what is wrong, and where. May use `$labels`. */
  readonly summary: string;
  /** A sentence or two with the value, humanised. */
  readonly description: string;
  readonly dashboard: keyof typeof DASHBOARDS;
  /** It is about the agent, and not about one of its accounts. */
  readonly isOfAgent?: true;
}

/** Rounds that may fail without any gauge becoming wrong. */
export const auxiliaryRounds = [...new Set(dataSources.flatMap(({ auxiliary = [] }) => auxiliary))];

/** Rounds that gauges depend on: without them, these are withdrawn in the end. */
export const decidingRounds = collectors
  .flatMap(({ rounds, options }) => Object.keys(rounds(options.parse({}))))
  .filter(round => !auxiliaryRounds.includes(round));

/** Series of an alert's account, as a template queries them; `more`: further matchers. */
export const ofItsAccount = (name: string, more = '') => `${name}{cluster=%q, namespace=%q, job=%q, account=%q${more}}`;

/** In a template: the result of a query of the alert's account, by its `ofItsAccount`. */
export const queried = (expr: string) =>
  `query (printf \`${expr}\` $labels.cluster $labels.namespace $labels.job $labels.account)`;

/** In a template: `text`, if the record of the alert's account is above 0. In the text, `.` is the record's value. */
export const ifAbove0 = (record: string, text: string) =>
  `{{ with ${queried(`${ofItsAccount(record)} > 0`)} }}{{ with . | first | value }}${text}{{ end }}{{ end }}`;
