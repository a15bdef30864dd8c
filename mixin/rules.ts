import { stringify } from 'yaml';
import { filled, type RuleGroup, type ShippedRule } from '../src/cli/shipped.ts';
import { collectors, dataSources } from '../src/collectors/index.ts';
import { alertingFamilies } from '../src/metrics/alerting.ts';
import { leaderFamilies } from '../src/metrics/leader.ts';
import { ownFamilies } from '../src/metrics/own.ts';
import { highestOf, series } from '../src/rules/promql.ts';
import { NAMED, NOT_OTHER, NOT_SENT, patternOf } from './catalogue.ts';
import { DASHBOARDS } from './dashboard-links.ts';
import { placeholder } from './placeholder.ts';
import { sloRules } from './slo.ts';

const JOB = 'cluster, namespace, job';
/** Prometheus's own metric: whether the last scrape of a target succeeded. */
const up = { name: 'up', labels: [] } as const;
const ofJob = { job: placeholder('jobInQuotes') } as const;
const collected = series(ownFamilies.up);
const { problem } = alertingFamilies;
const { labels } = problem;

/** Current problems. The rule reads its own last result, because a longer range would return ended problems of replaced pods. */
const HELD = { name: 'delivery:held', labels } as const;

/** Returns the current problems. `problems`: selector of their series. `previous`: expression for their last states. */
const heldOf = (
  problems: string,
  previous: string,
) => `# Problems that an agent reports. Ten minutes without samples, such as a restart or a takeover, do not end them.
(
  ${highestOf(`last_over_time(${problems}[10m])`, labels)}
  # While no agent reads an account, its problems continue,
  or ${previous} unless on (${JOB}, account) ${collected}
    # unless the account was removed: all targets respond and read other accounts. All problems end a day after the last sample of the job.
    unless on (${JOB}) (${collected} unless on (${JOB}) ${series(up)} == 0) and on (${JOB}) last_over_time(${problems}[1d])
) == 1`;

const held = heldOf(series(problem), `last_over_time(${HELD.name}[10m])`);

/** Accounts by agent. Service discovery gives each account a separate target; all such targets of a job count as one agent. */
const known = `label_replace(max_over_time(${collected}[1d:5m]), "instance", "", "instance", "delivery-watch/.+")`;
const missing = `# Accounts that an agent read for five minutes of the last day,
group by (${JOB}, account) (
  ${known}
  # except those of agents with another account that is still read: the missing accounts were removed from the configuration.
  unless on (${JOB}, instance, replica) (${known} and on (${JOB}, account) ${collected})
)`;

interface Alert {
  readonly alert: `Delivery${string}`;
  readonly expr: string;
  readonly for?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly summary: string;
  readonly dashboard?: keyof typeof DASHBOARDS;
}

/** Alerts on the absence of the agent. */
const ABSENCE: readonly Alert[] = [
  {
    alert: 'DeliveryAgentDown',
    expr: `absent(${series(up, ofJob)} == 1)`,
    for: '10m',
    // absent() does not return the labels of the missing series.
    labels: { severity: 'critical', job: placeholder('job') },
    summary: `Prometheus cannot scrape any agent of the job ${placeholder('job')}, so no account is monitored.`,
    dashboard: 'agent',
  },
  {
    alert: 'DeliveryInstanceDown',
    expr: `${series(up, ofJob)} == 0`,
    for: '10m',
    labels: { severity: 'warning' },
    summary: 'Prometheus cannot scrape the agent {{ $labels.instance }}.',
    dashboard: 'agent',
  },
  {
    alert: 'DeliveryAccountMissing',
    expr: missing,
    for: '10m',
    labels: { severity: 'critical' },
    summary: 'No running agent collects the account {{ $labels.account }}.',
    dashboard: 'agent',
  },
  {
    alert: 'DeliveryNoLeader',
    expr: `sum by (${JOB}, schema) (${series(leaderFamilies.leader)}) != 1`,
    for: '1m',
    labels: { severity: 'critical' },
    summary: 'The schema {{ $labels.schema }} has {{ $value }} leaders instead of one.',
    dashboard: 'agent',
  },
];

const DASHBOARD_OF: Readonly<Record<string, keyof typeof DASHBOARDS>> = {
  DeliveryDlqGrowing: 'dlq',
  DeliveryDlqExpiringSoon: 'dlq',
  DeliveryFailureCallbackStuck: 'dlq',
};

const named = NAMED.map(
  ({ alert, kinds, summary }): Alert => ({
    alert,
    expr: series(HELD, { kind: kinds.length > 1 ? new RegExp(patternOf(kinds)) : kinds }),
    summary,
    dashboard: DASHBOARD_OF[alert] ?? 'overview',
  }),
);

/** Alert on all other problems. */
const other: Alert = {
  alert: 'DeliveryProblem',
  expr: `${HELD.name}{kind!~"${NOT_OTHER}", severity!="${NOT_SENT}"}${placeholder('enabled')}`,
  summary:
    '{{ with $labels.account }}{{ . }}{{ else }}The agent{{ end }} has the problem {{ $labels.kind }}{{ with $labels.subject }} ({{ . }}){{ end }}.',
};

/** Alerts of the default set. */
export const alerts: readonly Alert[] = [...ABSENCE, ...named, other];

function alertingRule({ alert, summary, dashboard = 'overview', ...rule }: Alert): ShippedRule {
  return {
    alert,
    ...rule,
    annotations: {
      summary,
      runbook_url: `${placeholder('runbooks')}/${alert}.md`,
      status_url: `${placeholder('agent')}/{{ with $labels.account }}accounts/{{ . }}{{ end }}`,
      dashboard_url: `${placeholder('grafana')}/d/${DASHBOARDS[dashboard]}{{ with $labels.account }}?var-account={{ . }}{{ end }}`,
    },
  };
}

const auxiliary = new Set(dataSources.flatMap(({ auxiliary = [] }) => auxiliary));
/** Rounds on which gauges depend: while such a round keeps failing, its gauges are withdrawn. */
const decidingRoundsOf = (kinds: typeof collectors) =>
  kinds.flatMap(({ rounds, options }) => Object.keys(rounds(options.parse({})))).filter(round => !auxiliary.has(round));

/** Deciding rounds that show whether an account is readable. */
export const essentialRounds = decidingRoundsOf(collectors.filter(({ isOptional }) => !isOptional));

/** All rules with placeholders, as JSON. */
export const rulesTemplate = JSON.stringify({
  default: { name: 'delivery-watch', rules: [{ record: HELD.name, expr: held }, ...alerts.map(alertingRule)] },
  slo: { name: 'delivery-slo', interval: '1m', rules: sloRules },
});

/** All rules with default values and without links. */
export const allGroups = filled(rulesTemplate, {}) as Readonly<Record<'default' | 'slo', RuleGroup>>;

/**
 * Alerts of the default set for systems without recording rules. They take the last states from the samples of the last day,
 * aggregated over pods, so that a removed pod does not return ended problems.
 */
export const alertsWithoutRecord = allGroups.default.rules
  .filter(({ alert }) => alert !== undefined)
  .map(rule => {
    if (!rule.expr.startsWith(HELD.name)) return rule;
    const problems = rule.expr.replace(HELD.name, problem.name);
    return { ...rule, expr: heldOf(problems, `last_over_time((${highestOf(problems, labels)})[1d:1m])`) };
  });

export const yaml = (value: object) =>
  `# Generated by \`npm run generate\`; do not edit.\n${stringify(value, { lineWidth: 0, compat: 'yaml-1.1', aliasDuplicateObjects: false })}`;

/** Returns the generated rule files by path in the repository. The PrometheusRule contains the default set. */
export function ruleFiles(): Readonly<Record<string, string>> {
  const metadata = { name: 'delivery-watch', labels: { 'app.kubernetes.io/name': 'delivery-watch' } };
  const spec = { groups: [allGroups.default] };
  const resource = { apiVersion: 'monitoring.coreos.com/v1', kind: 'PrometheusRule', metadata, spec };
  return {
    'dashboards/rules/alerting.yaml': yaml({ groups: [allGroups.default] }),
    'dashboards/rules/slo.yaml': yaml({ groups: [allGroups.slo] }),
    'deploy/kubernetes/base/prometheus-rule.yaml': yaml(resource),
  };
}
