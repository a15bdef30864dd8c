import { type AlertCase, ago, flat, from, rising, until } from './case.ts';

const requests = (outcome: string, endpoint = 'dlq') =>
  `delivery_watch_api_requests_total{endpoint="${endpoint}",outcome="${outcome}"}`;
const notified = (outcome: string, notifier = 'ops') =>
  `delivery_watch_notifications_total{notifier="${notifier}",outcome="${outcome}"}`;
const MISSING = 'delivery_lists_missing_total{collector="dlq"}';
const REJECTED = 'delivery_rows_rejected_total{collector="dlq"}';
const STALE = 'delivery_collector_data_stale';
const REMAINING = 'delivery_watch_api_budget_remaining';
const LIMIT = 'delivery_watch_api_budget_limit';
const UNRESOLVED = 'delivery_auto_cancel_oldest_unresolved_timestamp_seconds{rule="nightly"}';

export const agentCases: readonly AlertCase[] = [
  {
    alert: 'DeliveryBlind',
    labels: { collector: 'dlq' },
    fires: { [`${STALE}{collector="dlq",round="new"}`]: from(10, 1) },
    at: 11,
    description:
      'There is no current data of dlq of a. Its metrics are stale and will be withdrawn. Alerts on them that already fire keep firing; new ones can’t start until data returns.',
    below: {
      'less than half a minute': {
        [`${STALE}{collector="dlq",round="new"}`]: m => Number(m === 10),
      },
      'only an auxiliary round': { [`${STALE}{collector="events",round="sweep"}`]: flat(1) },
    },
    idle: { [`${STALE}{collector="dlq",round="new"}`]: flat(0) },
  },
  {
    alert: 'DeliveryCollectorStale',
    fires: { [`${STALE}{collector="events",round="sweep"}`]: flat(1) },
    at: 15,
    description:
      'Rounds of a that have not completed for more than 15 minutes: sweep. All other metrics are current; only the data of these rounds is missing.',
    below: {
      'less than 15 minutes': { [`${STALE}{collector="events",round="sweep"}`]: until(15, 1) },
      'a round that is not auxiliary': { [`${STALE}{collector="events",round="tail"}`]: flat(1) },
      'an unreadable account, which is another alert': {
        [`${STALE}{collector="events",round="sweep"}`]: flat(1),
        [`${STALE}{collector="events",round="tail"}`]: flat(1),
      },
    },
    idle: { [`${STALE}{collector="events",round="sweep"}`]: flat(0) },
  },
  {
    alert: 'DeliveryTokenRejected',
    fires: { delivery_token_rejected: from(5, 1) },
    at: 8,
    description:
      'The service has rejected the token of a with status 401 for more than three minutes. Collection for this account is stopped until a token is accepted.',
    below: { 'a rotation of two minutes': { delivery_token_rejected: m => Number(m >= 5 && m < 8) } },
    idle: { delivery_token_rejected: flat(0) },
  },
  {
    alert: 'DeliveryRateLimited',
    fires: {
      [requests('rate_limited')]: rising(1),
      [requests('ok')]: rising(4),
      [requests('ok', 'events')]: rising(4),
    },
    at: 16,
    description:
      '15 requests of a in the last 15 minutes got status 429, more than a tenth of all. Data is older than the configured intervals, and other clients of the account may be limited, too.',
    below: {
      'one in ten': { [requests('rate_limited')]: rising(1), [requests('ok')]: rising(9) },
      'too few': { [requests('rate_limited')]: rising(1, 4), [requests('ok')]: flat(0) },
    },
    idle: { [requests('rate_limited')]: flat(0), [requests('ok')]: rising(4) },
  },
  {
    alert: 'DeliveryRequestBudgetLow',
    // From minute 67, requests are spent too fast: 67 % have been spent, but only 5 % of the day has passed.
    fires: { [REMAINING]: minute => 1000 - 10 * minute, [LIMIT]: flat(1000) },
    at: 82,
    description: 'a has 8% of its requests for this UTC day left for reading. Rounds are delayed, so data gets older.',
    below: {
      'a quarter of the remaining budget': {
        [REMAINING]: minute => Math.max(340, 1000 - 10 * minute),
        [LIMIT]: flat(1000),
      },
      'a reload lowers the budget': { [REMAINING]: from(10, 250, 1000), [LIMIT]: from(10, 250, 1000) },
    },
    idle: { [REMAINING]: flat(1000), [LIMIT]: flat(1000) },
    exempt: { 'first hour': 'time of day' },
  },
  {
    alert: 'DeliveryListsMissing',
    labels: { collector: 'dlq' },
    fires: { [MISSING]: rising(1), 'delivery_lists_missing_total{collector="events"}': flat(0) },
    at: 8,
    description:
      '8 responses for dlq of a in the last 15 minutes contained no complete, readable list. They were discarded; until a valid list is read, metrics show older data.',
    below: { 'two responses': { [MISSING]: rising(1, 2) } },
    idle: { [MISSING]: flat(0) },
  },
  {
    alert: 'DeliveryRowsRejected',
    labels: { collector: 'dlq' },
    fires: { [REJECTED]: rising(4), 'delivery_rows_rejected_total{collector="events"}': flat(7) },
    at: 6,
    description:
      'Rows of dlq in a that could not be parsed completely in the last 15 minutes: 24. While reads contain such rows, metrics are incomplete, missing entries may not count as removed, firing alerts keep firing, and auto-cancel is suspended.',
    below: { 'no recent increase': { [REJECTED]: flat(7) } },
    idle: { [REJECTED]: flat(7) },
    exempt: { 'low traffic': 'one is enough' },
  },
  {
    alert: 'DeliveryAutoCancelBreakerOpen',
    labels: { breaker: 'errors' },
    fires: { 'delivery_auto_cancel_breaker_open{breaker="errors"}': from(5, 1) },
    at: 5,
    description: 'Auto-cancel is stopped in a until an operator resets the breaker errors.',
    below: { closed: { 'delivery_auto_cancel_breaker_open{breaker="errors"}': flat(0) } },
    idle: { 'delivery_auto_cancel_breaker_open{breaker="errors"}': flat(0) },
  },
  {
    alert: 'DeliveryAutoCancelUnresolved',
    labels: { rule: 'nightly' },
    fires: { [UNRESOLVED]: flat(0) },
    at: 36,
    description: 'The oldest cancel by nightly in a without a known outcome was started 36m 0s ago.',
    below: { 'half an hour': { [UNRESOLVED]: ago(1800) } },
    idle: {},
  },
  {
    alert: 'DeliveryNotificationsFailing',
    labels: { notifier: 'ops' },
    fires: { [notified('failed')]: rising(1), [notified('sent')]: flat(7), [notified('sent', 'hook')]: rising(1) },
    at: 11,
    description:
      'Notifications to ops that failed in the last 15 minutes: 11. None was delivered: its recipients receive no alerts.',
    below: {
      'some are sent': { [notified('failed')]: rising(9), [notified('sent')]: rising(1) },
      'one fails and is sent in a retry': { [notified('failed')]: from(20, 1), [notified('sent')]: from(21, 1) },
    },
    idle: { [notified('failed')]: flat(0), [notified('sent')]: flat(0) },
    exempt: { 'low traffic': 'one is enough' },
  },
];
