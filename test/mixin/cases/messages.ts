import { type AlertCase, ago, flat, from, type Input, rising, until, type Values } from './case.ts';

const finished = (outcome: string, destination?: string) =>
  `delivery_messages_finished_total{outcome="${outcome}"${destination ? `,destination="${destination}"` : ''}}`;
const events = (state: string, destination?: string) =>
  `delivery_events_total{state="${state}"${destination ? `,destination="${destination}"` : ''}}`;
const noMessages: Input = {
  [finished('delivered')]: flat(0),
  [finished('failed')]: flat(0),
  [events('created')]: flat(0),
  [events('active')]: flat(0),
  [events('retry')]: flat(0),
};
const ends = (failed: Values, delivered: Values): Input => ({
  [finished('failed')]: failed,
  [finished('delivered')]: delivered,
});
/** Counters of overdue and delivered messages. */
const late = (overdue: Values, delivered: Values): Input => ({
  delivery_messages_overdue_total: overdue,
  [finished('delivered')]: delivered,
  [finished('failed')]: flat(0),
});
/**
 * Returns an alert's case: the alert fires at the ratio of `bad` to `good`, but neither just below the limit nor with too few
 * messages.
 */
const burning = (
  shown: typeof ends,
  [bad, good]: readonly [number, number],
  below: readonly [share: string, bad: number, good: number],
  idle = noMessages,
): Pick<AlertCase, 'fires' | 'below' | 'idle'> => ({
  fires: shown(rising(bad), rising(good)),
  below: {
    [below[0]]: shown(rising(below[1]), rising(below[2])),
    'too few messages': shown(rising(1, 9), flat(0)),
  },
  idle,
});
const noneLate: Input = { ...noMessages, delivery_messages_overdue_total: flat(0) };
const ENTERED = 'delivery_dlq_entered_total';
const NEWEST = 'delivery_event_log_newest_timestamp_seconds';
const WAITLIST = 'delivery_flow_control_waitlist_size{flow_control_key="mail"}';

export const messageCases: readonly AlertCase[] = [
  {
    alert: 'DeliveryErrorBudgetFastBurn',
    ...burning(ends, [3, 17], ['5.9 %', 59, 941]),
    at: 62,
    description:
      'In the last hour 15% of the messages of a failed. At this rate the error budget of its objective is spent before the objective’s window ends.',
    evaluableAfter: 90,
  },
  {
    alert: 'DeliveryErrorBudgetSlowBurn',
    ...burning(ends, [7, 193], ['0.9 %', 9, 991]),
    at: 1456,
    description:
      'In the last day 3.5% of the messages of a failed. At this rate the error budget of its objective is spent before the objective’s window ends.',
    step: 4,
    memory: 360,
    evaluableAfter: 1440,
  },
  {
    alert: 'DeliveryOnTimeBudgetFastBurn',
    ...burning(late, [3, 17], ['5.9 %', 59, 1000], noneLate),
    at: 62,
    description:
      'In the last hour 17.65% of the messages of a missed their on-time target. At this rate the error budget of its objective is spent before the objective’s window ends.',
    evaluableAfter: 90,
  },
  {
    alert: 'DeliveryOnTimeBudgetSlowBurn',
    ...burning(late, [7, 200], ['0.9 %', 9, 1000], noneLate),
    at: 1456,
    description:
      'In the last day 3.5% of the messages of a missed their on-time target. At this rate the error budget of its objective is spent before the objective’s window ends.',
    step: 4,
    memory: 360,
    evaluableAfter: 1440,
  },
  {
    alert: 'DeliveryRetryRatioHigh',
    fires: { [events('retry', 'one')]: rising(13), [events('active', 'one')]: rising(50) },
    at: 16,
    description:
      '195 delivery attempts in a in the last 15 minutes led to a retry, more than a quarter of all. Messages that keep failing go to the dead-letter queue once their retries are exhausted.',
    below: {
      'one in four': { [events('retry')]: rising(10), [events('active')]: rising(40) },
      'too few': { [events('retry')]: rising(10, 10), [events('active')]: rising(10, 10) },
    },
    idle: noMessages,
    evaluableAfter: 60,
  },
  {
    alert: 'DeliveryStalled',
    fires: {
      ...noMessages,
      delivery_messages_overdue_total: rising(2),
      delivery_messages_in_flight_overdue: rising(2),
    },
    at: 40,
    description: '60 messages of a missed their on-time target in the last 30 minutes; none was delivered or failed.',
    below: {
      'too few': { ...noMessages, delivery_messages_overdue_total: rising(1, 9) },
      'occasional ends': {
        ...noMessages,
        delivery_messages_overdue_total: rising(1),
        [finished('failed')]: minute => Math.floor(minute / 20),
      },
      'delayed messages': { ...noMessages, [events('created')]: rising(20), delivery_messages_in_flight: rising(20) },
    },
    idle: { ...noMessages, delivery_messages_overdue_total: flat(0), delivery_messages_in_flight_overdue: flat(0) },
  },
  {
    alert: 'DeliveryDestinationFailing',
    labels: { destination: 'api.example.com' },
    fires: {
      [events('error', 'api.example.com')]: rising(2),
      [events('delivered', 'api.example.com')]: rising(1),
      [events('delivered', 'mail.example.com')]: rising(100),
    },
    at: 11,
    description: '22 delivery attempts to api.example.com in a in the last 15 minutes failed, more than succeeded.',
    below: {
      'one in two': {
        [events('error', 'api.example.com')]: rising(2),
        [events('delivered', 'api.example.com')]: rising(2),
      },
      'too few': {
        [events('error', 'api.example.com')]: rising(1, 9),
        [events('delivered', 'api.example.com')]: flat(0),
      },
      'no destinations': { [events('error')]: rising(10), [events('delivered')]: rising(1) },
    },
    idle: { [events('error', 'api.example.com')]: flat(0), [events('delivered', 'api.example.com')]: flat(0) },
    recovery: {
      [events('error', 'api.example.com')]: flat(0),
      [events('delivered', 'api.example.com')]: rising(5),
    },
    memory: 90,
  },
  {
    alert: 'DeliveryEventLogGap',
    fires: { delivery_event_log_gaps_total: from(30, 1) },
    at: 30,
    description: 'Gaps in the event log of a in the last hour: 1. Event counters are too low.',
    below: { none: { delivery_event_log_gaps_total: flat(7) } },
    idle: { delivery_event_log_gaps_total: flat(0) },
    exempt: { 'low traffic': 'one is enough', reset: 'counted by the store' },
  },
  {
    alert: 'DeliveryEventLogStale',
    fires: { [NEWEST]: flat(0), [ENTERED]: rising(1) },
    at: 21,
    description:
      'The newest event of a is 21m 0s old, although dead letters arrive or waitlists change. Metrics from the event log lag.',
    below: {
      'a quarter of an hour': { [NEWEST]: ago(900), [ENTERED]: rising(1) },
      'messages wait and none is attempted': { [NEWEST]: flat(0), [ENTERED]: flat(3), [WAITLIST]: flat(5) },
      'dead letters added while the queue was unreadable': {
        [NEWEST]: flat(0),
        [ENTERED]: from(40, 3),
        'delivery_collector_data_stale{collector="dlq",round="new"}': until(40, 1),
      },
    },
    idle: { [NEWEST]: flat(0), [ENTERED]: flat(0), [WAITLIST]: flat(0) },
    recovery: { [NEWEST]: ago(20), [ENTERED]: rising(1) },
  },
];
