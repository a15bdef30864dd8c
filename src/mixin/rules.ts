import { stringify } from 'yaml';
import { HELD, healthRecords, heldExpression, type RecordingRule } from '../alerts/promql.ts';
import type { Objectives } from '../metrics/objectives.ts';
import { ownFamilies } from '../metrics/own.ts';
import { COUNTED_WINDOWS } from '../metrics/thresholds.ts';
import { agentAlerts } from './agent-alerts.ts';
import { type Alert, DASHBOARDS, decidingRounds } from './alert.ts';
import { dlqAlerts, dlqRecords } from './dlq-alerts.ts';
import { flowControlAlerts } from './flow-control-alerts.ts';
import { messageAlerts } from './message-alerts.ts';
import { burnRecords, longRecords, messageRecords } from './message-records.ts';
import { readingAlerts } from './reading-alerts.ts';
import { replicaAlerts } from './replica-alerts.ts';
import { scheduleAlerts } from './schedule-alerts.ts';

/** What rules say of the places where they are used. */
export interface RuleOptions {
  /** The job that scrapes the agents. */
  readonly job: string;
  /** Base addresses of links in alerts. Without one, alerts have no such link. */
  readonly runbooks?: string | undefined;
  readonly grafana?: string | undefined;
  /** Objectives of accounts whose agent does not tell them. */
  readonly objectives: Objectives;
}

/** As dashboards/ is generated. */
export const DEFAULTS: RuleOptions = {
  job: 'delivery-watch',
  objectives: { delivered: 0.99, onTime: 0.99, onTimeWithin: 300_000, window: 30 * 86_400_000, dlqMaxAge: 86_400_000 },
};

interface AlertGroup {
  readonly name: string;
  /** What its alerts have in common. */
  readonly about: string;
  readonly alerts: readonly Alert[];
}

/** Every alert there is. */
export const alertGroupsFor = ({ job }: RuleOptions): readonly AlertGroup[] => [
  {
    name: 'delivery-agent',
    about: 'Agent and collection',
    alerts: [...agentAlerts(job), ...replicaAlerts, ...readingAlerts],
  },
  { name: 'delivery-messages', about: 'Deliveries and the event log', alerts: messageAlerts },
  { name: 'delivery-dlq', about: 'The dead-letter queue and failure callbacks', alerts: dlqAlerts },
  { name: 'delivery-flow-control', about: 'Flow control', alerts: flowControlAlerts },
  { name: 'delivery-schedules', about: 'Schedules', alerts: scheduleAlerts },
];
export const alertGroups = alertGroupsFor(DEFAULTS);

interface RecordGroup {
  readonly name: string;
  /** How often its records are computed; default: as Prometheus is set. */
  readonly interval?: string;
  readonly rules: readonly RecordingRule[];
}

/** Every recording rule, in the order in which they need each other. */
const recordGroupsFor = ({ objectives }: RuleOptions): readonly [RecordGroup, ...RecordGroup[]] => [
  { name: 'delivery-health', rules: healthRecords(ownFamilies, decidingRounds) },
  // They add up minutes.
  { name: 'delivery-messages-short', interval: '1m', rules: messageRecords(objectives) },
  // More often than the five minutes for which Prometheus takes a sample for the latest.
  { name: 'delivery-messages-long', interval: `${COUNTED_WINDOWS.longEvery}m`, rules: longRecords },
  { name: 'delivery-error-budgets', interval: '1m', rules: burnRecords },
  // Alerts read a day of them.
  { name: 'delivery-dlq-records', interval: '1m', rules: dlqRecords(objectives) },
];
export const records: readonly RecordingRule[] = recordGroupsFor(DEFAULTS).flatMap(({ rules }) => rules);

const UNREAD = 'Still firing from before data went stale; current state unknown.';

/** An alert's description, whatever its value says. */
function descriptionOf({ description, collector, heldBy }: Alert): string {
  if (collector === undefined) return description;
  const notOver = heldBy === undefined ? '' : `{{ if eq $value ${HELD.notOver}.0 }}${heldBy.says}{{ else }}`;
  return `${notOver}{{ if lt $value 0.0 }}${UNREAD}{{ else }}${description}{{ end }}${notOver && '{{ end }}'}`;
}

/** An alert as Prometheus takes it. */
export function alertingRule(alert: Alert, { runbooks, grafana }: RuleOptions = DEFAULTS) {
  const { name, expr, labels = [], severity, keepFiringFor = '15m', summary, dashboard } = alert;
  const { judged, heldBy, countsUnreadable } = alert;
  const collectors = alert.collector ? [alert.collector] : [];
  return {
    alert: name,
    expr: heldExpression({
      name,
      expr,
      labels,
      given: [],
      collectors,
      isCertain: true,
      countsUnreadable,
      judged,
      heldBy: heldBy?.expr,
    }),
    ...(alert.for === undefined ? {} : { for: alert.for }),
    ...(keepFiringFor === '0s' ? {} : { keep_firing_for: keepFiringFor }),
    labels: { severity, ...(alert.collector && { collector: alert.collector }), ...alert.given },
    annotations: {
      summary,
      description: descriptionOf(alert),
      ...(runbooks !== undefined && { runbook_url: `${runbooks}/${name}.md` }),
      ...(grafana !== undefined && {
        dashboard_url: `${grafana}/d/${DASHBOARDS[dashboard]}${alert.isOfAgent ? '' : '?var-account={{ $labels.account }}'}`,
      }),
    },
  };
}

const alertingGroups = (options: RuleOptions) =>
  alertGroupsFor(options).map(({ name, alerts }) => ({
    name,
    rules: alerts.map(each => alertingRule(each, options)),
  }));

/** Alerts that a user has configured, and how often they are to be evaluated. */
interface ConfiguredAlerts {
  readonly interval: string;
  readonly rules: readonly object[];
}

/** The shipped rules and configured alerts, for Prometheus 2.42 and newer. What is configured is evaluated as often as the agent does. */
export function ruleGroups(options: RuleOptions, configured?: ConfiguredAlerts): readonly object[] {
  const [health, ...others] = recordGroupsFor(options);
  const first =
    configured && configured.rules.length > 0
      ? { name: 'delivery-watch', interval: configured.interval, rules: [...health.rules, ...configured.rules] }
      : health;
  return [first, ...others, ...alertingGroups(options)];
}

const GENERATED = '# Generated by `npm run generate`; do not edit.\n';

/** dashboards/rules/*.yaml, by file name. */
export function ruleFiles(): Readonly<Record<string, string>> {
  const file = (groups: readonly object[]) =>
    `${GENERATED}${stringify({ groups }, { lineWidth: 0, aliasDuplicateObjects: false })}`;
  return {
    'recording.yaml': file(recordGroupsFor(DEFAULTS)),
    'alerting.yaml': file(alertingGroups(DEFAULTS)),
  };
}

/** The same rules in one resource of the Prometheus Operator. */
export function prometheusRule(): string {
  const resource = {
    apiVersion: 'monitoring.coreos.com/v1',
    kind: 'PrometheusRule',
    metadata: { name: 'delivery-watch', labels: { 'app.kubernetes.io/name': 'delivery-watch' } },
    spec: { groups: [...recordGroupsFor(DEFAULTS), ...alertingGroups(DEFAULTS)] },
  };
  return `${GENERATED}${stringify(resource, { lineWidth: 0, aliasDuplicateObjects: false })}`;
}
