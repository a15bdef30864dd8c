import { describe, expect, it } from 'vitest';
import { requireProgram } from '../support/prometheus.ts';
import { flat, type Input, rising, type Values } from './cases/case.ts';
import { allRounds, course, health } from './course.ts';
import { asJobs, fires, isQuiet, neverFired, type RuleTest, replica, testRules } from './promtool.ts';

/** Delivery situations in which alerts must or must not fire, in addition to the variants of every alert. */

const HOUR = 60;
const DAY = 24 * HOUR;
const [FAST, SLOW] = ['DeliveryErrorBudgetFastBurn', 'DeliveryErrorBudgetSlowBurn'];
const [LATE_FAST, LATE_SLOW] = ['DeliveryOnTimeBudgetFastBurn', 'DeliveryOnTimeBudgetSlowBurn'];
const ALERTS = [FAST, SLOW, LATE_FAST, LATE_SLOW, 'DeliveryRateLimited', 'DeliveryStalled'];

const healthy = health(allRounds.filter(({ collector }) => collector === 'events'));
const FAILED = 'delivery_messages_finished_total{outcome="failed"}';
const DELIVERED = 'delivery_messages_finished_total{outcome="delivered"}';
const OVERDUE = 'delivery_messages_overdue_total';
const messages = (failed: Values, delivered: Values, overdue: Values = flat(0)): Input => ({
  ...healthy,
  [FAILED]: failed,
  [DELIVERED]: delivered,
  [OVERDUE]: overdue,
});
const hourly =
  (count: number): Values =>
  minute =>
    Math.floor((minute * count) / HOUR);

const quiet = (minute: number, ...alerts: readonly string[]) => alerts.map(alert => neverFired(alert, minute));

const objective = (delivered: number, days = 30): Input => ({
  'delivery_objective_ratio{objective="delivered"}': flat(delivered),
  delivery_objective_window_seconds: flat(days * 86_400),
});

const rates: readonly RuleTest[] = [
  {
    name: '18 messages an hour, all failing',
    input: replica(messages(hourly(18), flat(0))),
    minutes: 2 * HOUR,
    queries: [fires(FAST, HOUR + 2), fires(FAST, 2 * HOUR)],
  },
  {
    name: '8 messages an hour, all failing: ten within six hours',
    input: replica(messages(hourly(8), flat(0))),
    minutes: 7 * HOUR,
    queries: [...quiet(6 * HOUR, FAST), fires(FAST, 7 * HOUR)],
  },
  {
    name: 'one message an hour, all failing',
    input: replica(messages(hourly(1), flat(0))),
    minutes: DAY + HOUR,
    step: 4,
    queries: [...quiet(DAY, FAST, SLOW), fires(SLOW, DAY + HOUR)],
  },
  {
    name: '4.9 % fail for a day',
    input: replica(messages(rising(49), rising(951))),
    minutes: DAY + HOUR,
    step: 4,
    queries: [...quiet(DAY + HOUR, FAST, LATE_FAST, LATE_SLOW), ...quiet(DAY, SLOW), fires(SLOW, DAY + HOUR)],
  },
  {
    name: 'half of all messages hang for hours',
    input: replica(messages(flat(0), rising(5), rising(5))),
    minutes: 4 * HOUR,
    queries: [
      ...quiet(4 * HOUR, FAST, SLOW, 'DeliveryStalled'),
      fires(LATE_FAST, HOUR + 2),
      fires(LATE_FAST, 4 * HOUR),
    ],
  },
  {
    name: 'all messages hang',
    input: replica({ ...messages(flat(0), flat(0), rising(1)), delivery_messages_in_flight_overdue: rising(1) }),
    minutes: 2 * HOUR,
    queries: [fires(LATE_FAST, HOUR + 2), fires('DeliveryStalled', HOUR)],
  },
  {
    name: 'all messages hang and no more are published',
    input: replica({
      ...messages(flat(0), flat(0), rising(1, 45)),
      delivery_messages_in_flight_overdue: rising(1, 45),
    }),
    minutes: 4 * HOUR,
    queries: [fires('DeliveryStalled', 4 * HOUR)],
  },
  {
    name: '40 fail within three minutes',
    input: replica(messages(m => Math.min(40, 14 * Math.max(0, m - HOUR)), rising(20))),
    minutes: 3 * HOUR,
    queries: quiet(3 * HOUR, FAST),
  },
];

const objectives: readonly RuleTest[] = [
  {
    name: 'an objective of 90 % with 12 % failing',
    input: replica({ ...messages(rising(12), rising(88)), ...objective(0.9) }),
    minutes: 3 * DAY + HOUR,
    step: 4,
    queries: [...quiet(3 * DAY + HOUR, FAST), ...quiet(3 * DAY, SLOW), fires(SLOW, 3 * DAY + HOUR)],
  },
  {
    name: 'an objective of 90 % with all failing',
    input: replica({ ...messages(rising(12), flat(0)), ...objective(0.9) }),
    minutes: 2 * HOUR,
    queries: [fires(FAST, 2 * HOUR)],
  },
  {
    name: 'an objective of 75 % with all failing',
    input: replica({ ...messages(rising(12), flat(0)), ...objective(0.75) }),
    minutes: 2 * HOUR,
    queries: [fires(FAST, 2 * HOUR)],
  },
  {
    name: 'an objective of 99.9 % with 2 % failing',
    input: replica({ ...messages(rising(2), rising(98)), ...objective(0.999) }),
    minutes: 2 * HOUR,
    queries: [fires(FAST, 2 * HOUR)],
  },
  {
    name: 'an objective over seven days with 4 % failing',
    input: replica({ ...messages(rising(4), rising(96)), ...objective(0.99, 7) }),
    minutes: 2 * HOUR,
    queries: [fires(FAST, 2 * HOUR)],
  },
];

/** Returns the input as exposed if no agent runs between the minutes `end` and `back`. */
const away = (input: Input, end: number, back: number): Input =>
  Object.fromEntries(
    Object.entries(input).map(([series, values]) => [
      series,
      minute => {
        if (minute < end || minute > back) return values(minute);
        if (minute < back) return undefined;
        // The first scrape takes place before the first round ends.
        if (/data_timestamp/.test(series)) return undefined;
        if (/event_log_counting/.test(series)) return 0;
        return /_total/.test(series) ? values(end) : values(minute);
      },
    ]),
  );

const none = messages(flat(0), rising(2));
const failing = messages(rising(20), rising(20));
const replicas: readonly RuleTest[] = [
  {
    name: 'an agent was down for a day and catches up with failures of that day',
    input: replica(away(course(none, [2 * HOUR, failing], [4 * HOUR, none]), HOUR, DAY)),
    minutes: DAY + 4 * HOUR,
    step: 4,
    queries: quiet(DAY + 4 * HOUR, FAST, SLOW),
  },
  {
    name: 'one of two agents was down for a day while the other counted everything',
    input: {
      ...replica(away(course(none, [2 * HOUR, failing], [4 * HOUR, none]), HOUR, DAY)),
      ...replica(course(none, [2 * HOUR, failing], [4 * HOUR, none]), 'two'),
    },
    minutes: DAY + 2 * HOUR,
    step: 4,
    queries: [fires(FAST, 4 * HOUR), isQuiet(FAST, 8 * HOUR), isQuiet(FAST, DAY + 60), isQuiet(FAST, DAY + 120)],
  },
  {
    name: 'the agent’s pod is replaced by one with another name while messages begin to fail',
    input: {
      ...replica(
        Object.fromEntries(
          Object.entries(course(none, [2 * HOUR, failing])).map(([s, v]) => [s, m => (m < 122 ? v(m) : undefined)]),
        ),
      ),
      ...replica(
        Object.fromEntries(
          Object.entries(course(none, [2 * HOUR, failing])).map(([s, v]) => [s, m => (m < 124 ? undefined : v(m))]),
        ),
        'two',
      ),
    },
    minutes: 4 * HOUR,
    queries: [fires(FAST, 130), fires(FAST, 3 * HOUR), fires(FAST, 4 * HOUR)],
  },
  {
    name: '40 % of the few requests of one of two replicas are rate limited',
    input: {
      ...replica({
        'delivery_watch_api_requests_total{endpoint="dlq",outcome="rate_limited"}': rising(4),
        'delivery_watch_api_requests_total{endpoint="dlq",outcome="ok"}': rising(6),
      }),
      ...replica({ 'delivery_watch_api_requests_total{endpoint="dlq",outcome="ok"}': rising(100) }, 'two'),
    },
    minutes: HOUR,
    queries: [fires('DeliveryRateLimited', HOUR)],
  },
];

describe.skipIf(!requireProgram('promtool'))('delivery situations (promtool test rules)', () => {
  it.each(Object.entries({ rates, objectives, replicas }))(
    'delivery alerts fire and resolve as expected in situations about %s',
    (_, tests) => {
      expect(testRules([...ALERTS], asJobs(tests))).toBe('');
    },
  );
});
