/** The value of a series at each minute; undefined: no sample. */
export type Values = (minute: number) => number | undefined;

/** Series by `name{labels}`, without job, instance and account. */
export type Input = Readonly<Record<string, Values>>;

export interface AlertCase {
  readonly alert: string;
  /** Of the alert, besides alertname, severity, job and account. */
  readonly labels?: Readonly<Record<string, string>>;
  readonly fires: Input;
  /** The minute at which it fires, and not a minute before. */
  readonly at: number;
  /** The description it then has. */
  readonly says: string;
  /** What must never make it fire: just below a limit, by its name. */
  readonly below: Readonly<Record<string, Input>>;
  /** An account at rest. */
  readonly idle: Input;
  /** What ends it, where rest does not. */
  readonly recovery?: Input;
}

const flat =
  (value: number): Values =>
  () =>
    value;
/** A counter that rises evenly, by so much a minute, up to `most`. */
const rising =
  (perMinute: number, most = Number.POSITIVE_INFINITY): Values =>
  minute =>
    Math.min(most, perMinute * minute);
const from =
  (start: number, value: number, before = 0): Values =>
  minute =>
    minute < start ? before : value;
const until =
  (end: number, value: number, after = 0): Values =>
  minute =>
    minute < end ? value : after;
/** A time, in seconds, that is always so many seconds ago. */
const ago =
  (seconds: number): Values =>
  minute =>
    60 * minute - seconds;

const finished = (outcome: string, destination?: string) =>
  `delivery_messages_finished_total{outcome="${outcome}"${destination ? `,destination="${destination}"` : ''}}`;
const events = (state: string, destination?: string) =>
  `delivery_events_total{state="${state}"${destination ? `,destination="${destination}"` : ''}}`;
const requests = (outcome: string, endpoint = 'dlq') =>
  `delivery_watch_api_requests_total{endpoint="${endpoint}",outcome="${outcome}"}`;
const notified = (outcome: string, notifier = 'ops') =>
  `delivery_watch_notifications_total{notifier="${notifier}",outcome="${outcome}"}`;
const IN_TIME = 'delivery_message_time_to_deliver_seconds_bucket{le="300.0"}';
const DELIVERED = 'delivery_message_time_to_deliver_seconds_count';
const DLQ = 'delivery_dlq_messages';
const ENTERED = 'delivery_dlq_entered_total';
const OLDEST = 'delivery_dlq_oldest_entered_timestamp_seconds';
const NEWEST = 'delivery_event_log_newest_timestamp_seconds';
const WAITLIST = 'delivery_flow_control_waitlist_size{flow_control_key="mail"}';
const PAUSED = 'delivery_flow_control_paused{flow_control_key="mail"}';
const MISSING = 'delivery_lists_missing_total{collector="dlq"}';
const REJECTED = 'delivery_rows_rejected_total{collector="dlq"}';
const STALE = 'delivery_collector_data_stale';
const UNRESOLVED = 'delivery_auto_cancel_oldest_unresolved_timestamp_seconds{rule="nightly"}';

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

export const alertCases: readonly AlertCase[] = [
  {
    alert: 'DeliveryBlind',
    labels: { collector: 'dlq', round: 'new' },
    fires: { [`${STALE}{collector="dlq",round="new"}`]: from(10, 1) },
    at: 12,
    says: 'The round new of dlq in a has not completed for several intervals. Metrics are stale and will be dropped. Firing alerts keep firing; new ones can’t start until data returns.',
    below: {
      'two minutes, and then it comes through': {
        [`${STALE}{collector="dlq",round="new"}`]: m => Number(m === 10 || m === 11),
      },
      'only a lesser round': { [`${STALE}{collector="events",round="sweep"}`]: flat(1) },
    },
    idle: { [`${STALE}{collector="dlq",round="new"}`]: flat(0) },
  },
  {
    alert: 'DeliveryCollectorStale',
    labels: { collector: 'events', round: 'sweep' },
    fires: { [`${STALE}{collector="events",round="sweep"}`]: flat(1) },
    at: 15,
    says: 'The round sweep of events in a has not completed for more than 15 minutes. All other metrics are current; only what this round finds is missing.',
    below: {
      'less than 15 minutes': { [`${STALE}{collector="events",round="sweep"}`]: until(15, 1) },
      'a round that decides': { [`${STALE}{collector="events",round="tail"}`]: flat(1) },
    },
    idle: { [`${STALE}{collector="events",round="sweep"}`]: flat(0) },
  },
  {
    alert: 'DeliveryTokenRejected',
    fires: { delivery_token_rejected: from(5, 1) },
    at: 6,
    says: 'The service has answered 401 to the token of a for more than a minute. Collection for this account is stopped until a token is accepted.',
    below: { 'one look': { delivery_token_rejected: m => Number(m === 5) } },
    idle: { delivery_token_rejected: flat(0) },
  },
  {
    alert: 'DeliveryRateLimited',
    fires: {
      [requests('rate_limited')]: rising(1),
      [requests('ok')]: rising(4),
      [requests('ok', 'events')]: rising(4),
    },
    at: 15,
    says: '11.11% of the requests of a in the last 15 minutes were answered with 429. Data is older than the configured intervals, and other clients of the account may be limited, too.',
    below: {
      'one in ten': { [requests('rate_limited')]: rising(1), [requests('ok')]: rising(9) },
      'too few to say': { [requests('rate_limited')]: rising(1, 4), [requests('ok')]: flat(0) },
    },
    idle: { [requests('rate_limited')]: flat(0), [requests('ok')]: rising(4) },
  },
  {
    alert: 'DeliveryListsMissing',
    labels: { collector: 'dlq' },
    fires: { [MISSING]: rising(1), 'delivery_lists_missing_total{collector="events"}': flat(0) },
    at: 8,
    says: '8 answers to dlq of a in the last 15 minutes were not a complete, readable list. They were discarded; metrics show the data from before.',
    below: { 'two answers': { [MISSING]: rising(1, 2) } },
    idle: { [MISSING]: flat(0) },
  },
  {
    alert: 'DeliveryRowsRejected',
    labels: { collector: 'dlq' },
    fires: { [REJECTED]: rising(4), 'delivery_rows_rejected_total{collector="events"}': flat(7) },
    at: 6,
    says: '24 rows of dlq in a could not be parsed in the last 15 minutes. Its metrics are incomplete: missing entries do not count as removed, firing alerts keep firing, and auto-cancel cancels nothing.',
    below: { 'none lately': { [REJECTED]: flat(7) } },
    idle: { [REJECTED]: flat(7) },
  },
  {
    alert: 'DeliveryAutoCancelBreakerOpen',
    labels: { breaker: 'errors' },
    fires: { 'delivery_auto_cancel_breaker_open{breaker="errors"}': from(5, 1) },
    at: 5,
    says: 'Auto-cancel is stopped in a until an operator resets the breaker errors.',
    below: { closed: { 'delivery_auto_cancel_breaker_open{breaker="errors"}': flat(0) } },
    idle: { 'delivery_auto_cancel_breaker_open{breaker="errors"}': flat(0) },
  },
  {
    alert: 'DeliveryAutoCancelUnresolved',
    labels: { rule: 'nightly' },
    fires: { [UNRESOLVED]: flat(0) },
    at: 36,
    says: 'The oldest cancel by nightly in a without a known outcome was started 36m 0s ago.',
    below: { 'half an hour': { [UNRESOLVED]: ago(1800) } },
    idle: {},
  },
  {
    alert: 'DeliveryNotificationsFailing',
    labels: { notifier: 'ops' },
    fires: { [notified('failed')]: rising(1), [notified('sent')]: flat(7), [notified('sent', 'hook')]: rising(1) },
    at: 11,
    says: '11 notifications to ops failed in the last 15 minutes and none was delivered: its recipients get no alerts.',
    below: {
      'some are sent': { [notified('failed')]: rising(9), [notified('sent')]: rising(1) },
      'one fails and is sent when tried again': { [notified('failed')]: from(20, 1), [notified('sent')]: from(21, 1) },
    },
    idle: { [notified('failed')]: flat(0), [notified('sent')]: flat(0) },
  },
  {
    alert: 'DeliveryDlqArrivalRatioHigh',
    fires: {
      [finished('failed', 'one')]: rising(1),
      [finished('failed', 'two')]: rising(1),
      [finished('delivered', 'one')]: rising(36),
      [finished('cancelled', 'one')]: rising(100),
    },
    at: 10,
    says: '5.263% of the messages that finished in a in the last 10 minutes failed permanently.',
    below: {
      'one in twenty': ends(rising(2), rising(38)),
      'too few to say': ends(from(20, 9), flat(0)),
    },
    idle: noMessages,
  },
  {
    alert: 'DeliveryErrorBudgetFastBurn',
    fires: ends(rising(3), rising(17)),
    at: 5,
    says: '15% of the messages of a failed in the last hour; the objective is 1%.',
    below: {
      '14 %': ends(rising(7), rising(43)),
      'too few to say': ends(rising(10, 50), flat(0)),
    },
    idle: noMessages,
  },
  {
    alert: 'DeliveryErrorBudgetSlowBurn',
    fires: ends(rising(7), rising(93)),
    at: 16,
    says: '7% of the messages of a failed in the last six hours; the objective is 1%.',
    below: {
      '5.9 %': ends(rising(59), rising(941)),
      'too few to say': ends(rising(1, 20), flat(0)),
    },
    idle: noMessages,
  },
  {
    alert: 'DeliveryLatencyHigh',
    fires: { [IN_TIME]: rising(90), [DELIVERED]: rising(100) },
    at: 16,
    says: '10% of the messages delivered in a in the last 30 minutes took longer than five minutes.',
    below: {
      '4 %': { [IN_TIME]: rising(96), [DELIVERED]: rising(100) },
      'too few to say': { [IN_TIME]: flat(0), [DELIVERED]: rising(10, 50) },
    },
    idle: { [IN_TIME]: flat(0), [DELIVERED]: flat(0) },
  },
  {
    alert: 'DeliveryRetryRatioHigh',
    fires: { [events('retry', 'one')]: rising(13), [events('active', 'one')]: rising(50) },
    at: 16,
    says: '26% of the delivery attempts in a in the last 15 minutes led to a retry. Messages that keep failing go to the dead-letter queue once their retries are exhausted.',
    below: {
      'one in four': { [events('retry')]: rising(10), [events('active')]: rising(40) },
      'too few to say': { [events('retry')]: rising(10, 40), [events('active')]: rising(10, 40) },
    },
    idle: noMessages,
  },
  {
    alert: 'DeliveryStalled',
    fires: { ...noMessages, [events('created')]: rising(1) },
    at: 31,
    says: '30 messages were created in a in the last 30 minutes; none was delivered, failed or cancelled.',
    below: {
      'too few to say': { ...noMessages, [events('created')]: rising(1, 20) },
      'one ends now and then': {
        ...noMessages,
        [events('created')]: rising(1),
        [finished('failed')]: minute => Math.floor(minute / 20),
      },
    },
    idle: noMessages,
  },
  {
    alert: 'DeliveryDestinationFailing',
    labels: { destination: 'api.example.com' },
    fires: {
      [events('error', 'api.example.com')]: rising(2),
      [events('delivered', 'api.example.com')]: rising(1),
      [events('delivered', 'mail.example.com')]: rising(100),
    },
    at: 10,
    says: '66.67% of the delivery attempts to api.example.com in a in the last 15 minutes failed. Resolves when a message is delivered there again.',
    below: {
      'one in two': {
        [events('error', 'api.example.com')]: rising(2),
        [events('delivered', 'api.example.com')]: rising(2),
      },
      'too few to say': {
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
  },
  {
    alert: 'DeliveryEventLogGap',
    fires: { delivery_event_log_gaps_total: from(30, 1) },
    at: 30,
    says: 'Gaps in the event log of a in the last hour: 1. Counters of events are too low.',
    below: { none: { delivery_event_log_gaps_total: flat(7) } },
    idle: { delivery_event_log_gaps_total: flat(0) },
  },
  {
    alert: 'DeliveryEventLogStale',
    fires: { [NEWEST]: flat(0), [ENTERED]: rising(1) },
    at: 21,
    says: 'The newest event of a is 21m 0s old, although dead letters arrive or waitlists change. Metrics from the event log lag.',
    below: {
      'a quarter of an hour': { [NEWEST]: ago(900), [ENTERED]: rising(1) },
      'messages wait, and none moves': { [NEWEST]: flat(0), [ENTERED]: flat(3), [WAITLIST]: flat(5) },
    },
    idle: { [NEWEST]: flat(0), [ENTERED]: flat(0), [WAITLIST]: flat(0) },
    recovery: { [NEWEST]: ago(20), [ENTERED]: rising(1) },
  },
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
  {
    alert: 'DeliveryFlowControlBacklogGrowing',
    labels: { flow_control_key: 'mail' },
    fires: { [WAITLIST]: minute => 101 + minute },
    at: 16,
    says: 'At least 102 messages have been waiting on mail in a for 15 minutes, and the number is growing: its limits are below the arrival rate.',
    below: {
      'a hundred': { [WAITLIST]: minute => Math.min(100, minute) },
      'fewer and fewer': { [WAITLIST]: minute => 5000 - minute },
    },
    idle: { [WAITLIST]: flat(0) },
  },
  {
    alert: 'DeliveryWaitlistStalled',
    labels: { flow_control_key: 'mail' },
    fires: { [WAITLIST]: flat(5), [PAUSED]: flat(0) },
    at: 40,
    says: 'The waitlist of mail in a has not changed for 30 minutes, although the key is not paused. Waiting messages: 5.',
    below: {
      'a change now and then': { [WAITLIST]: minute => 5 + (Math.floor(minute / 25) % 2) },
      'a paused key': { [WAITLIST]: flat(5), [PAUSED]: flat(1) },
      'half an hour': { [WAITLIST]: until(40, 5) },
      'a number that is not read any more': {
        [WAITLIST]: minute => Math.min(20, minute),
        [`${STALE}{collector="flow_control",round="list"}`]: from(23, 1),
        'delivery_collector_data_timestamp_seconds{collector="flow_control",round="list"}': minute =>
          60 * Math.min(20, minute),
      },
    },
    idle: { [WAITLIST]: flat(0), [PAUSED]: flat(0) },
  },
  {
    alert: 'DeliveryDispatchPausedWithBacklog',
    labels: { flow_control_key: 'mail' },
    fires: { [WAITLIST]: minute => 3 + (minute % 2), [PAUSED]: flat(1) },
    at: 60,
    says: 'The key mail in a has been paused for more than an hour. Waiting messages: 3.',
    below: {
      'less than an hour': { [WAITLIST]: flat(3), [PAUSED]: until(60, 1) },
      'nothing waits': { [WAITLIST]: flat(0), [PAUSED]: flat(1) },
    },
    idle: { [WAITLIST]: flat(0), [PAUSED]: flat(0) },
  },
];
