import type { AlertSet } from '../src/cli/shipped.ts';
import { collectors, dataSources } from '../src/collectors/index.ts';

/** `critical`: act now; `warning`: act today; `info`: no action. */
export type Severity = 'critical' | 'warning' | 'info';

/** Fixed dashboard uids keep links stable. */
export const DASHBOARDS = {
  overview: 'delivery-watch-overview',
  dlq: 'delivery-watch-dlq',
  agent: 'delivery-watch-agent',
} as const;

/** One alert; `rules.ts` creates its Prometheus rule. */
export interface Alert {
  readonly name: `Delivery${string}`;
  readonly set: AlertSet;
  readonly severity: Severity;
  /** PromQL without the hold. Its value is never negative; held alerts have negative values. */
  readonly expr: string;
  /** Labels of the expression, in addition to the account labels. */
  readonly labels?: readonly string[];
  /** Time for which it must be true, as a Prometheus duration. Fires at once by default. */
  readonly for?: string;
  /**
   * Time for which it keeps firing after it is no longer true. Default `15m`: longer than DeliveryAgentDown needs to
   * fire.
   */
  readonly keepFiringFor?: string;
  /**
   * The collector of its data. While no replica can read that data, the alert keeps firing if it fires, and does not
   * start.
   */
  readonly collector?: 'flow_control' | 'dlq' | 'events';
  /** Unreadable rows are included in its value, so they do not prevent it from resolving. */
  readonly countsUnreadable?: true;
  /**
   * PromQL of the accounts for which it can be evaluated: an alert on windows needs complete ones. Only applies to data
   * that `collector` reads.
   */
  readonly judged?: string;
  /** PromQL of series that keep the alert firing, by the account and `labels`, and the description in that case. */
  readonly heldBy?: { readonly expr: string; readonly says: string };
  /** Labels that the expression does not return. */
  readonly given?: Readonly<Record<string, string>>;
  /** One line without numbers: what is wrong and where. May use `$labels`. */
  readonly summary: string;
  /** One or two sentences with the humanised value. */
  readonly description: string;
  readonly dashboard: keyof typeof DASHBOARDS;
  /** Whether it is about the agent instead of one of its accounts. */
  readonly isOfAgent?: true;
}

/** Rounds that no gauge depends on. */
export const auxiliaryRounds = [...new Set(dataSources.flatMap(({ auxiliary = [] }) => auxiliary))];

/** Rounds that gauges depend on: if they fail for long, the gauges are withdrawn. */
export const decidingRounds = collectors
  .flatMap(({ rounds, options }) => Object.keys(rounds(options.parse({}))))
  .filter(round => !auxiliaryRounds.includes(round));

/** Series of an alert's account, as a template queries them; `more`: further matchers. */
export const ofItsAccount = (name: string, more = '') => `${name}{cluster=%q, namespace=%q, job=%q, account=%q${more}}`;

/** In a template: the result of a query for the alert's account. `expr` contains an `ofItsAccount`. */
export const queried = (expr: string) =>
  `query (printf \`${expr}\` $labels.cluster $labels.namespace $labels.job $labels.account)`;

/** In a template: `text` if the record of the alert's account is above 0. In the text, `.` is the record's value. */
export const ifAbove0 = (record: string, text: string) =>
  `{{ with ${queried(`${ofItsAccount(record)} > 0`)} }}{{ with . | first | value }}${text}{{ end }}{{ end }}`;
