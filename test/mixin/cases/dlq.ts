import { type AlertCase, ago, flat, from, until } from './case.ts';

const DLQ = 'delivery_dlq_messages';
const OLDEST = 'delivery_dlq_oldest_entered_timestamp_seconds';

export const dlqCases: readonly AlertCase[] = [
  {
    alert: 'DeliveryDlqFirstEntry',
    fires: { [DLQ]: from(10, 1) },
    at: 10,
    says: 'Messages in the dead-letter queue of a, which was empty within the last hour: 1.',
    below: {
      'more where there were some': { [DLQ]: minute => 1 + minute },
      'some at the first sight': { [DLQ]: minute => (minute < 10 ? undefined : 7) },
    },
    idle: { [DLQ]: flat(0) },
  },
  {
    alert: 'DeliveryDlqGrowing',
    fires: { [DLQ]: minute => 100 + Math.floor(minute / 5) },
    at: 90,
    says: 'The dead-letter queue of a is growing by 12 messages per hour.',
    below: {
      'nine an hour': { [DLQ]: minute => Math.floor((minute * 9) / 60) },
      'one step': { [DLQ]: from(100, 30) },
      'many that stay': { [DLQ]: flat(900) },
      'fewer and fewer': { [DLQ]: minute => 900 - minute },
      'as many again as were removed': {
        [DLQ]: minute => (minute < 60 ? 99 : 60 + Math.floor(Math.min(minute - 60, 58) / 2)),
      },
    },
    idle: { [DLQ]: flat(0) },
  },
  {
    alert: 'DeliveryDlqExpiringSoon',
    fires: { [OLDEST]: flat(60), delivery_dlq_retention_seconds: flat(10_000) },
    at: 150,
    says: 'The oldest message in the dead-letter queue of a entered it 2h 29m 0s ago, more than 80% of its retention.',
    below: {
      '80 %': { [OLDEST]: ago(8000), delivery_dlq_retention_seconds: flat(10_000) },
      'nobody knows how long they are kept': { [OLDEST]: flat(0) },
    },
    idle: { delivery_dlq_retention_seconds: flat(10_000) },
  },
  {
    alert: 'DeliveryFailureCallbackStuck',
    fires: { delivery_dlq_failure_callbacks_suspected: flat(1) },
    at: 15,
    says: 'Failure callbacks of a in progress for longer than all their retries can take: 1.',
    below: { 'less than 15 minutes': { delivery_dlq_failure_callbacks_suspected: until(15, 1) } },
    idle: { delivery_dlq_failure_callbacks_suspected: flat(0) },
  },
  {
    alert: 'DeliveryFailureCallbackFailed',
    labels: { state: 'fail' },
    fires: { 'delivery_dlq_failure_callbacks{state="fail"}': flat(2) },
    at: 30,
    says: 'Failed workflows of a that went unreported because their failure callbacks failed, too: 2.',
    below: {
      'less than half an hour': { 'delivery_dlq_failure_callbacks{state="fail"}': until(30, 2) },
      'other states': { 'delivery_dlq_failure_callbacks{state="success"}': flat(9) },
    },
    idle: { 'delivery_dlq_failure_callbacks{state="fail"}': flat(0) },
  },
];
