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
export interface AlertSpec {
  readonly name: `Delivery${string}`;
  readonly set: AlertSet;
  /** A template if it depends on the value. */
  readonly severity: Severity | `{{ ${string} }}`;
  /** PromQL without the hold. Its values are never negative; held alerts have negative values. */
  readonly expr: string;
  /** Labels of the expression, in addition to the account labels. */
  readonly labels?: readonly string[];
  /** How long the expression must be true, as a Prometheus duration. By default the alert fires at once. */
  readonly for?: string;
  /**
   * How long the alert keeps firing after the expression is no longer true. Default `15m`: longer than DeliveryAgentDown needs
   * to fire.
   */
  readonly keepFiringFor?: string;
  /** Collector of the alert's data. While no replica can read that data, a firing alert keeps firing, and others do not start. */
  readonly collector?: 'flow_control' | 'dlq' | 'events';
  /** Whether the value includes unreadable rows, which then do not prevent the alert from resolving. */
  readonly countsUnreadable?: true;
  /** Whether the expression has no result while the collector's data is stale. */
  readonly isAbsentWhenBlind?: true;
  /** Record that exists only if the state of the alert is known. By default, the state is known unless data is unreadable. */
  readonly known?: string;
  /** Labels that the rule adds, because the expression does not return them. */
  readonly given?: Readonly<Record<string, string>>;
  /** One line without numbers: what is wrong, and where. May use `$labels`. */
  readonly summary: string;
  /** One or two sentences with the humanised value. */
  readonly description: string;
  readonly dashboard: keyof typeof DASHBOARDS;
  /** Whether the alert is about the agent instead of one of its accounts. */
  readonly isOfAgent?: true;
}

/** Rounds that no gauge depends on. */
export const auxiliaryRounds = [...new Set(dataSources.flatMap(({ auxiliary = [] }) => auxiliary))];

/** Rounds that gauges depend on: if they fail for long, the gauges are withdrawn. */
export const decidingRounds = collectors
  .flatMap(({ rounds, options }) => Object.keys(rounds(options.parse({}))))
  .filter(round => !auxiliaryRounds.includes(round));

/** Returns a selector of the alert's account for queries in templates. `more`: further matchers. */
export const ofItsAccount = (name: string, more = '') => `${name}{cluster=%q, namespace=%q, job=%q, account=%q${more}}`;

/** Returns template code for the result of a query about the alert's account. `expr` contains an `ofItsAccount`. */
export const queried = (expr: string) =>
  `query (printf \`${expr}\` $labels.cluster $labels.namespace $labels.job $labels.account)`;

/** Returns template code that renders `text` if the record of the alert's account is above 0. `.` in the text is the record's value. */
export const ifAbove0 = (record: string, text: string, more = '') =>
  `{{ with ${queried(`${ofItsAccount(record, more)} > 0`)} }}{{ with . | first | value }}${text}{{ end }}{{ end }}`;
