import { limitFamily } from '../src/collectors/account-plan.ts';
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
import { highest, highestOf, latest, lowest, series } from '../src/rules/promql.ts';
import { type Alert, ifAbove0 } from './alert.ts';
import { placeholder } from './placeholder.ts';
import { type RecordingRule, riseAboveLowest, unlessBlind } from './promql.ts';

const { messages, oldestEntered, callbacks, suspected, left, groupsNew, groupsReturned } = dlq.families;

/** Entries of the complete queue on replicas that are not blind. */
const size = 'account:delivery_dlq_messages:max';
/**
 * The minimum of the last 15 minutes. Removals only appear with the next complete walk, so the size follows a
 * saw-tooth.
 */
const settledSize = 'account:delivery_dlq_messages:min15m';
const maxAge = 'account:delivery_dlq_max_age_seconds:max';

/** The value at an earlier time, or the last one up to a day before it. */
const lastKnown = (record: string, ago: string) => `last_over_time(${record}[1d] offset ${ago})`;

/**
 * The largest settled size between two hours and one hour ago, or the last known one. A queue that is emptied and
 * refilled does not grow.
 */
const hourBefore = `(max_over_time(${settledSize}[1h] offset 1h) or ${lastKnown(settledSize, '1h')})`;

/** Growth from `before` to `now` if it exceeds the limits. */
const grown = (now: string, before: string, { share, fewest, many }: Growth) =>
  `${now} - ${before} > clamp(${share} * ${before}, ${fewest}, ${many})`;

/** Growth above its limits: sudden, within an hour, and continuous over six hours. */
const GROWTHS = [
  {
    record: 'account:delivery_dlq_messages:growth10m',
    expr: grown(size, `max_over_time(${size}[20m] offset 10m)`, DLQ_AT_ONCE),
    since: 'at any time between 10 and 30 minutes ago',
  },
  {
    record: 'account:delivery_dlq_messages:growth1h',
    expr: DLQ_BY_THE_HOUR.map(growth => grown(settledSize, hourBefore, growth)).join(' or '),
    since: 'an hour ago',
  },
  {
    record: 'account:delivery_dlq_messages:growth6h',
    expr: `${grown(settledSize, lastKnown(settledSize, '6h'), { share: 1, fewest: 10, many: 200 })} and ${settledSize} > ${lastKnown(settledSize, '1h')}`,
    since: 'six hours ago',
  },
] as const;

export const dlqRecords: readonly RecordingRule[] = [
  { record: size, expr: highestOf(`${latest(series(messages))} ${unlessBlind('dlq')}`) },
  { record: settledSize, expr: `min_over_time(${size}[15m]) and ${size}` },
  ...GROWTHS.map(({ record, expr }) => ({ record, expr })),
  {
    record: maxAge,
    expr: `${highest(objectiveFamilies.dlqMaxAge)} or ${highest(ownFamilies.up)} * 0 + ${placeholder('dlqMaxAgeSeconds')}`,
  },
];

/** Entries removed for a reason within a week, or since a reset of the counter. */
function leftInWeek(reason: LeftReason): string {
  const until = (offset = '') => highestOf(latest(series(left, { reason }), offset));
  return `(${until()} - ${until(' offset 7d')} >= 0 or ${until()})`;
}

/** Failure callbacks in a state. */
const callbacksIn = (state: string) => highestOf(latest(series(callbacks, { state })));

/** Alerts about the complete dead-letter queue. */
export const dlqAlerts: readonly Alert[] = [
  {
    name: 'DeliveryDlqFirstEntry',
    set: 'extended',
    severity: 'info',
    collector: 'dlq',
    countsUnreadable: true,
    // Entries added during blindness fire once data is available.
    expr: `${size} > 0\nand (min_over_time(${size}[1h]) == 0 or ${lastKnown(size, '1h')} == 0)`,
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
    expr: GROWTHS.map(({ record }) => record).join(' or '),
    for: '2m',
    summary: 'The dead-letter queue of {{ $labels.account }} is growing.',
    description: GROWTHS.map(({ record, since }) =>
      ifAbove0(
        record,
        `The dead-letter queue of {{ $labels.account }} has {{ . | printf "%.0f" }} messages more than ${since}. `,
      ),
    ).join(''),
    dashboard: 'dlq',
  },
  {
    name: 'DeliveryDlqExpiringSoon',
    set: 'core',
    severity: 'critical',
    collector: 'dlq',
    // If most dead letters are left to expire, the next expiry needs no action.
    expr: `time() - ${lowest(oldestEntered)} > ${DLQ_EXPIRING} * ${highest(ownFamilies.dlqRetention)}\nand ${leftInWeek('removed')} >= ${leftInWeek('expired')}`,
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
    expr: `time() - ${lowest(oldestEntered)} > ${maxAge}`,
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
    expr: `${size} / ${highest(limitFamily('dlq_size'))} > ${DLQ_FULL}`,
    for: '15m',
    summary: 'The dead-letter queue of {{ $labels.account }} is nearly full.',
    description:
      'The dead-letter queue of {{ $labels.account }} uses {{ $value | humanizePercentage }} of what the plan allows.',
    dashboard: 'dlq',
  },
  {
    name: 'DeliveryDlqNewKind',
    set: 'extended',
    severity: 'info',
    collector: 'dlq',
    expr: `${highest(groupsNew, riseAboveLowest('1h'))} > 0`,
    keepFiringFor: '0s',
    summary: 'A new kind of message is in the dead-letter queue of {{ $labels.account }}.',
    description:
      'Kinds of messages (host and route, status and error) that the agent found for the first time in the dead-letter queue of {{ $labels.account }} in the last hour: {{ $value | printf "%.0f" }}.',
    dashboard: 'dlq',
  },
  {
    name: 'DeliveryDlqKindReturned',
    set: 'extended',
    severity: 'info',
    collector: 'dlq',
    expr: `${highest(groupsReturned, riseAboveLowest('1h'))} > 0`,
    keepFiringFor: '0s',
    summary: 'A kind of message is back in the dead-letter queue of {{ $labels.account }}.',
    description:
      'Kinds of messages (host and route, status and error) that the agent found again in the dead-letter queue of {{ $labels.account }} in the last hour, after a day or more without one: {{ $value | printf "%.0f" }}.',
    dashboard: 'dlq',
  },
  {
    name: 'DeliveryFailureCallbackStuck',
    set: 'extended',
    severity: 'warning',
    collector: 'dlq',
    expr: `${highest(suspected)} > 0`,
    for: '15m',
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
    expr: `${callbacksIn('fail')} > ${CALLBACKS_FAILED} * ${callbacksIn('success')}`,
    for: '30m',
    summary: 'Failure callbacks of {{ $labels.account }} fail.',
    description:
      'Failed workflows of {{ $labels.account }} that went unreported because their failure callbacks failed, too: {{ $value | printf "%.0f" }}, more than a fifth of those whose callback ended.',
    dashboard: 'dlq',
  },
];
