import { dlq } from '../src/collectors/dlq/dlq.ts';
import { events } from '../src/collectors/events/events.ts';
import { ownFamilies } from '../src/metrics/own.ts';
import { BLIND, highestOf, lowestOf } from '../src/rules/promql.ts';
import { decidingRounds } from './alert.ts';
import { BUDGET_WINDOW, budgetDays, budgetLeft } from './budget.ts';
import { ofRow, RUNBOOK } from './dashboard-links.ts';
import type { Words } from './palette.ts';
import { READABLE, SEVERITY } from './palette.ts';
import { each, one, type PanelSpec, type RowSpec } from './panel.ts';
import { placeholder } from './placeholder.ts';
import { ACCOUNT_LEGEND, age, change, chosen, least, level, quantile, recorded, rise, worst } from './queries.ts';

const { finished, timeToDeliver } = events.families;
const { messages, oldestEntered } = dlq.families;
const FIRING = 'alertname=~"Delivery.*", job=~"$job|", account=~"$account|"';
const firing = (severity: string) => `ALERTS{${FIRING}, alertstate="firing", severity=~"${severity}"}`;

/** 1 for each account with a collector that is blind in all replicas, else 0. Works without recording rules. */
export const blind = (() => {
  const stale = chosen(ownFamilies.dataStale, { round: decidingRounds });
  const replicas = `max without (round) (${stale} > 0 or (${stale} unless ${chosen(ownFamilies.dataTimestamp)}) + 1 or ${stale})`;
  return highestOf(lowestOf(replicas, ['collector']));
})();

export const blindAccounts: PanelSpec = {
  kind: 'stat',
  title: 'Blind accounts',
  description: 'Of how many accounts is there no current data? Their numbers are old or missing.',
  queries: one(`sum(${blind})`),
  thresholds: { warning: 1, critical: 1 },
  noValue: 'not scraped',
};

/** Share of failed messages among those finished in a window; accounts without any are omitted. */
export const failingShare = (window: string) => {
  const of = (outcome: string | RegExp) => rise(finished, window, { keep: ['account'], where: { outcome } });
  return `${of('failed')} / (${of(/delivered|failed/)} > 0)`;
};

const retention = highestOf(chosen(ownFamilies.dlqRetention));
export const retentionUsed = `(${age(oldestEntered)}) / ${retention}`;

const STATE: Words = {
  0: ['OK', 'green'],
  1: ['NO RULES', 'purple'],
  2: ['WARNING', 'orange'],
  3: ['BLIND', 'dark-red'],
  4: ['CRITICAL', 'red'],
};
const when = (condition: string, state: number) => `0 * (${condition}) + ${state}`;
/** The first matching state. Without rules no alert can fire, which is a separate state. */
const state = [
  when(`count(${firing('critical')})`, 4),
  when(`count(${blind} == 1)`, 3),
  when(`count(${firing('warning')})`, 2),
  when(`count(${chosen(ownFamilies.up)}) unless count(${recorded(BLIND.name)})`, 1),
  when(`count(${chosen(ownFamilies.up)})`, 0),
].join('\nor ');

const FAILING = { warning: placeholder('failureBudget'), critical: placeholder('failureBudget5x') } as const;
const SLOW = { warning: placeholder('onTimeSecondsHalf'), critical: placeholder('onTimeSeconds') } as const;

const stats: readonly PanelSpec[] = [
  {
    kind: 'stat',
    title: 'State',
    description:
      'Is everything all right? CRITICAL, WARNING: alerts of that severity fire. BLIND: of some account there is no current data. NO RULES: Prometheus evaluates no rules of delivery-watch, so that no alert can fire. Not scraped: no agent answers.',
    queries: one(state),
    words: STATE,
    noValue: 'NOT SCRAPED',
  },
  {
    kind: 'stat',
    title: 'Alerts firing',
    description:
      'How many alerts on the chosen accounts are firing? A number only if the rules are loaded. Their severity is in State and in the table.',
    queries: one(`count(${firing('.*')})\nor 0 * count(${recorded(BLIND.name)})`),
    noValue: 'no rules loaded',
  },
  blindAccounts,
  {
    kind: 'stat',
    title: 'Failing most (1 h)',
    description:
      'Which account has the largest share of permanently failed messages among those that ended in the last hour? Cancelled ones do not count.',
    unit: 'share',
    queries: each(ACCOUNT_LEGEND, worst(failingShare('1h'))),
    thresholds: FAILING,
    noValue: 'no messages',
  },
  {
    kind: 'stat',
    title: 'Least budget left',
    description: `Which account has the least of its error budget left? ${BUDGET_WINDOW}`,
    unit: 'share',
    queries: each(ACCOUNT_LEGEND, least(budgetLeft)),
    thresholds: { warning: 0.5, critical: 0 },
    noValue: 'no full hour yet',
  },
  {
    kind: 'stat',
    title: 'Slowest p95 (1 h)',
    description:
      'Which account took longest to deliver: within which time were 95 % of its messages of the last hour delivered, retries included?',
    unit: 'seconds',
    queries: each(ACCOUNT_LEGEND, worst(quantile(0.95, timeToDeliver, ['account'], '1h'))),
    thresholds: SLOW,
    noValue: 'no messages',
  },
];

const group = 'cluster, namespace, account, alertname';
const severity = ['info', 'warning', 'critical'].map((name, index) => `${index + 1} * ${firing(name)}`).reverse();
const alerts: PanelSpec = {
  kind: 'table',
  title: 'Firing alerts',
  description:
    'What is wrong, where, and for how long? Click an alert for its runbook, an account for its dashboards. Age counts from when the condition became true.',
  labels: { alertname: 'Alert', account: 'Account' },
  columns: [
    { title: 'Severity', width: 110, expr: `max by (${group}) (${severity.join(' or ')})`, words: SEVERITY },
    {
      title: 'Age',
      width: 110,
      unit: 'seconds',
      expr: `max by (${group}) (time() - ALERTS_FOR_STATE{${FIRING}} and ignoring (alertstate) ${firing('.*')})`,
    },
    { title: 'Series', width: 80, expr: `count by (${group}) (${firing('.*')})` },
  ],
  sortBy: ['Severity', 'Age'],
  links: { Alert: [RUNBOOK], Account: ofRow('overview', 'dlq', 'agent') },
  noValue: 'No alert is firing. State says whether rules are loaded.',
  width: 24,
  height: 6,
};

const accounts: PanelSpec = {
  kind: 'table',
  title: 'Accounts',
  description:
    'Which accounts are in trouble? Unreadable ones first, then those that fail most. Click one for its dashboards. Budget left: see Least budget left. Empty: unknown or no messages.',
  labels: { account: 'Account' },
  columns: [
    { title: 'Data', width: 90, expr: blind, words: READABLE },
    {
      title: 'Failing (1 h)',
      width: 110,
      unit: 'share',
      expr: failingShare('1h'),
      thresholds: FAILING,
    },
    {
      title: 'Budget left',
      width: 130,
      unit: 'share',
      expr: budgetLeft,
      thresholds: { warning: 0.5, critical: 0 },
      bar: { full: 1 },
    },
    { title: 'over', width: 70, unit: 'days', expr: budgetDays },
    {
      title: 'p95 (1 h)',
      width: 90,
      unit: 'seconds',
      expr: quantile(0.95, timeToDeliver, ['account'], '1h'),
      thresholds: SLOW,
    },
    { title: 'Dead letters', width: 140, expr: level(messages, { keep: ['account'] }), bar: {} },
    { title: '± 1 h', width: 80, expr: change(messages, '1h'), thresholds: { warning: 1, critical: 50, calm: 'text' } },
    {
      title: '± 24 h',
      width: 80,
      expr: change(messages, '24h'),
      thresholds: { warning: 1, critical: 500, calm: 'text' },
    },
    { title: 'Oldest', width: 90, unit: 'seconds', expr: age(oldestEntered) },
    {
      title: 'of retention',
      width: 130,
      unit: 'share',
      expr: retentionUsed,
      thresholds: { warning: 0.6, critical: 0.8 },
      bar: { full: 1 },
    },
  ],
  sortBy: ['Data', 'Failing (1 h)'],
  links: { Account: ofRow('overview', 'dlq', 'agent') },
  noValue: 'no agent is scraped',
  width: 24,
  height: 8,
};

export const firstScreen: RowSpec = {
  title: 'Is it all right?',
  panels: [...stats, alerts, accounts],
};
