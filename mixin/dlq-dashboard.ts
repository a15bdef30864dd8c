import { dlq } from '../src/collectors/dlq/dlq.ts';
import type { LEFT_REASONS } from '../src/collectors/dlq/selection.ts';
import { autoCancelFamilies } from '../src/metrics/auto-cancel.ts';
import { ownFamilies } from '../src/metrics/own.ts';
import { UNRESOLVED } from '../src/metrics/thresholds.ts';
import { lowestOf, onAccount } from '../src/rules/promql.ts';
import { ofRow, ofSeries } from './dashboard-links.ts';
import { kindsTable } from './kinds-table.ts';
import { each, one, type PanelSpec, type RowSpec } from './panel.ts';
import {
  ACCOUNT_LEGEND,
  age,
  changeOver,
  chosen,
  highestTen,
  inRange,
  level,
  onlyTen,
  PER_TEN,
  rise,
} from './queries.ts';

const { messages, oldestEntered, urlHost, responseStatus, entered, enteredByHost, left } = dlq.families;
const { filterMessages, filterOldestEntered, callbacks, suspected } = dlq.families;

const account = { keep: ['account'] } as const;
const perFilter = { keep: ['account', 'filter'] } as const;

const leftFor = (reason: (typeof LEFT_REASONS)[number]) => rise(left, '1h', { where: { reason } });
const expiresAt = lowestOf(`${chosen(oldestEntered)} + ${chosen(ownFamilies.dlqRetention)}`);

const queue: readonly PanelSpec[] = [
  {
    kind: 'stat',
    title: 'Dead letters',
    description: 'How many dead letters do the chosen accounts have together?',
    height: 8,
    queries: one(level(messages)),
    noValue: 'unknown',
  },
  {
    kind: 'stat',
    title: 'Expired (24 h)',
    description: 'How many dead letters did the service delete because their retention had ended? Needs retention.dlq.',
    height: 8,
    queries: one(rise(left, '24h', { where: { reason: 'expired' } })),
    thresholds: { warning: 1, critical: 1 },
    noValue: 'unknown',
  },
  {
    title: 'Size',
    description: `How many messages are in the queue of each account? ${PER_TEN}`,
    width: 8,
    queries: each(ACCOUNT_LEGEND, highestTen(messages)),
    links: ofSeries('dlq', 'overview'),
  },
  {
    title: 'Entered and left (1 h)',
    description:
      'In the previous hour, did more messages enter the queues than leave them, and why did messages leave? Changes during an outage are counted at the end of the outage.',
    width: 8,
    queries: [
      { legend: 'entered', expr: rise(entered, '1h') },
      { legend: 'retried or removed', expr: leftFor('removed') },
      { legend: 'expired', expr: leftFor('expired') },
      { legend: 'left, reason unknown', expr: leftFor('unknown') },
    ],
    noValue: 'unknown',
  },
  {
    kind: 'table',
    title: 'Queues',
    description:
      'Which queues grow, and which lose messages soon? If “Expires in” is below zero, the service should already have deleted the oldest message. Needs retention.dlq, or the plan’s limits from the service.',
    labels: { account: 'Account' },
    columns: [
      { title: 'Messages', expr: level(messages, account), bar: {} },
      { title: '± 1 h', expr: changeOver(messages, '1h'), thresholds: { warning: 1, critical: 50, calm: 'text' } },
      { title: '± 24 h', expr: changeOver(messages, '24h'), thresholds: { warning: 1, critical: 500, calm: 'text' } },
      { title: 'Entered (24 h)', expr: rise(entered, '24h', account) },
      { title: 'Oldest', unit: 'seconds', expr: age(oldestEntered) },
      {
        title: 'Expires in',
        unit: 'seconds',
        expr: `${expiresAt} - time()`,
        thresholds: { warning: 172_800, critical: 86_400, calm: 'text' },
      },
      {
        title: 'Stuck callbacks',
        expr: level(suspected, account),
        thresholds: { warning: 1, critical: 10, calm: 'text' },
      },
    ],
    sortBy: ['± 1 h', 'Messages'],
    links: { Account: ofRow('dlq', 'overview') },
    noValue: 'unknown',
    width: 24,
    height: 7,
  },
];

const statusPeaks = `sum by (response_status) (${inRange('max', chosen(responseStatus))})`;

const contents: readonly PanelSpec[] = [
  kindsTable({
    title: 'Kinds of dead letters',
    description:
      'Which failures are the same? A kind is a host and route, a status, and a class of error; delivery-watch snapshot describes each of them. The 50 largest kinds. __other__: the sum of all smaller kinds.',
    width: 24,
  }),
  {
    kind: 'table',
    title: 'Dead letters by host',
    description: 'Which hosts have the most dead letters? The first 50 hosts. Needs the breakdown urlHost.',
    labels: { account: 'Account', url_host: 'Host' },
    columns: [
      { title: 'Messages', expr: `topk(50, ${level(urlHost, { keep: ['account', 'url_host'] })})`, bar: {} },
      {
        title: 'Entered (1 h)',
        width: 110,
        expr: `topk(50, ${rise(enteredByHost, '1h', { keep: ['account', 'url_host'] })})`,
      },
    ],
    sortBy: ['Messages'],
    links: { Account: ofRow('dlq', 'overview') },
    noValue: 'no dead letters, or dlq.breakdowns lacks urlHost',
  },
  {
    kind: 'stack',
    title: 'Status over time',
    description:
      'Which status did destinations return last? 0: no response. The ten statuses with the highest peak. Needs the breakdown responseStatus.',
    queries: each('{{response_status}}', onlyTen(level(responseStatus, { keep: ['response_status'] }), statusPeaks)),
    noValue: 'no dead letters, or dlq.breakdowns lacks responseStatus',
  },
];

const selections: readonly PanelSpec[] = [
  {
    kind: 'table',
    title: 'Filters',
    description: 'What is in the named parts of the queues? Filters may overlap: do not sum them.',
    labels: { account: 'Account', filter: 'Filter' },
    columns: [
      { title: 'Messages', expr: level(filterMessages, perFilter), bar: {} },
      { title: 'Oldest', unit: 'seconds', expr: age(filterOldestEntered, ['filter']) },
    ],
    sortBy: ['Messages'],
    links: { Account: ofRow('dlq', 'overview') },
    noValue: 'dlq.filters is empty',
    width: 24,
    height: 6,
  },
];

const { candidates, actions, skipped, plannedOutcomes, breakerOpen, paused, oldestUnresolved } = autoCancelFamilies;
const { budgetRemaining, ruleBudgetRemaining } = autoCancelFamilies;
const NOT_ON = 'autoCancel.mode is off';
const perRule = { keep: ['account', 'rule'] } as const;

const ofAccount = (expr: string) => `${expr} + ${onAccount()} group_right () 0 * ${level(candidates, perRule)}`;
const STOPS = { warning: 1, critical: 1, calm: 'text' } as const;

const cancels: readonly PanelSpec[] = [
  {
    kind: 'table',
    title: 'Auto-cancel rules',
    description:
      'How many stuck callbacks does each rule match? How many cancels do the limits still allow, and what else prevents cancels? An open breaker or a pause stops all cancels of the account. Oldest unresolved: how long the outcome of a cancel has been unknown.',
    labels: { account: 'Account', rule: 'Rule' },
    columns: [
      {
        title: 'Candidates',
        width: 100,
        expr: level(candidates, perRule),
        thresholds: { warning: 1, critical: 10, calm: 'text' },
      },
      { title: 'Open breakers', width: 125, expr: ofAccount(level(breakerOpen, account)), thresholds: STOPS },
      { title: 'Paused', width: 80, expr: ofAccount(level(paused, account)), thresholds: STOPS },
      { title: 'Skipped (24 h)', width: 120, expr: rise(skipped, '24h', perRule) },
      { title: 'Left for the rule', width: 135, expr: lowestOf(chosen(ruleBudgetRemaining), ['rule']) },
      { title: 'Left for the account', expr: ofAccount(lowestOf(chosen(budgetRemaining))) },
      {
        title: 'Oldest unresolved',
        width: 150,
        unit: 'seconds',
        expr: age(oldestUnresolved, ['rule']),
        thresholds: { warning: 600, critical: UNRESOLVED / 1000, calm: 'text' },
      },
    ],
    sortBy: ['Candidates'],
    links: { Account: ofRow('dlq') },
    noValue: NOT_ON,
    width: 24,
    height: 6,
  },
  {
    kind: 'stack',
    title: 'Failure callbacks by state',
    description: 'How many failure callbacks succeeded, failed or are in progress? Only if the service reports this.',
    width: 8,
    queries: each('{{state}}', level(callbacks, { keep: ['state'] })),
    noValue: 'not reported by the service',
  },
  {
    kind: 'bars',
    title: 'Actions by outcome',
    description: 'How many actions ended in each interval, and how? planned: a rule would have cancelled the callback.',
    width: 8,
    queries: each('{{outcome}}', rise(actions, '$__interval', { keep: ['outcome'] })),
    noValue: NOT_ON,
  },
  {
    kind: 'bars',
    title: 'Planned cancels, by later state',
    description:
      'What became of callbacks that a rule would have cancelled? success: a cancel would have been wrong. in_progress: still in progress two days later.',
    width: 8,
    queries: each('{{outcome}}', rise(plannedOutcomes, '$__interval', { keep: ['outcome'] })),
    noValue: `${NOT_ON}, or nothing was planned`,
  },
];

/** Rows of the dashboard about the dead-letter queue, failure callbacks and auto-cancel. */
export const dlqDashboard: readonly RowSpec[] = [
  { title: 'The queue', panels: queue },
  { title: 'Contents', panels: contents },
  { title: 'Filters', isCollapsed: true, panels: selections },
  { title: 'Failure callbacks and auto-cancel', isCollapsed: true, panels: cancels },
];
