import { highestOf, lowestOf } from '../alerts/promql.ts';
import { dlq } from '../collectors/dlq/dlq.ts';
import { autoCancelFamilies } from '../metrics/auto-cancel.ts';
import { ownFamilies } from '../metrics/own.ts';
import { ofRow, ofSeries } from './dashboard-links.ts';
import { retentionUsed } from './first-screen.ts';
import { STOPPED } from './palette.ts';
import { each, one, type PanelSpec, type RowSpec, type Settings } from './panel.ts';
import {
  ACCOUNT_LEGEND,
  age,
  change,
  chosen,
  flow,
  highestTen,
  inHours,
  level,
  lowestTen,
  rise,
  worst,
} from './queries.ts';

const {
  messages,
  newest,
  oldestEntered,
  urlHost,
  responseStatus,
  filterMessages,
  filterOldestEntered,
  callbacks,
  suspected,
  oldestInProgress,
  entered,
  left,
  foundByRescan,
} = dlq.families;
const { candidates, actions, skipped, breakerOpen, paused, oldestUnresolved, budgetRemaining, ruleBudgetRemaining } =
  autoCancelFamilies;

const account = { keep: ['account'] } as const;
const perFilter = { keep: ['account', 'filter'] } as const;
const RULE = `${ACCOUNT_LEGEND} {{rule}}`;
const PER_TEN = 'The ten with the highest peak.';
const retention = highestOf(chosen(ownFamilies.dlqRetention));
const ROUGHLY_A_WALK = 'Counted at complete walks.';

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
    description: `How many messages left the dead-letter queues in the last 24 hours: retried, removed, or expired? ${ROUGHLY_A_WALK}`,
    queries: one(rise(left, '24h')),
    noValue: 'unknown',
  },
  {
    kind: 'stat',
    title: 'Expired (24 h)',
    description: `How many dead letters did the service delete unhandled, because their retention was over? ${ROUGHLY_A_WALK} Needs retention.dlq, or the record of a token reset.`,
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
    noValue: 'none, or retention unknown',
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

const queue = ({ places }: Settings): readonly PanelSpec[] => [
  {
    title: 'Size',
    description: `How many messages are in the queue of each account? ${PER_TEN}`,
    queries: each(ACCOUNT_LEGEND, highestTen(level(messages, account))),
    hasManyLines: true,
    links: ofSeries(places, ['dlq', 'overview']),
  },
  {
    title: 'Change in an hour',
    description: `By how much has each queue grown, or below zero shrunk, within the hour before? ${PER_TEN}`,
    queries: each(ACCOUNT_LEGEND, highestTen(change(messages, '1h'))),
    hasManyLines: true,
    isSigned: true,
    links: ofSeries(places, ['dlq', 'overview']),
    noValue: 'less than an hour of data',
  },
  {
    title: 'Entered and left',
    description: `Do more messages enter the queues than leave them? What left is counted at complete walks.`,
    unit: 'messages/s',
    queries: [
      { legend: 'entered', expr: flow(entered) },
      { legend: 'left', expr: flow(left) },
    ],
  },
  {
    kind: 'stack',
    title: 'Left, by reason',
    description: `Were messages retried or removed, or did they expire? ${ROUGHLY_A_WALK}`,
    unit: 'messages/s',
    queries: each('{{reason}}', flow(left, { keep: ['reason'] })),
  },
  {
    title: 'Oldest dead letter',
    description: `How long has the longest-queued message of each account been in its queue? ${PER_TEN}`,
    unit: 'hours',
    queries: each(ACCOUNT_LEGEND, highestTen(inHours(age(oldestEntered)))),
    hasManyLines: true,
    links: ofSeries(places, ['dlq', 'overview']),
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
    links: ofSeries(places, ['dlq', 'overview']),
    noValue: 'no dead letters, or retention unknown',
  },
  {
    title: 'Newest dead letter',
    description: 'How long ago was the newest message of each queue created? The ten that are newest.',
    unit: 'hours',
    queries: each(ACCOUNT_LEGEND, lowestTen(inHours(`time() - ${highestOf(chosen(newest))}`))),
    hasManyLines: true,
    links: ofSeries(places, ['dlq', 'overview']),
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
    links: { Account: ofRow(places, ['dlq', 'overview']) },
    noValue: 'dlq.filters names none',
  },
];

const contents = ({ places }: Settings): readonly PanelSpec[] => [
  {
    kind: 'table',
    title: 'Dead letters by host',
    description: 'Which destination hosts do dead letters have? The largest 50. Needs the breakdown urlHost.',
    labels: { account: 'Account', url_host: 'Host' },
    columns: [{ title: 'Messages', expr: `topk(50, ${level(urlHost, { keep: ['account', 'url_host'] })})`, bar: {} }],
    sortBy: ['Messages'],
    links: { Account: ofRow(places, ['dlq', 'overview']) },
    noValue: 'no dead letters, or dlq.breakdowns lacks urlHost',
  },
  {
    kind: 'table',
    title: 'Dead letters by status',
    description:
      'Which status did destinations last return? 0: no response. The largest 50. Needs the breakdown responseStatus.',
    labels: { account: 'Account', response_status: 'Status' },
    columns: [
      {
        title: 'Messages',
        expr: `topk(50, ${level(responseStatus, { keep: ['account', 'response_status'] })})`,
        bar: {},
      },
    ],
    sortBy: ['Messages'],
    links: { Account: ofRow(places, ['dlq', 'overview']) },
    noValue: 'no dead letters, or dlq.breakdowns lacks responseStatus',
  },
  {
    kind: 'stack',
    title: 'Status over time',
    description: 'How do the statuses of dead letters change over time? Needs the breakdown responseStatus.',
    queries: each('{{response_status}}', highestTen(level(responseStatus, { keep: ['response_status'] }))),
    hasManyLines: true,
    noValue: 'no dead letters, or dlq.breakdowns lacks responseStatus',
  },
  {
    kind: 'stack',
    title: 'Found late',
    description:
      'How many messages did only a complete walk find? Should be none: the service listed them too late for reads of new entries.',
    unit: 'messages/s',
    queries: each(ACCOUNT_LEGEND, highestTen(flow(foundByRescan, account))),
    hasManyLines: true,
  },
];

const failureCallbacks = ({ places }: Settings): readonly PanelSpec[] => [
  {
    kind: 'stack',
    title: 'Failure callbacks by state',
    description: 'Did failure callbacks succeed, fail, or are they in progress? Only where the service reports it.',
    queries: each('{{state}}', level(callbacks, { keep: ['state'] })),
    noValue: 'not reported by the service',
    width: 24,
  },
  {
    title: 'Suspected stuck',
    description: `How many failure callbacks have been in progress for longer than all their retries can take? ${PER_TEN}`,
    queries: each(ACCOUNT_LEGEND, highestTen(level(suspected, account))),
    hasManyLines: true,
    links: ofSeries(places, ['dlq']),
    noValue: 'not reported by the service',
  },
  {
    title: 'Longest in progress',
    description: `How long has the longest-running failure callback been in progress, as seen by the agent? ${PER_TEN}`,
    unit: 'hours',
    queries: each(ACCOUNT_LEGEND, highestTen(inHours(age(oldestInProgress)))),
    hasManyLines: true,
    links: ofSeries(places, ['dlq']),
    noValue: 'none is in progress, or not reported by the service',
  },
];

const NOT_ON = 'autoCancel.mode is off, or no such thing happened';

const autoCancel: readonly PanelSpec[] = [
  {
    title: 'Candidates',
    description: `How many failure callbacks does each rule call stuck? ${PER_TEN}`,
    queries: each(RULE, highestTen(level(candidates, { keep: ['account', 'rule'] }))),
    hasManyLines: true,
    noValue: NOT_ON,
  },
  {
    kind: 'stack',
    title: 'Actions by outcome',
    description: 'How many actions ended in each interval, and how? planned: would have been cancelled.',
    queries: each('{{mode}} {{outcome}}', rise(actions, '$__rate_interval', { keep: ['mode', 'outcome'] })),
    hasManyLines: true,
    noValue: NOT_ON,
  },
  {
    kind: 'stack',
    title: 'Skipped, by reason',
    description: 'Why were failure callbacks that a rule matches not cancelled? Counted in each interval.',
    queries: each('{{reason}}', highestTen(rise(skipped, '$__rate_interval', { keep: ['reason'] }))),
    hasManyLines: true,
    noValue: NOT_ON,
  },
  {
    title: 'Cancels left',
    description:
      'How many cancels do the hourly and daily limits still allow, per account and per rule? The ten with the least.',
    queries: [
      { legend: ACCOUNT_LEGEND, expr: lowestTen(lowestOf(chosen(budgetRemaining))) },
      { legend: RULE, expr: lowestTen(lowestOf(chosen(ruleBudgetRemaining), ['rule'])) },
    ],
    hasManyLines: true,
    noValue: NOT_ON,
  },
  {
    kind: 'states',
    title: 'Breakers and pauses',
    description: 'Is a breaker open, or auto-cancel paused? While one is, nothing is cancelled.',
    words: STOPPED,
    queries: [
      {
        legend: `${ACCOUNT_LEGEND} breaker {{breaker}}`,
        expr: highestTen(highestOf(chosen(breakerOpen), ['breaker']), 'avg'),
      },
      { legend: `${ACCOUNT_LEGEND} pause`, expr: highestTen(highestOf(chosen(paused)), 'avg') },
    ],
    noValue: 'autoCancel.mode is off',
  },
  {
    title: 'Oldest unresolved cancel',
    description: `How long has the outcome of the oldest unresolved cancel been unknown? Empty if there is none. ${PER_TEN}`,
    unit: 'hours',
    queries: each(RULE, highestTen(inHours(age(oldestUnresolved, ['rule'])))),
    hasManyLines: true,
    noValue: 'no cancel is unresolved',
  },
];

/** The dead-letter queue, failure callbacks, and what auto-cancel does about them. */
export const dlqDashboard = (settings: Settings): readonly RowSpec[] => [
  { title: 'At a glance', panels: stats },
  { title: 'The queue', panels: queue(settings) },
  { title: 'Contents', panels: contents(settings) },
  { title: 'Failure callbacks', isCollapsed: true, panels: failureCallbacks(settings) },
  { title: 'Auto-cancel', isCollapsed: true, panels: autoCancel },
];
