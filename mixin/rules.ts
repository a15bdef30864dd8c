import { stringify } from 'yaml';
import {
  ALERT_SETS,
  type AlertSet,
  alertGroup,
  DEFAULT_OBJECTIVES,
  filled,
  type RuleGroup,
} from '../src/cli/shipped.ts';
import { agentAlerts } from './agent-alerts.ts';
import { type AlertSpec, DASHBOARDS } from './alert.ts';
import { dlqAlerts, dlqRecords } from './dlq-alerts.ts';
import { flowControlAlerts, flowControlRecords } from './flow-control-alerts.ts';
import { leaderAlerts } from './leader-alerts.ts';
import { messageAlerts } from './message-alerts.ts';
import { burnRecords, longRecords, messageRecords } from './message-records.ts';
import { placeholder } from './placeholder.ts';
import { firing, healthRecords, IGNORING_NAME, type RecordingRule, unlessBlind } from './promql.ts';
import { readingAlerts, unavailableRecord } from './reading-alerts.ts';
import { scheduleAlerts } from './schedule-alerts.ts';
import { COUNTED_WINDOWS } from './thresholds.ts';

/** Conditions for loading each set of alerts. */
export const SETS: Readonly<Record<AlertSet, string>> = {
  core: 'For every team: see [core-alerts.md](core-alerts.md).',
  postgresql: 'If the store is in PostgreSQL.',
  'auto-cancel': 'If auto-cancel is enabled.',
  schedules: 'If `schedules` are configured.',
  'flow-control': 'If messages have flow-control keys.',
  notifications: 'If the agent itself sends alerts.',
  extended: 'Off by default, for investigations or earlier warning. Load `dashboards/rules/extended.yaml` as well.',
};

export const alerts: readonly AlertSpec[] = [
  ...agentAlerts,
  ...leaderAlerts,
  ...readingAlerts,
  ...messageAlerts,
  ...dlqAlerts,
  ...flowControlAlerts,
  ...scheduleAlerts,
];

/** Groups of recording rules, in the order of their dependencies. */
const recordGroups: readonly RuleGroup[] = [
  // This group must be the first, because `rules print` adds configured alerts to it.
  { name: 'delivery-health', rules: [...healthRecords, unavailableRecord] },
  // Error budgets, increases per minute, ratios over short windows, and stalls.
  { name: 'delivery-messages-short', interval: '1m', rules: messageRecords },
  // The interval must be shorter than the lookback of Prometheus, which is five minutes.
  { name: 'delivery-messages-long', interval: `${COUNTED_WINDOWS.longEvery}m`, rules: longRecords },
  { name: 'delivery-error-budgets', interval: '1m', rules: burnRecords },
  // Alerts query these records over ranges of up to one day.
  { name: 'delivery-dlq-records', interval: '1m', rules: dlqRecords },
  { name: 'delivery-flow-control-records', interval: '1m', rules: flowControlRecords },
];

const UNREAD = 'Still firing: current data does not show whether the problem is over.';

/**
 * Returns an alert's expression with its hold. Unreadable data looks like recovery, because gauges are withdrawn and counters are
 * frozen. Therefore a firing alert keeps firing with a negative value until data is readable, or until no agent collects that
 * data any more. Alerts that are not firing do not start to fire.
 */
function heldExpression({
  name,
  expr,
  labels,
  collector,
  countsUnreadable,
  isAbsentWhenBlind,
  ended,
}: AlertSpec): string {
  if (collector === undefined) return expr;
  const hold = ended === undefined ? `< ${countsUnreadable ? -2 : -1}` : `unless ${IGNORING_NAME} ${ended}`;
  const quiet = isAbsentWhenBlind || ended !== undefined ? [] : [unlessBlind(collector, labels)];
  return [expr, ...quiet, `or ${IGNORING_NAME} ${firing(name)} ${hold}`].join('\n');
}

/** Converts an alert to a Prometheus rule with placeholders. */
function alertingRule(alert: AlertSpec) {
  const { name, severity, keepFiringFor = '0s', summary, description, dashboard, collector } = alert;
  const account = alert.isOfAgent ? '' : '?var-account={{ $labels.account }}';
  return {
    alert: name,
    expr: heldExpression(alert),
    ...(alert.for === undefined ? {} : { for: alert.for }),
    ...(keepFiringFor === '0s' ? {} : { keep_firing_for: keepFiringFor }),
    labels: { severity, ...(collector && { collector }), ...alert.given },
    annotations: {
      summary,
      description: collector ? `{{ if lt $value 0.0 }}${UNREAD}{{ else }}${description}{{ end }}` : description,
      runbook_url: `${placeholder('runbooks')}/${name}.md`,
      dashboard_url: `${placeholder('grafana')}/d/${DASHBOARDS[dashboard]}${account}`,
    },
  };
}

/** One group for each set. The last one contains the extended alerts. */
const alertingGroups: readonly RuleGroup[] = ALERT_SETS.map(set => ({
  name: alertGroup(set),
  rules: alerts.filter(alert => alert.set === set).map(alertingRule),
}));

/** All rules with placeholders, as JSON. */
export const rulesTemplate = JSON.stringify([...recordGroups, ...alertingGroups]);

/** All rules with default objectives and without links. */
export const allGroups = filled(rulesTemplate, { objectives: DEFAULT_OBJECTIVES }) as readonly RuleGroup[];
export const records: readonly RecordingRule[] = allGroups.flatMap(({ rules }) =>
  rules.flatMap(({ record, labels, expr }) =>
    record === undefined ? [] : [{ record, ...(labels && { labels }), expr }],
  ),
);

const GENERATED = '# Generated by `npm run generate`; do not edit.\n';

/** Returns the contents of dashboards/rules/*.yaml, by file name. */
export function ruleFiles(): Readonly<Record<string, string>> {
  const file = (groups: readonly object[]) =>
    `${GENERATED}${stringify({ groups }, { lineWidth: 0, aliasDuplicateObjects: false })}`;
  return {
    'recording.yaml': file(allGroups.slice(0, recordGroups.length)),
    'alerting.yaml': file(allGroups.slice(recordGroups.length, -1)),
    'extended.yaml': file(allGroups.slice(-1)),
  };
}

/** Returns the rules as Prometheus Operator resources. `base`: recording.yaml and alerting.yaml; `extended`: extended.yaml. */
export function ruleResources(): { readonly base: string; readonly extended: string } {
  const resource = (name: string, groups: readonly RuleGroup[]) => {
    const metadata = { name, labels: { 'app.kubernetes.io/name': 'delivery-watch' } };
    const rule = { apiVersion: 'monitoring.coreos.com/v1', kind: 'PrometheusRule', metadata, spec: { groups } };
    return `${GENERATED}${stringify(rule, { lineWidth: 0, aliasDuplicateObjects: false })}`;
  };
  return {
    base: resource('delivery-watch', allGroups.slice(0, -1)),
    extended: resource('delivery-watch-extended', allGroups.slice(-1)),
  };
}
