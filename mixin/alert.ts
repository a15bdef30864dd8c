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
  /** A template if it depends on the value. */
  readonly severity: Severity | `{{ ${string} }}`;
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
  /** The expression has no result while the collector's data is stale. */
  readonly isAbsentWhenBlind?: true;
  /** A record that exists if the state of the alert is known. Without one the state is known unless data is unreadable. */
  readonly known?: string;
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
export const ifAbove0 = (record: string, text: string, more = '') =>
  `{{ with ${queried(`${ofItsAccount(record, more)} > 0`)} }}{{ with . | first | value }}${text}{{ end }}{{ end }}`;
