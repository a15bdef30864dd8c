import { alertingFamilies } from '../src/metrics/alerting.ts';
import { autoCancelFamilies } from '../src/metrics/auto-cancel.ts';
import { ownFamilies } from '../src/metrics/own.ts';
import { UNRESOLVED } from '../src/metrics/thresholds.ts';
import { highest, latest, lowest, onAccount, series } from '../src/rules/promql.ts';
import type { AlertSpec } from './alert.ts';
import { placeholder } from './placeholder.ts';
import { current, lastKnown } from './promql.ts';
import { agentFamily } from './queries.ts';

/** Prometheus's own metric: whether the last scrape of a target succeeded. */
const up = { name: 'up', labels: [] } as const;

/** Start of the oldest cancel without a known outcome. */
const unresolved = lowest(autoCancelFamilies.oldestUnresolved, current);

const notified = (outcome: string | RegExp) =>
  `sum by (cluster, namespace, job, notifier) (increase(${series(alertingFamilies.notifications, { outcome })}[15m]))`;

/** Returns an aggregation by instance. */
const byInstance = (op: 'max' | 'min', expr: string) => `${op} by (cluster, namespace, job, instance) (${expr})`;

/** Selects the job that scrapes the agents. */
const ofJob = { job: placeholder('jobInQuotes') } as const;

/** Alerts about the agent. */
export const agentAlerts: readonly AlertSpec[] = [
  {
    name: 'DeliveryAgentDown',
    set: 'core',
    severity: 'critical',
    expr: `absent(${series(up, ofJob)} == 1)`,
    for: '10m',
    // absent() does not return the labels of the missing series.
    given: { job: placeholder('job') },
    summary: 'No delivery-watch agent can be scraped.',
    description: `No target of the job ${placeholder('job')} has answered a scrape for 10 minutes. No account is monitored, and no other alert can start.`,
    dashboard: 'agent',
    isOfAgent: true,
  },
  {
    name: 'DeliveryInstanceDown',
    set: 'core',
    severity: '{{ if eq $value 2.0 }}critical{{ else }}warning{{ end }}',
    labels: ['instance'],
    // The value is 2 if an account that the instance monitored in the last hour has had no agent for two minutes, or if the
    // alert already fires as critical; otherwise 1. If no instance is up, only DeliveryAgentDown fires.
    expr: `${byInstance('max', `1 + ${series(up)}\nor 2 + 0 * (last_over_time(${series(ownFamilies.up)}[1h]) unless ${onAccount()} last_over_time(${series(ownFamilies.up)}[2m]))\nor 2 * ALERTS{alertname="DeliveryInstanceDown", alertstate="firing", severity="critical"}`)}\nand on (cluster, namespace, job, instance) ${series(up, ofJob)} == 0\nand on (job) ${series(up, ofJob)} == 1`,
    for: '10m',
    summary: 'The agent {{ $labels.instance }} cannot be scraped; others can.',
    description:
      'The target {{ $labels.instance }} has not answered a scrape for 10 minutes. {{ if eq $value 2.0 }}No other agent monitors its accounts, so no alert on them can start.{{ else }}Other agents monitor its accounts.{{ end }}',
    dashboard: 'agent',
    isOfAgent: true,
  },
  {
    name: 'DeliveryAgentCrashLooping',
    set: 'extended',
    severity: 'warning',
    labels: ['instance'],
    expr: `${byInstance('max', `changes(${series(agentFamily('process_start_time_seconds'), ofJob)}[30m])`)} >= 3`,
    summary: 'The agent {{ $labels.instance }} keeps restarting.',
    description:
      'The agent {{ $labels.instance }} restarted {{ $value | printf "%.0f" }} times in the last 30 minutes. Rounds that take longer than the time between restarts never complete.',
    dashboard: 'agent',
    isOfAgent: true,
  },
  {
    name: 'DeliveryConfigReloadFailed',
    set: 'extended',
    severity: 'warning',
    labels: ['instance'],
    expr: `${byInstance('min', latest(series(agentFamily('delivery_watch_config_last_reload_successful'))))} == 0`,
    for: '5m',
    summary: 'The agent {{ $labels.instance }} rejected its new configuration.',
    description:
      '{{ $labels.instance }} could not load its configuration. The previous one stays active, but the agent may not start after a restart. The log contains the errors.',
    dashboard: 'agent',
    isOfAgent: true,
  },
  {
    name: 'DeliveryStoreFailing',
    set: 'core',
    severity: 'critical',
    labels: ['instance'],
    // Finds rounds that read all data but failed, which means that the data could not be stored.
    expr: byInstance(
      'max',
      `${latest(series(ownFamilies.dataComplete))} == 1 unless ${latest(series(ownFamilies.success))} == 1`,
    ),
    // Short enough to fire before the accounts count as blind.
    for: '2m',
    summary: 'The agent {{ $labels.instance }} cannot store what it reads.',
    description:
      'The service responds, but rounds of {{ $labels.instance }} fail because the agent cannot write to its store. Counters are frozen, and auto-cancel is suspended.',
    dashboard: 'agent',
    isOfAgent: true,
  },
  {
    name: 'DeliveryNotificationsFailing',
    set: 'notifications',
    severity: 'critical',
    labels: ['notifier'],
    expr: `${notified('failed')} > 0\nunless ${notified('sent')} > 0`,
    for: '10m',
    summary: 'Alerts of the agent do not reach {{ $labels.notifier }}.',
    description:
      'Notifications to {{ $labels.notifier }} that failed in the last 15 minutes: {{ $value | printf "%.0f" }}. None was delivered: its recipients receive no alerts.',
    dashboard: 'agent',
    isOfAgent: true,
  },
  {
    name: 'DeliveryAutoCancelBreakerOpen',
    set: 'auto-cancel',
    severity: 'warning',
    labels: ['breaker'],
    expr: `${lastKnown(highest(autoCancelFamilies.breakerOpen, current))} == 1`,
    summary: 'Auto-cancel breaker {{ $labels.breaker }} is open in {{ $labels.account }}.',
    description:
      'Auto-cancel is stopped in {{ $labels.account }} until an operator resets the breaker {{ $labels.breaker }}.',
    dashboard: 'dlq',
  },
  {
    name: 'DeliveryAutoCancelUnresolved',
    set: 'auto-cancel',
    severity: 'critical',
    labels: ['rule'],
    // A resolved cancel has no series, so the last known value counts only while no agent collects the account.
    expr: `time() - (${unresolved} or ${lastKnown(unresolved)} unless ${onAccount()} ${series(ownFamilies.up)}) > ${UNRESOLVED}`,
    for: '5m',
    summary: 'A cancel by the rule {{ $labels.rule }} in {{ $labels.account }} has no known outcome.',
    description:
      'The oldest cancel by {{ $labels.rule }} in {{ $labels.account }} without a known outcome was started {{ $value | humanizeDuration }} ago.',
    dashboard: 'dlq',
  },
];
