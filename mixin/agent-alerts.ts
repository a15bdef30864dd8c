import { alertingFamilies } from '../src/metrics/alerting.ts';
import { autoCancelFamilies } from '../src/metrics/auto-cancel.ts';
import { ownFamilies } from '../src/metrics/own.ts';
import { pushFamilies } from '../src/metrics/push.ts';
import { UNRESOLVED } from '../src/metrics/thresholds.ts';
import { accountsOf, highest, increase, latest, lowest, series } from '../src/rules/promql.ts';
import type { Alert } from './alert.ts';
import { placeholder } from './placeholder.ts';
import { total } from './promql.ts';
import { agentFamily } from './queries.ts';

/** Prometheus's own metric: whether the last scrape of a target succeeded. */
const up = { name: 'up', labels: [] } as const;

const notified = (outcome: string | RegExp) =>
  total(alertingFamilies.notifications, increase('15m'), { where: { outcome }, keep: ['notifier'] });

const pushed = (outcome: string | RegExp) => total(pushFamilies.requests, increase('15m'), { where: { outcome } });

/** Aggregates by process, and by scrape job. */
const byInstance = (op: 'max' | 'min', expr: string) => `${op} by (cluster, namespace, job, instance) (${expr})`;
const byJob = (expr: string) => `max by (job) (${expr})`;

/** Selects the job that scrapes the agents. */
const ofJob = { job: placeholder('jobInQuotes') } as const;

/** Alerts about the agent. */
export const agentAlerts: readonly Alert[] = [
  {
    name: 'DeliveryAgentDown',
    set: 'core',
    severity: 'critical',
    expr: `absent(${series(up, ofJob)} == 1)`,
    for: '10m',
    keepFiringFor: '0s',
    // absent() returns no labels of the missing series.
    given: { job: placeholder('job') },
    summary: 'No delivery-watch agent can be scraped.',
    description: `No target of the job ${placeholder('job')} has answered a scrape for 10 minutes. No account is monitored, and no other alert on them can start.`,
    dashboard: 'agent',
    isOfAgent: true,
  },
  {
    name: 'DeliveryInstanceDown',
    set: 'core',
    severity: 'warning',
    labels: ['instance'],
    // If no instance is up, only DeliveryAgentDown fires.
    expr: `${byInstance('max', series(up, ofJob))} == 0\nand on (job) ${byJob(series(up, ofJob))} == 1`,
    for: '10m',
    keepFiringFor: '0s',
    summary: 'The agent {{ $labels.instance }} cannot be scraped; others can.',
    description:
      'The target {{ $labels.instance }} has not answered a scrape for 10 minutes. Accounts that only this agent watches are not monitored.',
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
      'The agent {{ $labels.instance }} restarted {{ $value | printf "%.0f" }} times in the last 30 minutes. Rounds that take longer than it lives never complete.',
    dashboard: 'agent',
    isOfAgent: true,
  },
  {
    name: 'DeliveryAccountMissing',
    set: 'core',
    severity: 'critical',
    // A removed account resolves after two hours, unless an agent of its job is down: that agent may watch the account.
    expr: `(${accountsOf(`last_over_time(${series(ownFamilies.up)}[2h])`)}\nor ${accountsOf('ALERTS{alertname="DeliveryAccountMissing", alertstate="firing"}')} and on (cluster, namespace, job) ${series(up, ofJob)} == 0)\nunless ${accountsOf(latest(series(ownFamilies.up)))}`,
    // Alerts about a down agent fire first, because missing accounts are a consequence.
    for: '7m',
    keepFiringFor: '0s',
    summary: 'No agent watches {{ $labels.account }} any more.',
    description:
      'For more than 10 minutes no agent has exposed metrics of {{ $labels.account }}; one did before. Nothing about it is known, and no alert on it can start. If it was removed on purpose, this alert resolves after two hours, once all agents can be scraped.',
    dashboard: 'agent',
  },
  {
    name: 'DeliveryConfigReloadFailed',
    set: 'extended',
    severity: 'warning',
    labels: ['instance'],
    expr: `${byInstance('min', latest(series(agentFamily('delivery_watch_config_last_reload_successful'), ofJob)))} == 0`,
    for: '5m',
    summary: 'The agent {{ $labels.instance }} rejected its changed configuration.',
    description:
      '{{ $labels.instance }} could not load its configuration. It goes on with the one before; after a restart it might not start. The log says why.',
    dashboard: 'agent',
    isOfAgent: true,
  },
  {
    name: 'DeliveryStoreFailing',
    set: 'core',
    severity: 'critical',
    labels: ['instance'],
    // A round that read everything but failed could not store its data.
    expr: byInstance(
      'max',
      `${latest(series(ownFamilies.dataComplete, ofJob))} == 1 unless ${latest(series(ownFamilies.success, ofJob))} == 1`,
    ),
    // Fires before data has been stale long enough for accounts to count as blind.
    for: '2m',
    keepFiringFor: '5m',
    summary: 'The agent {{ $labels.instance }} cannot store what it reads.',
    description:
      'The service answers, but rounds of {{ $labels.instance }} fail because the agent cannot write its store. Counters stand still, and auto-cancel cancels nothing.',
    dashboard: 'agent',
    isOfAgent: true,
  },
  {
    name: 'DeliveryNotificationsFailing',
    set: 'notifications',
    severity: 'critical',
    labels: ['notifier'],
    expr: `${notified(/failed|dropped/)} > 0\nunless ${notified('sent')} > 0`,
    for: '10m',
    summary: 'Alerts of the agent do not reach {{ $labels.notifier }}.',
    description:
      '{{ $value | printf "%.0f" }} notifications to {{ $labels.notifier }} failed in the last 15 minutes and none was delivered: its recipients get no alerts.',
    dashboard: 'agent',
    isOfAgent: true,
  },
  {
    name: 'DeliveryPushFailing',
    set: 'notifications',
    severity: 'warning',
    expr: `${pushed(/refused|failed/)} > 0\nunless ${pushed('accepted')} > 0`,
    for: '10m',
    summary: 'The OTLP receiver does not accept metrics of the agent.',
    description:
      '{{ $value | printf "%.0f" }} requests with metrics failed or were refused in the last 15 minutes and none was accepted. Metrics wait in memory, up to 16 MB; then the oldest are dropped.',
    dashboard: 'agent',
    isOfAgent: true,
  },
  {
    name: 'DeliveryAutoCancelBreakerOpen',
    set: 'auto-cancel',
    severity: 'warning',
    labels: ['breaker'],
    expr: `${highest(autoCancelFamilies.breakerOpen)} == 1`,
    keepFiringFor: '5m',
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
    expr: `time() - ${lowest(autoCancelFamilies.oldestUnresolved)} > ${UNRESOLVED}`,
    for: '5m',
    summary: 'A cancel by the rule {{ $labels.rule }} in {{ $labels.account }} has no known outcome.',
    description:
      'The oldest cancel by {{ $labels.rule }} in {{ $labels.account }} without a known outcome was started {{ $value | humanizeDuration }} ago.',
    dashboard: 'dlq',
  },
];
