import { type AlertCase, ago, FIRES_ONCE, flat, from, type Input, until, type Values } from './case.ts';

const DLQ = 'delivery_dlq_messages';
const OLDEST = 'delivery_dlq_oldest_entered_timestamp_seconds';
const RETENTION = 'delivery_dlq_retention_seconds';
const left = (reason: string) => `delivery_dlq_left_total{reason="${reason}"}`;
const DLQ_LIMIT = 'delivery_account_limit{limit="dlq_size"}';
const callbacks = (state: string) => `delivery_dlq_failure_callbacks{state="${state}"}`;

/** A counter that starts at `before` and increases by `size` every `every` minutes. */
const bursts =
  (size: number, every: number, before = 0): Values =>
  minute =>
    before + size * Math.floor(minute / every);
/** A counter that starts at `before` and increases by one, `perHour` times an hour. */
const trickle = (perHour: number, before: number): Values => bursts(1, 60 / perHour, before);

/** Counters of a queue from which operators remove most entries before they expire. */
const handled: Input = { [left('removed')]: flat(9), [left('expired')]: flat(3) };

export const dlqCases: readonly AlertCase[] = [
  {
    alert: 'DeliveryDlqFirstEntry',
    fires: { [DLQ]: from(10, 1) },
    at: 10,
    description: 'Messages in the dead-letter queue of a: 1. It was empty before.',
    below: {
      'more entries in a non-empty queue': { [DLQ]: minute => 1 + minute },
      'entries in the first read': { [DLQ]: minute => (minute < 10 ? undefined : 7) },
    },
    idle: { [DLQ]: flat(0) },
    exempt: { 'rejected rows': 'counts unreadable rows' },
    evaluableAfter: 0,
  },
  {
    alert: 'DeliveryDlqGrowing',
    fires: { [DLQ]: minute => 100 + 6 * Math.max(0, minute - 30) },
    at: 36,
    description:
      'The dead-letter queue of a has grown. It has 36 more messages than at any time between 10 and 30 minutes ago.',
    below: {
      'one more an hour in a large queue': { [DLQ]: trickle(1, 5000) },
      'a small step relative to the queue size': { [DLQ]: from(30, 329, 280) },
      'four in total': { [DLQ]: trickle(4, 0) },
      'a constant large queue': { [DLQ]: flat(900) },
      'a decrease': { [DLQ]: minute => 900 - minute },
      'a saw-tooth of retries every ten minutes': { [DLQ]: minute => 1000 + 8 * (minute % 10) },
      '200 entries are replayed and fail again': { [DLQ]: minute => (minute >= 30 && minute < 50 ? 0 : 200) },
    },
    idle: { [DLQ]: flat(0) },
    exempt: { 'rejected rows': 'counts unreadable rows' },
  },
  {
    alert: 'DeliveryDlqExpiringSoon',
    fires: { [OLDEST]: flat(60), [RETENTION]: flat(10_000), ...handled },
    at: 150,
    description:
      'The oldest message in the dead-letter queue of a entered it 2h 29m 0s ago, more than 80% of its retention.',
    below: {
      '80 %': { [OLDEST]: ago(8000), [RETENTION]: flat(10_000), ...handled },
      'unknown retention': { [OLDEST]: flat(0), ...handled },
      'operators let most entries expire': {
        [OLDEST]: ago(9999),
        [RETENTION]: flat(10_000),
        [left('removed')]: flat(3),
        [left('expired')]: minute => 3 + Math.floor(minute / 10),
      },
    },
    idle: { [RETENTION]: flat(10_000), ...handled },
    exempt: { 'low traffic': 'one is enough' },
  },
  {
    alert: 'DeliveryDlqAgeHigh',
    fires: { [OLDEST]: ago(86_460) },
    at: 15,
    description:
      'The oldest message in the dead-letter queue of a entered it 1d 0h 1m 0s ago, longer than the objective allows.',
    below: {
      'a day': { [OLDEST]: ago(86_400) },
      'less than 15 minutes': { [OLDEST]: minute => 60 * minute - (minute < 15 ? 86_460 : 60) },
    },
    idle: {},
  },
  {
    alert: 'DeliveryDlqNearlyFull',
    fires: { [DLQ]: flat(81), [DLQ_LIMIT]: flat(100) },
    at: 15,
    description: 'The dead-letter queue of a uses 81% of the messages that the plan allows.',
    below: {
      'four fifths': { [DLQ]: flat(80), [DLQ_LIMIT]: flat(100) },
      'less than 15 minutes': { [DLQ]: until(15, 99), [DLQ_LIMIT]: flat(100) },
      'an unknown plan': { [DLQ]: flat(999) },
    },
    idle: { [DLQ]: flat(0), [DLQ_LIMIT]: flat(100) },
    exempt: { 'rejected rows': 'counts unreadable rows' },
  },
  {
    alert: 'DeliveryDlqNewKind',
    fires: { delivery_dlq_groups_new_total: from(30, 2) },
    at: 30,
    description:
      'Kinds of messages (host and route, status and error) that the agent found for the first time in the dead-letter queue of a in the last hour: 2.',
    below: { 'known kinds': { delivery_dlq_groups_new_total: flat(7) } },
    idle: { delivery_dlq_groups_new_total: flat(0) },
    exempt: FIRES_ONCE,
  },
  {
    alert: 'DeliveryFailureCallbackStuck',
    fires: { delivery_dlq_failure_callbacks_suspected: flat(1) },
    at: 15,
    description: 'Failure callbacks of a in progress for longer than all their retries can take: 1.',
    below: { 'less than 15 minutes': { delivery_dlq_failure_callbacks_suspected: until(15, 1) } },
    idle: { delivery_dlq_failure_callbacks_suspected: flat(0) },
  },
  {
    alert: 'DeliveryFailureCallbackFailed',
    fires: { [callbacks('fail')]: flat(2), [callbacks('success')]: flat(7), [callbacks('in_progress')]: flat(50) },
    at: 30,
    description:
      'Failed workflows of a whose owners were not notified because their failure callbacks failed, too: 2, more than a fifth of all ended callbacks.',
    below: {
      'less than half an hour': { [callbacks('fail')]: until(30, 2), [callbacks('success')]: flat(0) },
      'a fifth': { [callbacks('fail')]: flat(2), [callbacks('success')]: flat(8) },
      'other states': { [callbacks('fail')]: flat(0), [callbacks('success')]: flat(9) },
    },
    idle: { [callbacks('fail')]: flat(0), [callbacks('success')]: flat(0) },
  },
];
