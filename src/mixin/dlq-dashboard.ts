import { highestOf } from '../alerts/promql.ts';
import { dlq } from '../collectors/dlq/dlq.ts';
import { autoCancelFamilies } from '../metrics/auto-cancel.ts';
import { ownFamilies } from '../metrics/own.ts';
import { age, chosen, each, flow, level, one, type RowSpec, rise } from './panel.ts';

const {
  messages,
  newest,
  oldestEntered,
  urlHost,
  responseStatus,
  filterMessages,
  filterNewest,
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

const perFilter = ['account', 'filter'] as const;
const WHOLE = '{{account}}';
const FILTER = '{{account}} {{filter}}';
const retention = `max by (account) (${chosen(ownFamilies.dlqRetention)})`;

/** The dead-letter queue, failure callbacks, and what auto-cancel does about them. */
export const dlqDashboard: readonly RowSpec[] = [
  {
    title: 'At a glance',
    panels: [
      {
        kind: 'stat',
        title: 'Dead letters',
        description: 'How many messages are in the dead-letter queues?',
        queries: one(level(messages)),
      },
      {
        kind: 'stat',
        title: 'Entered (24 h)',
        description: 'How many messages entered the dead-letter queues in the last 24 hours?',
        queries: one(rise(entered, '24h')),
      },
      {
        kind: 'stat',
        title: 'Left (24 h)',
        description:
          'How many messages left the dead-letter queues in the last 24 hours: retried, removed, or expired?',
        queries: one(rise(left, '24h')),
      },
      {
        kind: 'stat',
        title: 'Oldest dead letter',
        description: 'How long has the longest-queued dead letter been in its queue?',
        unit: 'dtdurations',
        queries: one(`time() - min(${chosen(oldestEntered)})`),
      },
      {
        kind: 'stat',
        title: 'Retention used',
        description:
          'How much of its retention has the oldest dead letter used? At 100 % the service deletes it. Needs retention.dlq, or the record of a token reset.',
        unit: 'percentunit',
        queries: one(`max((${age(oldestEntered, ['account'])}) / on (account) ${retention})`),
        thresholds: { warning: 0.6, critical: 0.8 },
      },
      {
        kind: 'stat',
        title: 'Suspected stuck callbacks',
        description: 'How many failure callbacks have been in progress for longer than all their retries can take?',
        queries: one(level(suspected)),
        thresholds: { warning: 1, critical: 10 },
      },
    ],
  },
  {
    title: 'The queue',
    panels: [
      {
        title: 'Size',
        description:
          'How many messages are in the whole queue, and in each filter? Filters may overlap: do not sum them.',
        queries: [
          { legend: WHOLE, expr: level(messages, ['account']) },
          { legend: FILTER, expr: level(filterMessages, perFilter) },
        ],
      },
      {
        title: 'Net change per hour',
        description: 'Does the queue grow or shrink, over the last hour?',
        queries: [
          { legend: WHOLE, expr: `max by (account) (deriv(${chosen(messages)}[1h])) * 3600` },
          { legend: FILTER, expr: `max by (account, filter) (deriv(${chosen(filterMessages)}[1h])) * 3600` },
        ],
      },
      {
        title: 'Entered and left',
        description: 'Do more messages enter the queue than leave it?',
        unit: 'cps',
        queries: [
          { legend: '{{account}} entered', expr: flow(entered, ['account']) },
          { legend: '{{account}} left', expr: flow(left, ['account']) },
        ],
      },
      {
        kind: 'stack',
        title: 'Left, by reason',
        description: 'Were messages retried or removed, or did they expire? Counted at complete walks.',
        unit: 'cps',
        queries: each('{{reason}}', flow(left, ['reason'])),
      },
      {
        title: 'Age',
        description: 'How old are the oldest and the newest message in the queue?',
        unit: 'dtdurations',
        queries: [
          { legend: `${WHOLE} oldest`, expr: age(oldestEntered, ['account']) },
          { legend: `${WHOLE} newest`, expr: `time() - max by (account) (${chosen(newest)})` },
          { legend: `${FILTER} oldest`, expr: age(filterOldestEntered, perFilter) },
          { legend: `${FILTER} newest`, expr: `time() - max by (account, filter) (${chosen(filterNewest)})` },
        ],
      },
      {
        title: 'Time to expiry',
        description:
          'How long until the service deletes the oldest message? Needs retention.dlq, or the record of a token reset.',
        unit: 'dtdurations',
        queries: [
          { legend: WHOLE, expr: `${retention} - on (account) (${age(oldestEntered, ['account'])})` },
          {
            legend: FILTER,
            expr: `${retention} - on (account) group_right () (${age(filterOldestEntered, perFilter)})`,
          },
        ],
      },
    ],
  },
  {
    title: 'Contents',
    panels: [
      {
        kind: 'table',
        title: 'Dead letters by host',
        description: 'Which destination hosts do dead letters have? Needs the breakdown urlHost.',
        queries: each('{{url_host}}', `topk(20, ${level(urlHost, ['url_host'])})`),
      },
      {
        kind: 'table',
        title: 'Dead letters by status',
        description: 'Which status did destinations last return? 0: no response. Needs the breakdown responseStatus.',
        queries: each('{{response_status}}', `topk(20, ${level(responseStatus, ['response_status'])})`),
      },
      {
        kind: 'stack',
        title: 'Status over time',
        description: 'How do the statuses change over time? Needs the breakdown responseStatus.',
        queries: each('{{response_status}}', level(responseStatus, ['response_status'])),
      },
      {
        kind: 'stack',
        title: 'Found late',
        description:
          'How many messages did only a complete walk find? Should be none: the service listed them too late for reads of new entries.',
        unit: 'cps',
        queries: each('{{account}}', flow(foundByRescan, ['account'])),
      },
    ],
  },
  {
    title: 'Failure callbacks',
    isCollapsed: true,
    panels: [
      {
        kind: 'stack',
        title: 'Failure callbacks by state',
        description: 'Did failure callbacks succeed, fail, or are they in progress? Only where the service reports it.',
        queries: each('{{state}}', level(callbacks, ['state'])),
      },
      {
        title: 'Suspected stuck',
        description: 'How many failure callbacks have been in progress for longer than all their retries can take?',
        queries: each('{{account}}', level(suspected, ['account'])),
      },
      {
        title: 'Longest in progress',
        description: 'How long has the longest-running failure callback been in progress, as seen by the agent?',
        unit: 'dtdurations',
        queries: each('{{account}}', age(oldestInProgress, ['account'])),
      },
    ],
  },
  {
    title: 'Auto-cancel',
    isCollapsed: true,
    panels: [
      {
        title: 'Candidates',
        description: 'How many failure callbacks does each rule call stuck?',
        queries: each('{{rule}}', level(candidates, ['rule'])),
      },
      {
        kind: 'stack',
        title: 'Actions by outcome',
        description: 'How did actions end? planned: would have been cancelled.',
        unit: 'cps',
        queries: each('{{rule}} {{mode}} {{outcome}}', `${flow(actions, ['rule', 'mode', 'outcome'])} > 0`),
      },
      {
        kind: 'stack',
        title: 'Skipped, by reason',
        description: 'Why were failure callbacks that a rule matches not cancelled?',
        unit: 'cps',
        queries: each('{{rule}} {{reason}}', flow(skipped, ['rule', 'reason'])),
      },
      {
        title: 'Cancels left',
        description: 'How many cancels do the hourly and daily limits still allow, per account and per rule?',
        queries: [
          { legend: WHOLE, expr: `min by (account) (${chosen(budgetRemaining)})` },
          { legend: '{{account}} {{rule}}', expr: `min by (account, rule) (${chosen(ruleBudgetRemaining)})` },
        ],
      },
      {
        kind: 'states',
        title: 'Breakers and pauses',
        description: 'Is a breaker open, or auto-cancel paused? 1: nothing is cancelled.',
        unit: 'bool',
        queries: [
          {
            legend: '{{account}} breaker {{breaker}}',
            expr: `max by (account, breaker) (${highestOf(chosen(breakerOpen), breakerOpen.labels)})`,
          },
          { legend: '{{account}} paused', expr: `max by (account) (${highestOf(chosen(paused))})` },
        ],
      },
      {
        title: 'Oldest unresolved cancel',
        description: 'How long has the outcome of the oldest unresolved cancel been unknown? Empty if there is none.',
        unit: 'dtdurations',
        queries: each('{{account}} {{rule}}', age(oldestUnresolved, ['account', 'rule'])),
      },
    ],
  },
];
