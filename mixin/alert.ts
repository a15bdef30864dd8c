import type { AlertSet } from '../src/cli/shipped.ts';
import { collectors, dataSources } from '../src/collectors/index.ts';

/** `critical`: act now; `warning`: act today; `info`: no action. */
export type Severity = 'critical' | 'warning' | 'info';

/** Uids of the dashboards. They are fixed, so that links remain valid. */
export const DASHBOARDS = {
  overview: 'delivery-watch-overview',
  dlq: 'delivery-watch-dlq',
  agent: 'delivery-watch-agent',
} as const;

/** An alert, from which `rules.ts` creates a Prometheus rule. */
export interface AlertSpec {
  readonly name: `Delivery${string}`;
  readonly set: AlertSet;
  /** Severity, or a template if the severity depends on the value. */
  readonly severity: Severity | `{{ ${string} }}`;
  /** PromQL without the hold, which `rules.ts` adds. Values must not be negative: a negative value identifies a held alert. */
  readonly expr: string;
  /** Labels of the expression, in addition to the account labels. */
  readonly labels?: readonly string[];
  /** How long the expression must be true, as a Prometheus duration. By default, the alert fires immediately. */
  readonly for?: string;
  /**
   * How long the alert keeps firing after the expression is no longer true. Default `0s`, because one good answer disproves most
   * conditions. Set it for shares and growth, which may exceed their limit again.
   */
  readonly keepFiringFor?: string;
  /** Collector of the alert's data. While no replica can read the data, a firing alert keeps firing, and no alert starts to fire. */
  readonly collector?: 'flow_control' | 'dlq' | 'events';
  /** Whether the value includes unreadable rows, which then do not prevent the alert from resolving. */
  readonly countsUnreadable?: true;
  /** Whether the expression has no result while the collector's data is stale. */
  readonly isAbsentWhenBlind?: true;
  /**
   * Expression that has a result if the condition was false when it could last be evaluated: then unreadable data does not
   * restart `keepFiringFor`. By default, the alert can be evaluated unless data is unreadable.
   */
  readonly ended?: string;
  /** Labels that the rule adds, because the expression does not return them. */
  readonly given?: Readonly<Record<string, string>>;
  /** One line without numbers that states the problem and its place. May use `$labels`. */
  readonly summary: string;
  /** One or two sentences with the humanised value. */
  readonly description: string;
  readonly dashboard: keyof typeof DASHBOARDS;
  /** Whether the alert is about the agent instead of one of its accounts. */
  readonly isOfAgent?: true;
}

/** Rounds on which no gauge depends. */
export const auxiliaryRounds = [...new Set(dataSources.flatMap(({ auxiliary = [] }) => auxiliary))];

/** Rounds on which gauges depend: while such a round keeps failing, its gauges are withdrawn. */
export const decidingRounds = collectors
  .flatMap(({ rounds, options }) => Object.keys(rounds(options.parse({}))))
  .filter(round => !auxiliaryRounds.includes(round));

/** Returns a selector for a metric of the alert's account, for queries in templates. `more`: additional matchers. */
export const ofItsAccount = (name: string, more = '') => `${name}{cluster=%q, namespace=%q, job=%q, account=%q${more}}`;

/**
 * Returns template code for the result of a query about the alert's account. `expr` contains a selector from `ofItsAccount`.
 */
export const queried = (expr: string) =>
  `query (printf \`${expr}\` $labels.cluster $labels.namespace $labels.job $labels.account)`;

/** Returns template code that renders `text` if the record is above 0 for the alert's account. In `text`, `.` is the record's value. */
export const ifAbove0 = (record: string, text: string, more = '') =>
  `{{ with ${queried(`${ofItsAccount(record, more)} > 0`)} }}{{ with . | first | value }}${text}{{ end }}{{ end }}`;
