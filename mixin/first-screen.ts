import { dlq } from '../src/collectors/dlq/dlq.ts';
import { events } from '../src/collectors/events/events.ts';
import { BLIND } from '../src/rules/promql.ts';
import { ofRow, RUNBOOK } from './dashboard-links.ts';
import { badInMinute, badRatio, budgets, finishedInMinute } from './message-records.ts';
import { READABLE, SEVERITY, type Words } from './palette.ts';
import { each, one, type PanelSpec, type RowSpec } from './panel.ts';
import { placeholder } from './placeholder.ts';
import {
  ACCOUNT_LEGEND,
  blind,
  changeOver,
  least,
  level,
  quantile,
  recordedSeries,
  retentionUsed,
  rise,
  worst,
} from './queries.ts';

const { timeToDeliver } = events.families;
const { messages } = dlq.families;
const SELECTED = 'alertname=~"Delivery.+", job=~"$job|", account=~"$account|"';
const firing = (severity?: string) =>
  `ALERTS{${SELECTED}, alertstate="firing"${severity === undefined ? '' : `, severity="${severity}"`}}`;

const STATE: Words = { 0: ['OK', 'green'], 1: ['WARNING', 'orange'], 2: ['CRITICAL', 'red'] };
/** Highest severity of firing alerts; absent if the rules are not loaded, because then no alert can fire. */
const state = `0 * count(${firing('critical')}) + 2
or 0 * count(${firing('warning')}) + 1
or 0 * count(${recordedSeries(BLIND.name)})`;

const delivered = { objective: 'delivered' } as const;
const failing = `max without (objective) (${recordedSeries(badRatio('1h'), delivered)})`;

const inWindow = (of: 'sum' | 'avg', selector: string) => `${of}_over_time(${selector}[${placeholder('window')}])`;
/** Expected number of messages that end in the objective window, extrapolated from the recorded minutes. */
const expected = `(${inWindow('avg', recordedSeries(finishedInMinute))} > 0) * ${placeholder('windowMinutes')}`;
/**
 * Remaining share of each account's error budget. The per-minute records include messages from outages, which are counted after
 * the outage.
 */
const budgetLeft = `1 - max without (objective) (${inWindow('sum', recordedSeries(badInMinute, delivered))}
  / ignoring (objective) group_left () (${expected}) / ${recordedSeries(budgets, delivered)})`;
const budgetDays = `count_over_time(${recordedSeries(finishedInMinute)}[${placeholder('window')}:1h]) / 24`;

const p95 = quantile(0.95, rise(timeToDeliver, '1h', { keep: ['account', 'le'], suffix: '_bucket' }));

const FAILING = { warning: placeholder('failureBudget'), critical: placeholder('failureBudget14x') } as const;
const SLOW = { warning: placeholder('onTimeSecondsHalf'), critical: placeholder('onTimeSeconds') } as const;
const BUDGET = { warning: 0.25, critical: 0 } as const;
const NOTHING_ENDED = 'no message ended';

const stats: readonly PanelSpec[] = [
  {
    kind: 'stat',
    title: 'State',
    description:
      'Is everything all right? CRITICAL, WARNING: alerts of that severity fire. NO RULES: Prometheus evaluates no rules of delivery-watch, so no alert can fire, or no agent is scraped.',
    queries: one(state),
    words: STATE,
    noValue: 'NO RULES',
  },
  {
    kind: 'stat',
    title: 'Blind accounts',
    description: 'How many accounts have no current data? Their numbers are old or missing.',
    queries: one(`sum(${blind})`),
    thresholds: { warning: 1, critical: 1 },
    noValue: 'no rules',
  },
  {
    kind: 'stat',
    title: 'Failing most (1 h)',
    description:
      'Which account fails most? The share of permanently failed messages among those that ended in the last hour; cancelled ones do not count.',
    unit: 'share',
    width: 5,
    queries: each(ACCOUNT_LEGEND, worst(failing)),
    thresholds: FAILING,
    noValue: NOTHING_ENDED,
  },
  {
    kind: 'stat',
    title: 'Least budget left',
    description: `Which account has the least of its error budget left? Extrapolates the traffic so far to ${placeholder('window')}; the table shows how many days of data there are. Below 0 the objective is missed.`,
    unit: 'share',
    width: 5,
    queries: each(ACCOUNT_LEGEND, least(budgetLeft)),
    thresholds: BUDGET,
    noValue: 'no full hour yet',
  },
  {
    kind: 'stat',
    title: 'Slowest p95 (1 h)',
    description:
      'Which account delivers slowest? The time within which 95 % of its messages of the last hour were delivered, retries included.',
    unit: 'seconds',
    queries: each(ACCOUNT_LEGEND, worst(p95)),
    thresholds: SLOW,
    noValue: NOTHING_ENDED,
  },
];

const group = 'cluster, namespace, account, alertname';
const alerts: PanelSpec = {
  kind: 'table',
  title: 'Firing alerts',
  description:
    'What is wrong, where, and for how long? Click an alert for its runbook, an account for its dashboards. Age counts from when the condition became true.',
  labels: { alertname: 'Alert', account: 'Account' },
  columns: [
    {
      title: 'Severity',
      width: 110,
      expr: `max by (${group}) (3 * ${firing('critical')}\nor 2 * ${firing('warning')}\nor ${firing()})`,
      words: SEVERITY,
    },
    {
      title: 'Age',
      width: 110,
      unit: 'seconds',
      expr: `max by (${group}) (time() - ALERTS_FOR_STATE{${SELECTED}} and ignoring (alertstate) ${firing()})`,
    },
  ],
  sortBy: ['Severity', 'Age'],
  links: { Alert: [RUNBOOK], Account: ofRow('overview', 'dlq', 'agent') },
  noValue: 'No alert is firing. State says whether rules are loaded.',
  width: 24,
  height: 8,
};

const accounts: PanelSpec = {
  kind: 'table',
  title: 'Accounts',
  description:
    'Which accounts are in trouble? Unreadable ones first, then those that fail most. Click one for its dashboards. Empty: unknown or no messages.',
  labels: { account: 'Account' },
  columns: [
    { title: 'Data', width: 90, expr: blind, words: READABLE },
    {
      title: 'Failing (1 h)',
      width: 110,
      unit: 'share',
      expr: failing,
      thresholds: FAILING,
    },
    { title: 'Budget left', width: 140, unit: 'share', expr: budgetLeft, thresholds: BUDGET, bar: { full: 1 } },
    { title: 'Based on', width: 90, unit: 'days', expr: budgetDays },
    { title: 'p95 (1 h)', width: 100, unit: 'seconds', expr: p95, thresholds: SLOW },
    { title: 'Dead letters', width: 140, expr: level(messages, { keep: ['account'] }), bar: {} },
    {
      title: '± 24 h',
      width: 80,
      expr: changeOver(messages, '24h'),
      thresholds: { warning: 1, critical: 500, calm: 'text' },
    },
    {
      title: 'Retention used',
      width: 150,
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
  height: 7,
};

export const firstScreen: RowSpec = {
  title: 'Is it all right?',
  panels: [...stats, alerts, accounts],
};
