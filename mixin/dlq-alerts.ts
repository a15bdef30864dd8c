import { accountPlan } from '../src/collectors/account-plan.ts';
import { dlq } from '../src/collectors/dlq/dlq.ts';
import type { LeftReason } from '../src/collectors/dlq/selection.ts';
import { objectiveFamilies } from '../src/metrics/objectives.ts';
import { ownFamilies } from '../src/metrics/own.ts';
import {
  CALLBACKS_FAILED,
  DLQ_AT_ONCE,
  DLQ_BY_THE_HOUR,
  DLQ_EXPIRING,
  DLQ_FULL,
  type Growth,
} from '../src/metrics/thresholds.ts';
import { highest, highestOf, latest, series } from '../src/rules/promql.ts';
import { type AlertSpec, ifAbove0 } from './alert.ts';
import { difference, lastResult, type RecordingRule, unlessBlind } from './promql.ts';

const { messages, oldestEntered, callbacks, suspected, left, groupsNew } = dlq.families;

/** Number of entries in the complete queue. Absent while it cannot be read. */
const size = 'account:delivery_dlq:size';
/**
 * Minimum size in the last 15 minutes. Smooths the sawtooth curve of the size: removals appear only at the next complete walk.
 */
const settledSize = 'account:delivery_dlq:settled';
/**
 * Maximum settled size between two hours and one hour ago, or the last known one. With the maximum, a queue that is emptied
 * and refilled does not count as growing.
 */
const hourBefore = 'account:delivery_dlq:before';
/** Age of the oldest entry (s). Absent while the queue cannot be read. */
const age = 'account:delivery_dlq:oldest_age';
/**
 * Number of entries that left the queue in the last week, by reason; the counter's value if it was reset or is less than a week
 * old.
 */
const leftInWeek = 'account:delivery_dlq:left7d';

/** Returns the value that a record had `ago`, or its last value within the day before that. */
const lastKnown = (record: string, ago: string) => `last_over_time(${record}[1d] offset ${ago})`;

/** Returns the growth from `before` to `now` if it exceeds the limits. */
const grown = (now: string, before: string, { share, fewest, many }: Growth) =>
  `${now} - ${before} > clamp(${share === 1 ? '' : `${share} * `}${before}, ${fewest}, ${many})`;

/**
 * Recording rules for growth above the limits: sudden, within an hour, and continuous over six hours. They are 0 if the queue has
 * not grown, and absent while it cannot be read.
 */
const GROWTHS = [
  {
    record: 'account:delivery_dlq:growth10m',
    expr: grown(size, `max_over_time(${size}[20m] offset 10m)`, DLQ_AT_ONCE),
    since: 'at any time between 10 and 30 minutes ago',
  },
  {
    record: 'account:delivery_dlq:growth1h',
    expr: DLQ_BY_THE_HOUR.map(growth => grown(settledSize, hourBefore, growth)).join('\nor '),
    since: 'an hour ago',
  },
  {
    record: 'account:delivery_dlq:growth6h',
    expr: `${grown(settledSize, lastKnown(settledSize, '6h'), { share: 1, fewest: 10, many: 200 })}\nand ${settledSize} > ${lastKnown(settledSize, '1h')}`,
    since: 'six hours ago',
  },
] as const;

const leftUntil = (offset = '') => highestOf(latest(series(left), offset), ['reason']);

export const dlqRecords: readonly RecordingRule[] = [
  { record: size, expr: `${highest(messages)}\n${unlessBlind('dlq')}` },
  { record: settledSize, expr: `min_over_time(${size}[15m]) and ${size}` },
  { record: hourBefore, expr: `max_over_time(${settledSize}[1h] offset 1h) or ${lastKnown(settledSize, '1h')}` },
  ...GROWTHS.map(({ record, expr }) => ({ record, expr: `${expr}\nor 0 * ${size}` })),
  // An empty queue has no oldest entry, so its size shows that the last known one is gone.
  {
    record: age,
    expr: `${highestOf(`time() - ${latest(series(oldestEntered))}`)}\n${unlessBlind('dlq')}\nunless ${size} == 0`,
  },
  { record: leftInWeek, expr: `${leftUntil()} - ${leftUntil(' offset 7d')} >= 0\nor ${leftUntil()}` },
];

const inWeek = (reason: LeftReason) => series({ name: leftInWeek, labels: ['reason'] }, { reason });

/** Selects failure callbacks in a state, by replica. */
const callbacksIn = (state: string) => latest(series(callbacks, { state }));

/** Alerts about the complete dead-letter queue. */
export const dlqAlerts: readonly AlertSpec[] = [
  {
    name: 'DeliveryDlqFirstEntry',
    set: 'extended',
    severity: 'info',
    collector: 'dlq',
    countsUnreadable: true,
    isAbsentWhenBlind: true,
    // Also finds entries that were added while the queue was unreadable, by comparing with the last known size.
    expr: `${size} > 0 and (min_over_time(${size}[1h]) == 0 or ${lastKnown(size, '1h')} == 0)`,
    summary: 'First messages in the dead-letter queue of {{ $labels.account }}.',
    description:
      'Messages in the dead-letter queue of {{ $labels.account }}: {{ $value | printf "%.0f" }}. It was empty before.',
    dashboard: 'dlq',
  },
  {
    name: 'DeliveryDlqGrowing',
    set: 'core',
    severity: 'warning',
    collector: 'dlq',
    countsUnreadable: true,
    isAbsentWhenBlind: true,
    expr: `${GROWTHS.map(({ record }) => record).join(' + ')} > 0`,
    ended: `${GROWTHS.map(({ record }) => lastResult(record)).join(' + ')} == 0`,
    for: '2m',
    keepFiringFor: '15m',
    summary: 'The dead-letter queue of {{ $labels.account }} is growing.',
    description: `The dead-letter queue of {{ $labels.account }} has grown.${GROWTHS.map(({ record, since }) =>
      ifAbove0(record, ` It has {{ . | printf "%.0f" }} more messages than ${since}.`),
    ).join('')}`,
    dashboard: 'dlq',
  },
  {
    name: 'DeliveryDlqExpiringSoon',
    set: 'core',
    severity: 'critical',
    collector: 'dlq',
    // No action is needed if operators let most dead letters expire.
    isAbsentWhenBlind: true,
    expr: `${age} > ${DLQ_EXPIRING} * ${highest(ownFamilies.dlqRetention)}\nunless ${inWeek('expired')} > ignoring (reason) ${inWeek('removed')}`,
    for: '15m',
    summary: 'Messages in the dead-letter queue of {{ $labels.account }} are about to expire.',
    description:
      'The oldest message in the dead-letter queue of {{ $labels.account }} entered it {{ $value | humanizeDuration }} ago, more than 80% of its retention.',
    dashboard: 'dlq',
  },
  {
    name: 'DeliveryDlqAgeHigh',
    set: 'extended',
    severity: 'warning',
    collector: 'dlq',
    isAbsentWhenBlind: true,
    expr: `${age} > ${highest(objectiveFamilies.dlqMaxAge)}`,
    for: '15m',
    summary: 'Messages have been in the dead-letter queue of {{ $labels.account }} for too long.',
    description:
      'The oldest message in the dead-letter queue of {{ $labels.account }} entered it {{ $value | humanizeDuration }} ago, longer than the objective allows.',
    dashboard: 'dlq',
  },
  {
    name: 'DeliveryDlqNearlyFull',
    set: 'extended',
    severity: 'warning',
    collector: 'dlq',
    countsUnreadable: true,
    isAbsentWhenBlind: true,
    expr: `${size} / ${highestOf(latest(series(accountPlan.families.limit, { limit: 'dlq_size' })))} > ${DLQ_FULL}`,
    for: '15m',
    summary: 'The dead-letter queue of {{ $labels.account }} is nearly full.',
    description:
      'The dead-letter queue of {{ $labels.account }} uses {{ $value | humanizePercentage }} of the messages that the plan allows.',
    dashboard: 'dlq',
  },
  {
    name: 'DeliveryDlqNewKind',
    set: 'extended',
    severity: 'info',
    collector: 'dlq',
    expr: `${highest(groupsNew, difference('1h'))} > 0`,
    summary: 'A new kind of message is in the dead-letter queue of {{ $labels.account }}.',
    description:
      'Kinds of messages (host and route, status and error) that the agent found for the first time in the dead-letter queue of {{ $labels.account }} in the last hour: {{ $value | printf "%.0f" }}.',
    dashboard: 'dlq',
  },
  {
    name: 'DeliveryFailureCallbackStuck',
    set: 'extended',
    severity: 'warning',
    collector: 'dlq',
    expr: `${highest(suspected)} > 0`,
    for: '15m',
    // After a restart, auto-cancel evaluates its rules shortly after the walk.
    keepFiringFor: '2m',
    summary: 'Failure callbacks of {{ $labels.account }} seem stuck.',
    description:
      'Failure callbacks of {{ $labels.account }} in progress for longer than all their retries can take: {{ $value | printf "%.0f" }}.',
    dashboard: 'dlq',
  },
  {
    name: 'DeliveryFailureCallbackFailed',
    set: 'extended',
    severity: 'warning',
    collector: 'dlq',
    expr: highestOf(`${callbacksIn('fail')} > ignoring (state) ${CALLBACKS_FAILED} * ${callbacksIn('success')}`),
    for: '30m',
    keepFiringFor: '15m',
    summary: 'Failure callbacks of {{ $labels.account }} are failing.',
    description:
      'Failed workflows of {{ $labels.account }} whose owners were not notified because their failure callbacks failed, too: {{ $value | printf "%.0f" }}, more than a fifth of all ended callbacks.',
    dashboard: 'dlq',
  },
];
