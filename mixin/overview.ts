import { accountPlan } from '../src/collectors/account-plan.ts';
import { dlq } from '../src/collectors/dlq/dlq.ts';
import { events } from '../src/collectors/events/events.ts';
import type { STATUS_CLASSES } from '../src/collectors/events/tally.ts';
import { flowControl } from '../src/collectors/flow-control/flow-control.ts';
import { queues as queueKind } from '../src/collectors/queues/queues.ts';
import { runs } from '../src/collectors/runs/runs.ts';
import { scheduleList } from '../src/collectors/schedules/schedules.ts';
import type { Family } from '../src/metrics/family.ts';
import { objectiveFamilies } from '../src/metrics/objectives.ts';
import { BURN_WINDOWS, DLQ_FULL } from '../src/metrics/thresholds.ts';
import { highestOf } from '../src/rules/promql.ts';
import { ofRow, ofSeries, TRACES } from './dashboard-links.ts';
import { endedInLastHour, failing, firstScreen } from './first-screen.ts';
import type { Words } from './palette.ts';
import { type ColumnSpec, each, type Limit, type PanelSpec, type RowSpec } from './panel.ts';
import { placeholder } from './placeholder.ts';
import {
  ACCOUNT_LEGEND,
  chosen,
  eventBuckets,
  eventFlow,
  highestTen,
  inLastHour,
  level,
  PER_TEN,
  quantile,
  rise,
} from './queries.ts';

const { total, finished, timeToDeliver, queueWait, attempt, answers, overdue, overdueNow } = events.families;
const { waitlistSize, parallelismInUse, parallelismLimit, rateUsed, rateLimit, paused, accountInUse, accountLimit } =
  flowControl.families;

const perAccount = { keep: ['account'] } as const;
/** Ratio (at most 1) of the messages that became overdue in the last hour to the messages that ended in this hour. */
const late = `clamp_max(${inLastHour(overdue)} / ${endedInLastHour}, 1)`;
const perKey = { keep: ['account', 'flow_control_key'] } as const;
const NOTHING_ENDED = 'no message ended';

/** Returns limits on the share of bad messages, computed from the objective of the strictest selected account. */
const limitsOf = (objective: 'delivered' | 'on_time'): readonly Limit[] => {
  const budget = `1 - max(${chosen(objectiveFamilies.ratio, { objective })})`;
  return [
    { legend: 'uses up the budget', expr: budget, colour: 'orange' },
    { legend: 'pages', expr: `${BURN_WINDOWS.fast[0].times} * (${budget})`, colour: 'red' },
  ];
};

const messages: readonly PanelSpec[] = [
  {
    kind: 'stack',
    title: 'Ended messages',
    description: 'How many messages end per second, by outcome?',
    unit: 'messages/s',
    queries: each('{{outcome}}', eventFlow(finished, { keep: ['outcome'] })),
    noValue: 'no message ended',
  },
  {
    kind: 'stack',
    title: 'Attempts by status class',
    description: 'How do destinations respond to delivery attempts? none: no response, or no status in the log.',
    unit: 'attempts/s',
    queries: each('{{status_class}}', eventFlow(answers, { keep: ['status_class'] })),
    noValue: 'no attempt ended',
  },
  {
    title: 'Failing share (1 h)',
    description:
      'Which share of the messages that ended in the previous hour failed permanently? Cancelled messages do not count.',
    unit: 'share',
    queries: each(ACCOUNT_LEGEND, failing),
    limits: limitsOf('delivered'),
    links: ofSeries('overview', 'dlq'),
    noValue: NOTHING_ENDED,
  },
  {
    title: 'Not on time (1 h)',
    description: `Which share of messages is late? By default, a message is late if it has not ended ${placeholder('onTimeWithin')} after it was due.`,
    unit: 'share',
    queries: each(ACCOUNT_LEGEND, late),
    limits: limitsOf('on_time'),
    links: [...ofSeries('overview'), TRACES],
    noValue: NOTHING_ENDED,
  },
];

const time: readonly PanelSpec[] = [
  {
    kind: 'heatmap',
    title: 'Time to deliver',
    description: 'How long does it take to deliver a message after it is due, including retries?',
    unit: 'seconds',
    width: 24,
    queries: each('{{le}}', eventBuckets(timeToDeliver)),
    links: [TRACES],
    noValue: 'no message was delivered',
  },
  {
    title: 'Queue wait',
    description: 'How long do due messages wait for their first attempt?',
    unit: 'seconds',
    queries: [
      { legend: 'p50', expr: quantile(0.5, eventBuckets(queueWait)) },
      { legend: 'p95', expr: quantile(0.95, eventBuckets(queueWait)) },
    ],
    noValue: 'no attempt was made',
  },
  {
    title: 'Attempt duration, p95',
    description: 'How long do destinations take to respond, by result?',
    unit: 'seconds',
    queries: each('{{result}}', quantile(0.95, eventBuckets(attempt, ['result']))),
    noValue: 'no attempt ended',
  },
];

const open: readonly PanelSpec[] = [
  {
    title: 'Overdue',
    width: 8,
    description: `How many messages in flight are overdue? By default, a message is overdue ${placeholder('onTimeWithin')} after it was due. ${PER_TEN}`,
    queries: each(ACCOUNT_LEGEND, highestTen(overdueNow)),
    links: ofSeries('overview'),
  },
  {
    title: 'Waitlists',
    description: `How many messages wait on flow-control keys? ${PER_TEN}`,
    queries: each(`${ACCOUNT_LEGEND} {{flow_control_key}}`, highestTen(waitlistSize, ['flow_control_key'])),
    noValue: 'there are no flow-control keys',
  },
];

const perDestination = { keep: ['account', 'destination'] } as const;

const failedAttempts = (title: string, status_class: (typeof STATUS_CLASSES)[number]): ColumnSpec => ({
  title,
  expr: rise(answers, '1h', { ...perDestination, where: { result: 'error', status_class, destination: /.+/ } }),
});

const destinations: readonly PanelSpec[] = [
  {
    kind: 'table',
    title: 'Destinations (1 h)',
    description: 'To which destinations do messages fail, and how do attempts fail? Needs events.destination.',
    labels: { account: 'Account', destination: 'Destination' },
    columns: [
      {
        title: 'Failed messages',
        expr: rise(finished, '1h', { ...perDestination, where: { outcome: 'failed', destination: /.+/ } }),
        bar: {},
      },
      failedAttempts('4xx', '4xx'),
      failedAttempts('5xx', '5xx'),
      failedAttempts('No response', 'none'),
      {
        title: 'Delivered',
        expr: rise(finished, '1h', { ...perDestination, where: { outcome: 'delivered', destination: /.+/ } }),
        bar: {},
      },
    ],
    sortBy: ['Failed messages', '5xx'],
    links: { Account: ofRow('overview', 'dlq') },
    noValue: 'events.destination is none, or no message ended',
    width: 24,
    height: 10,
  },
];

const used = (part: string, whole: string) => `${part} / (${whole} > 0)`;
const limit = (name: string) => highestOf(chosen(accountPlan.families.limit, { limit: name }));
const SHARE_OF_LIMIT = { thresholds: { warning: DLQ_FULL, critical: 0.95 }, bar: { full: 1 } };
const PAUSED: Words = { 0: ['no', 'transparent'], 1: ['paused', 'orange'] };
/** It is normal that a key uses its entire limit, so the bar has no thresholds. */
const IN_USE = { bar: { full: 1 } };

const keys: readonly PanelSpec[] = [
  {
    kind: 'table',
    title: 'Flow-control keys',
    description: 'Which keys delay messages, and how much of their limits is used? Longest waitlists first.',
    labels: { account: 'Account', flow_control_key: 'Key' },
    columns: [
      { title: 'Waiting', width: 130, expr: level(waitlistSize, perKey), bar: {} },
      {
        title: 'Parallelism used',
        width: 150,
        unit: 'share',
        expr: used(level(parallelismInUse, perKey), level(parallelismLimit, perKey)),
        ...IN_USE,
      },
      {
        title: 'Rate used',
        width: 130,
        unit: 'share',
        expr: used(level(rateUsed, perKey), level(rateLimit, perKey)),
        ...IN_USE,
      },
      {
        title: 'Paused',
        width: 90,
        expr: level(paused, perKey),
        words: PAUSED,
      },
    ],
    sortBy: ['Waiting'],
    links: { Account: ofRow('overview') },
    noValue: 'there are no flow-control keys',
    width: 24,
    height: 7,
  },
];

const perQueue = { keep: ['account', 'queue'] } as const;
const queues: readonly PanelSpec[] = [
  {
    kind: 'table',
    title: 'Queues',
    description:
      'Which queues are long or paused? Waiting: the service’s number, which is not reliable. Longest first.',
    labels: { account: 'Account', queue: 'Queue' },
    columns: [
      { title: 'Waiting', width: 130, expr: level(queueKind.families.lag, perQueue), bar: {} },
      { title: 'Parallelism', width: 130, expr: level(queueKind.families.parallelismLimit, perQueue) },
      {
        title: 'Paused',
        width: 90,
        expr: level(queueKind.families.paused, perQueue),
        words: PAUSED,
      },
    ],
    sortBy: ['Waiting'],
    links: { Account: ofRow('overview') },
    noValue: 'the service lists no queues',
    width: 24,
    height: 6,
  },
];

const plan: readonly PanelSpec[] = [
  {
    kind: 'table',
    title: 'Plan limits used',
    description:
      'How much of its plan’s limits does each account use? Messages: created in the last 24 hours. Requests: of the UTC day, if the management API is read. Parallelism: read while messages wait on a flow-control key. Empty: unlimited or unknown.',
    unit: 'share',
    labels: { account: 'Account' },
    columns: [
      {
        title: 'Messages a day',
        unit: 'share',
        expr: used(rise(total, '24h', { ...perAccount, where: { state: 'created' } }), limit('requests_per_day')),
        ...SHARE_OF_LIMIT,
      },
      {
        title: 'Requests today',
        unit: 'share',
        expr: used(level(accountPlan.families.requests, perAccount), limit('requests_per_day')),
        ...SHARE_OF_LIMIT,
      },
      {
        title: 'Parallelism',
        unit: 'share',
        expr: used(level(accountInUse, perAccount), level(accountLimit, perAccount)),
        ...SHARE_OF_LIMIT,
      },
      {
        title: 'Dead letters',
        unit: 'share',
        expr: used(level(dlq.families.messages, perAccount), limit('dlq_size')),
        ...SHARE_OF_LIMIT,
      },
    ],
    sortBy: ['Messages a day'],
    links: { Account: ofRow('overview', 'dlq') },
    noValue: 'the limits of the plan are unknown',
    width: 24,
    height: 6,
  },
];

const { paused: schedulePaused, lastRunFailed, unexpected } = scheduleList.families;
const { scheduleStarted, scheduleDelivered, scheduleFailed, scheduleNext, scheduleMissed, scheduleLate } =
  events.families;
const latest = (family: Family<'schedule'>) => highestOf(chosen(family), ['schedule']);
const perSchedule = { keep: ['account', 'schedule'] } as const;
const DAILY_LIMITS = { warning: 1, critical: 3, calm: 'text' };

const schedules: readonly PanelSpec[] = [
  {
    kind: 'table',
    title: 'Schedules',
    description:
      'Does each schedule start and deliver when it should? Missed: it did not start; late: no message of a configured schedule was delivered in time; unexpected: it started early or while paused. The other times are ages. If “Next in” is below zero, the start is due, but the agent has not read it yet.',
    unit: 'seconds',
    labels: { account: 'Account', schedule: 'Schedule' },
    columns: [
      { title: 'Missed (24 h)', width: 125, expr: rise(scheduleMissed, '24h', perSchedule), thresholds: DAILY_LIMITS },
      { title: 'Late (24 h)', width: 115, expr: rise(scheduleLate, '24h', perSchedule), thresholds: DAILY_LIMITS },
      { title: 'Unexpected (24 h)', width: 140, expr: rise(unexpected, '24h', perSchedule), thresholds: DAILY_LIMITS },
      { title: 'Paused', width: 90, expr: latest(schedulePaused), words: PAUSED },
      {
        title: 'Last run',
        width: 90,
        expr: latest(lastRunFailed),
        words: { 0: ['ok', 'transparent'], 1: ['failed', 'red'] },
      },
      { title: 'Started', width: 100, unit: 'seconds', expr: `time() - ${latest(scheduleStarted)}` },
      { title: 'Delivered', width: 100, unit: 'seconds', expr: `time() - ${latest(scheduleDelivered)}` },
      { title: 'Failed', width: 100, unit: 'seconds', expr: `time() - ${latest(scheduleFailed)}` },
      { title: 'Next in', width: 100, unit: 'seconds', expr: `${latest(scheduleNext)} - time()` },
    ],
    sortBy: ['Missed (24 h)', 'Late (24 h)'],
    links: { Account: ofRow('overview', 'dlq') },
    noValue: 'no schedules are listed or configured',
    width: 24,
    height: 6,
  },
];

const workflowRuns: readonly PanelSpec[] = [
  {
    kind: 'table',
    title: 'Workflow runs in progress for long',
    description:
      'Which accounts have workflow runs that do not end? There may be more: the agent reads only one page of ten runs. Needs a service that lists runs.',
    labels: { account: 'Account', threshold: 'Longer than' },
    columns: [{ title: 'Runs', expr: level(runs.families.olderThan, { keep: ['account', 'threshold'] }), bar: {} }],
    sortBy: ['Runs'],
    links: { Account: ofRow('overview', 'dlq') },
    noValue: 'the service lists no workflow runs',
    width: 24,
    height: 6,
  },
];

/** Rows of the overview dashboard. Rows that not every team needs are collapsed. */
export const overviewDashboard: readonly RowSpec[] = [
  firstScreen,
  { title: 'Messages', panels: messages },
  { title: 'Time', panels: time },
  { title: 'Waiting messages', panels: open },
  { title: 'Destinations', isCollapsed: true, panels: destinations },
  { title: 'Flow control', isCollapsed: true, panels: [...keys, ...queues] },
  { title: 'Schedules', isCollapsed: true, panels: schedules },
  { title: 'Workflow runs', isCollapsed: true, panels: workflowRuns },
  { title: 'Plan limits', isCollapsed: true, panels: plan },
];
