import { dlq } from '../src/collectors/dlq/dlq.ts';
import type { Family } from '../src/metrics/family.ts';
import { ownFamilies } from '../src/metrics/own.ts';
import { highestOf } from '../src/rules/promql.ts';
import { callbackRows } from './callback-rows.ts';
import { ofRow, ofSeries } from './dashboard-links.ts';
import { retentionUsed } from './first-screen.ts';
import { each, one, type PanelSpec, type RowSpec } from './panel.ts';
import {
  ACCOUNT_LEGEND,
  age,
  change,
  chosen,
  highestTen,
  inHours,
  level,
  lowestTen,
  PER_TEN,
  rise,
  worst,
} from './queries.ts';

const {
  messages,
  newest,
  oldestEntered,
  urlHost,
  route,
  responseStatus,
  groupMessages,
  groupsNew,
  groupsReturned,
  filterMessages,
  filterOldestEntered,
  suspected,
  entered,
  left,
} = dlq.families;

const account = { keep: ['account'] } as const;
const perFilter = { keep: ['account', 'filter'] } as const;
const retention = highestOf(chosen(ownFamilies.dlqRetention));
const AT_WALKS = 'Counted at complete walks.';

const stats: readonly PanelSpec[] = [
  {
    kind: 'stat',
    title: 'Dead letters',
    description: 'How many messages are in the dead-letter queues of all chosen accounts together?',
    queries: one(level(messages)),
    noValue: 'unknown',
  },
  {
    kind: 'stat',
    title: 'Entered (24 h)',
    description: 'How many messages entered the dead-letter queues in the last 24 hours?',
    queries: one(rise(entered, '24h')),
    noValue: 'unknown',
  },
  {
    kind: 'stat',
    title: 'Left (24 h)',
    description: `How many messages left the dead-letter queues in the last 24 hours: retried, removed, or expired? ${AT_WALKS}`,
    queries: one(rise(left, '24h')),
    noValue: 'unknown',
  },
  {
    kind: 'stat',
    title: 'Expired (24 h)',
    description: `How many dead letters did the service delete unhandled, because their retention was over? ${AT_WALKS} Needs retention.dlq, or the record of a token reset.`,
    queries: one(rise(left, '24h', { where: { reason: 'expired' } })),
    thresholds: { warning: 1, critical: 1 },
    noValue: 'unknown',
  },
  {
    kind: 'stat',
    title: 'Retention used',
    description:
      'Which account’s oldest dead letter has used most of its retention? At 100 % the service deletes it. Needs retention.dlq, or the record of a token reset.',
    unit: 'share',
    queries: each(ACCOUNT_LEGEND, worst(retentionUsed)),
    thresholds: { warning: 0.6, critical: 0.8 },
    noValue: 'none, or unknown',
  },
  {
    kind: 'stat',
    title: 'Stuck callbacks',
    description: 'How many failure callbacks have been in progress for longer than all their retries can take?',
    queries: one(level(suspected)),
    thresholds: { warning: 1, critical: 10 },
    noValue: 'not reported',
  },
];

const queue: readonly PanelSpec[] = [
  {
    title: 'Size',
    description: `How many messages are in the queue of each account? ${PER_TEN}`,
    queries: each(ACCOUNT_LEGEND, highestTen(level(messages, account))),
    hasManyLines: true,
    links: ofSeries('dlq', 'overview'),
  },
  {
    title: 'Change in an hour',
    description: `By how much has each queue grown, or below zero shrunk, within the hour before? ${PER_TEN}`,
    queries: each(ACCOUNT_LEGEND, highestTen(change(messages, '1h'))),
    hasManyLines: true,
    isSigned: true,
    links: ofSeries('dlq', 'overview'),
    noValue: 'less than an hour of data',
  },
  {
    title: 'Entered and left (1 h)',
    description:
      'Did more messages enter the queues than leave them, within the hour before? What left is counted at complete walks.',
    queries: [
      { legend: 'entered', expr: rise(entered, '1h') },
      { legend: 'left', expr: rise(left, '1h') },
    ],
  },
  {
    kind: 'stack',
    title: 'Left, by reason (1 h)',
    description: `Were messages retried or removed, or did they expire, within the hour before? ${AT_WALKS}`,
    queries: each('{{reason}}', rise(left, '1h', { keep: ['reason'] })),
  },
  {
    title: 'Oldest dead letter',
    description: `How long has the longest-queued message of each account been in its queue? ${PER_TEN}`,
    unit: 'hours',
    queries: each(ACCOUNT_LEGEND, highestTen(inHours(age(oldestEntered)))),
    hasManyLines: true,
    links: ofSeries('dlq', 'overview'),
    noValue: 'no dead letters',
  },
  {
    title: 'Time to expiry',
    description:
      'How long until the service deletes the oldest message of each account? The ten that come nearest. Needs retention.dlq, or the record of a token reset.',
    unit: 'hours',
    queries: each(ACCOUNT_LEGEND, lowestTen(inHours(`${retention} - (${age(oldestEntered)})`))),
    hasManyLines: true,
    thresholds: { warning: 48, critical: 24, calm: 'transparent' },
    links: ofSeries('dlq', 'overview'),
    noValue: 'no dead letters, or retention unknown',
  },
  {
    title: 'Newest dead letter',
    description: 'How long ago was the newest message of each queue created? The ten that are newest.',
    unit: 'hours',
    queries: each(ACCOUNT_LEGEND, lowestTen(inHours(`time() - ${highestOf(chosen(newest))}`))),
    hasManyLines: true,
    links: ofSeries('dlq', 'overview'),
    noValue: 'no dead letters',
  },
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
    noValue: 'dlq.filters names none',
  },
];

/** The largest 50 of a breakdown. */
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

const contents: readonly PanelSpec[] = [
  {
    kind: 'table',
    title: 'Kinds of dead letters',
    description:
      'Which failures are the same? A kind is a host and route, a status, and a class of error; delivery-watch snapshot tells what each is. The largest 50. __other__: the sum of all smaller kinds.',
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
    kind: 'stack',
    title: 'New kinds',
    description: 'How many kinds of dead letters appeared for the first time, or again after a day or more?',
    queries: [
      { legend: 'new', expr: rise(groupsNew, '$__rate_interval') },
      { legend: 'returned', expr: rise(groupsReturned, '$__rate_interval') },
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
  breakdown(
    {
      title: 'Dead letters by status',
      description: 'Which status did destinations last return? 0: no response. Needs the breakdown responseStatus.',
      name: 'Status',
      noValue: 'dlq.breakdowns lacks responseStatus',
    },
    responseStatus,
    'response_status',
  ),
  {
    kind: 'stack',
    title: 'Status over time',
    description: 'How do the statuses of dead letters change over time? Needs the breakdown responseStatus.',
    queries: each('{{response_status}}', highestTen(level(responseStatus, { keep: ['response_status'] }))),
    hasManyLines: true,
    noValue: 'no dead letters, or dlq.breakdowns lacks responseStatus',
  },
];

/** The dead-letter queue, failure callbacks and auto-cancel. */
export const dlqDashboard: readonly RowSpec[] = [
  { title: 'At a glance', panels: stats },
  { title: 'The queue', panels: queue },
  { title: 'Contents', panels: contents },
  ...callbackRows,
];
