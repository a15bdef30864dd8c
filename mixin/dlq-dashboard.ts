import { dlq } from '../src/collectors/dlq/dlq.ts';
import type { LEFT_REASONS } from '../src/collectors/dlq/selection.ts';
import { autoCancelFamilies } from '../src/metrics/auto-cancel.ts';
import type { Family } from '../src/metrics/family.ts';
import { ownFamilies } from '../src/metrics/own.ts';
import { DLQ_EXPIRING, UNRESOLVED } from '../src/metrics/thresholds.ts';
import { highestOf, lowestOf, onAccount } from '../src/rules/promql.ts';
import { ofRow, ofSeries } from './dashboard-links.ts';
import { STOPPED } from './palette.ts';
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
  retentionUsed,
  rise,
  worst,
} from './queries.ts';

const { messages, oldestEntered, urlHost, route, responseStatus, groupMessages, groupsNew, groupsReturned } =
  dlq.families;
const { filterMessages, filterOldestEntered, callbacks, suspected, entered, left } = dlq.families;

const account = { keep: ['account'] } as const;
const perFilter = { keep: ['account', 'filter'] } as const;

const stats: readonly PanelSpec[] = [
  {
    kind: 'stat',
    title: 'Dead letters',
    description: 'How many dead letters do the chosen accounts have together?',
    width: 6,
    queries: one(level(messages)),
    noValue: 'unknown',
  },
  {
    kind: 'stat',
    title: 'Expired (24 h)',
    description:
      'How many dead letters did the service delete unhandled? Their retention was over. Needs retention.dlq.',
    width: 6,
    queries: one(rise(left, '24h', { where: { reason: 'expired' } })),
    thresholds: { warning: 1, critical: 1 },
    noValue: 'unknown',
  },
  {
    kind: 'stat',
    title: 'Retention used',
    description:
      'Which account’s oldest dead letter has used most of its retention? At 100 % the service deletes it. Needs retention.dlq, or the record of a token reset.',
    width: 6,
    unit: 'share',
    queries: each(ACCOUNT_LEGEND, worst(retentionUsed)),
    thresholds: { warning: 0.6, critical: DLQ_EXPIRING },
    noValue: 'none, or unknown',
  },
  {
    kind: 'stat',
    title: 'Stuck callbacks',
    description:
      'How many failure callbacks are stuck? They have been in progress for longer than all their retries can take.',
    width: 6,
    queries: one(level(suspected)),
    thresholds: { warning: 1, critical: 10 },
    noValue: 'not reported',
  },
];

const leftFor = (reason: (typeof LEFT_REASONS)[number]) => rise(left, '1h', { where: { reason } });
const expiresAt = lowestOf(`${chosen(oldestEntered)} + ${chosen(ownFamilies.dlqRetention)}`);

const queue: readonly PanelSpec[] = [
  {
    kind: 'table',
    title: 'Queues',
    description:
      'Which queues grow, and which lose messages soon? Below zero, the service should have deleted the oldest message already. Expiry needs retention.dlq, or the record of a token reset.',
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
  {
    title: 'Size',
    description: `How many messages are in the queue of each account? ${PER_TEN}`,
    queries: each(ACCOUNT_LEGEND, highestTen(messages)),
    links: ofSeries('dlq', 'overview'),
  },
  {
    title: 'Entered and left (1 h)',
    description:
      'Do more messages enter the queues than leave them, and why do they leave? In the previous hour, as counted: an outage is counted at its end.',
    queries: [
      { legend: 'entered', expr: rise(entered, '1h') },
      { legend: 'retried or removed', expr: leftFor('removed') },
      { legend: 'expired', expr: leftFor('expired') },
      { legend: 'left, reason unknown', expr: leftFor('unknown') },
    ],
    noValue: 'unknown',
  },
];

/** Returns a table of the 50 largest values of a breakdown. */
const breakdown = <L extends string>(
  { title, description, name, noValue }: { title: string; description: string; name: string; noValue: string },
  family: Family<L>,
  label: L,
): PanelSpec => ({
  kind: 'table',
  title,
  description: `${description} The largest 50.`,
  labels: { account: 'Account', [label]: name },
  columns: [{ title: 'Messages', expr: `topk(50, ${level(family, { keep: ['account', label] })})`, bar: {} }],
  sortBy: ['Messages'],
  links: { Account: ofRow('dlq', 'overview') },
  noValue: `no dead letters, or ${noValue}`,
});

const statusPeaks = `sum by (response_status) (${inRange('max', chosen(responseStatus))})`;

const contents: readonly PanelSpec[] = [
  {
    kind: 'table',
    title: 'Kinds of dead letters',
    description:
      'Which failures are the same? A kind is a host and route, a status, and a class of error; delivery-watch snapshot describes each of them. The largest 50. __other__: the sum of all smaller kinds.',
    labels: { account: 'Account', group: 'Kind', url_host: 'Host', response_status: 'Status' },
    columns: [
      {
        title: 'Messages',
        expr: `topk(50, ${level(groupMessages, { keep: ['account', 'group', 'url_host', 'response_status'] })})`,
        bar: {},
      },
    ],
    sortBy: ['Messages'],
    links: { Account: ofRow('dlq', 'overview') },
    noValue: 'no dead letters',
    width: 16,
  },
  {
    kind: 'bars',
    title: 'New kinds',
    description: 'How many kinds of dead letters appeared? New: for the first time; returned: after a day or more.',
    queries: [
      { legend: 'new', expr: rise(groupsNew, '$__interval') },
      { legend: 'returned', expr: rise(groupsReturned, '$__interval') },
    ],
    width: 8,
  },
  breakdown(
    {
      title: 'Dead letters by host',
      description: 'Which destination hosts do dead letters have? Needs the breakdown urlHost.',
      name: 'Host',
      noValue: 'dlq.breakdowns lacks urlHost',
    },
    urlHost,
    'url_host',
  ),
  {
    kind: 'stack',
    title: 'Status over time',
    description:
      'Which status did destinations return last? 0: no response. The ten with the highest peak. Needs the breakdown responseStatus.',
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
  },
  breakdown(
    {
      title: 'Dead letters by route',
      description: 'Which routes of destinations do dead letters have? Needs the breakdown route, and collect.routes.',
      name: 'Route',
      noValue: 'dlq.breakdowns lacks route',
    },
    route,
    'route',
  ),
];

const { candidates, actions, skipped, plannedOutcomes, breakerOpen, paused, oldestUnresolved } = autoCancelFamilies;
const { budgetRemaining, ruleBudgetRemaining } = autoCancelFamilies;
const NOT_ON = 'autoCancel.mode is off';
const perRule = { keep: ['account', 'rule'] } as const;

const cancels: readonly PanelSpec[] = [
  {
    kind: 'stack',
    title: 'Failure callbacks by state',
    description: 'Did failure callbacks succeed, fail, or are they in progress? Only if the service reports it.',
    queries: each('{{state}}', level(callbacks, { keep: ['state'] })),
    noValue: 'not reported by the service',
  },
  {
    kind: 'states',
    title: 'Breakers and pauses',
    description: 'Is a breaker open, or auto-cancel paused? While one is, nothing is cancelled.',
    words: STOPPED,
    queries: [
      {
        legend: `${ACCOUNT_LEGEND} breaker {{breaker}}`,
        expr: onlyTen(
          level(breakerOpen, { keep: ['account', 'breaker'] }),
          highestOf(inRange('avg', chosen(breakerOpen)), ['breaker']),
        ),
      },
      {
        legend: `${ACCOUNT_LEGEND} pause`,
        expr: onlyTen(level(paused, account), highestOf(inRange('avg', chosen(paused)))),
      },
    ],
    noValue: NOT_ON,
  },
  {
    kind: 'table',
    title: 'Auto-cancel rules',
    description:
      'How many stuck callbacks does each rule match, and how many may it still cancel? Oldest unresolved: how long the outcome of a cancel has been unknown.',
    labels: { account: 'Account', rule: 'Rule' },
    columns: [
      { title: 'Candidates', expr: level(candidates, perRule), thresholds: { warning: 1, critical: 10, calm: 'text' } },
      { title: 'Left for the rule', expr: lowestOf(chosen(ruleBudgetRemaining), ['rule']) },
      {
        title: 'Left for the account',
        expr: `${lowestOf(chosen(budgetRemaining))} + ${onAccount()} group_right () 0 * ${level(candidates, perRule)}`,
      },
      {
        title: 'Oldest unresolved',
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
    kind: 'bars',
    title: 'Actions by outcome',
    description: 'How many actions ended in each interval, and how? planned: would have been cancelled.',
    queries: each('{{outcome}}', rise(actions, '$__interval', { keep: ['outcome'] })),
    noValue: NOT_ON,
  },
  {
    kind: 'bars',
    title: 'Skipped, by reason',
    description: 'Why were failure callbacks that a rule matches not cancelled? Counted in each interval.',
    queries: each('{{reason}}', rise(skipped, '$__interval', { keep: ['reason'] })),
    noValue: `${NOT_ON}, or nothing was skipped`,
  },
  {
    kind: 'bars',
    title: 'Planned cancels, by what became of the callback',
    description:
      'What became of callbacks that a rule would have cancelled? success: a cancel would have been wrong. in_progress: still in progress two days later.',
    queries: each('{{outcome}}', rise(plannedOutcomes, '$__interval', { keep: ['outcome'] })),
    noValue: `${NOT_ON}, or nothing was planned`,
  },
];

/** Rows of the dashboard about the dead-letter queue, failure callbacks and auto-cancel. */
export const dlqDashboard: readonly RowSpec[] = [
  { title: 'At a glance', panels: stats },
  { title: 'The queue', panels: queue },
  { title: 'Contents', panels: contents },
  { title: 'Filters and routes', isCollapsed: true, panels: selections },
  { title: 'Failure callbacks and auto-cancel', isCollapsed: true, panels: cancels },
];
