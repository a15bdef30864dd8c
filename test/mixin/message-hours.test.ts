import { describe, expect, it } from 'vitest';
import { requireProgram } from '../support/prometheus.ts';
import { flat, type Input, rising } from './cases/case.ts';
import { allRounds, course, type Darkness, health, unseen } from './course.ts';
import { asJobs, fires, isQuiet, neverFired, type RuleTest, replica, testRules } from './promtool.ts';

const HOUR = 60;
const rounds = allRounds.filter(({ collector }) => collector === 'events');
const sees = (input: Input, darkness?: Darkness): Input =>
  replica({ ...health(rounds, darkness), ...(darkness ? unseen(input, darkness) : input) });

const [BURN, FAILING, STALLED] = ['DeliveryErrorBudgetFastBurn', 'DeliveryDestinationFailing', 'DeliveryStalled'];
const LOG_STALE = 'DeliveryEventLogStale';
const SLOW = 'DeliveryErrorBudgetSlowBurn';
const ended = (outcome: string) => `delivery_messages_finished_total{outcome="${outcome}"}`;
const attempts = (state: string) => `delivery_events_total{state="${state}",destination="api.example.com"}`;

/** Counter of failed messages: for half an hour, four of the ten messages in each minute fail. */
const failed = (minute: number) => 4 * Math.min(30, Math.max(0, minute - 6 * HOUR));
const END = 6 * HOUR + 30;
const burnt: RuleTest = {
  name: 'half an hour of failures',
  input: sees({ [ended('failed')]: failed, [ended('delivered')]: minute => 10 * minute - failed(minute) }),
  minutes: END + 20,
  queries: [neverFired(BURN, 6 * HOUR), fires(BURN, END), fires(BURN, END + 10), isQuiet(BURN, END + 20)],
};

const failing: Input = { [attempts('error')]: rising(2), [attempts('delivered')]: flat(0) };
const untried: Input = { [attempts('error')]: flat(0), [attempts('delivered')]: flat(0) };

const due: Input = {
  delivery_messages_overdue_total: rising(2),
  delivery_messages_in_flight_overdue: rising(2),
  [ended('delivered')]: flat(0),
  [ended('failed')]: flat(0),
};

const others: readonly RuleTest[] = [
  {
    name: 'a failing destination keeps firing for an hour without attempts, as after its removal',
    input: sees(course(failing, [20, untried])),
    minutes: 3 * HOUR,
    queries: [fires(FAILING, 20), fires(FAILING, HOUR + 20), isQuiet(FAILING, 2 * HOUR)],
  },
  {
    name: 'the log has no new event although a waitlist changes',
    input: replica({
      ...health(allRounds),
      delivery_event_log_newest_timestamp_seconds: flat(0),
      'delivery_flow_control_waitlist_size{flow_control_key="mail"}': minute => 5 + (minute % 3),
    }),
    minutes: HOUR,
    queries: [fires(LOG_STALE, HOUR)],
  },
  {
    name: 'all stuck messages are cancelled and five are delayed until tomorrow',
    input: sees({
      ...due,
      delivery_messages_overdue_total: rising(2, 120),
      delivery_messages_in_flight_overdue: minute => (minute < HOUR ? 2 * minute : 0),
      delivery_messages_in_flight: minute => (minute < HOUR ? 5 + 2 * minute : 5),
    }),
    minutes: 3 * HOUR,
    queries: [fires(STALLED, HOUR - 1), isQuiet(STALLED, 2 * HOUR), isQuiet(STALLED, 3 * HOUR)],
  },
  {
    name: 'failures during an outage appear at once when it ends',
    input: sees(course(untried, [64, failing], [90, untried]), { from: HOUR, to: 2 * HOUR }),
    minutes: 3 * HOUR,
    queries: [neverFired(FAILING, 3 * HOUR)],
  },
  {
    name: 'overdue messages stop increasing because none is published or finished: fires until one finishes',
    input: sees({
      ...due,
      delivery_messages_overdue_total: rising(2, 60),
      delivery_messages_in_flight_overdue: minute => (minute < 2 * HOUR ? Math.min(60, 2 * minute) : 0),
      [ended('delivered')]: minute => (minute < 2 * HOUR ? 0 : 60),
    }),
    minutes: 3 * HOUR,
    queries: [fires(STALLED, HOUR), fires(STALLED, 2 * HOUR - 1), isQuiet(STALLED, 2 * HOUR + 2)],
  },
];

/** After a burn, an agent that has lost its store counts from 0, and no message finishes. */
const newStore: RuleTest = {
  name: 'a fast burn, then a new store in an idle night',
  input: sees(
    Object.fromEntries(
      [ended('failed'), ended('delivered')].map(series => [
        series,
        (minute: number) => (minute < 2 * HOUR ? 5 * minute : minute < 2 * HOUR + 2 ? undefined : 0),
      ]),
    ),
  ),
  minutes: 4 * HOUR,
  queries: [fires(BURN, 2 * HOUR - 1), isQuiet(BURN, 4 * HOUR)],
};

/** Counter of failed messages: after a day without failures, five of the ten messages in each minute fail for two hours. */
const lastFailed = (minute: number) => 5 * Math.min(2 * HOUR, Math.max(0, minute - 25 * HOUR));
const afterwards: RuleTest = {
  name: 'two hours of failures after a day',
  step: 4,
  input: sees({ [ended('failed')]: lastFailed, [ended('delivered')]: minute => 10 * minute - lastFailed(minute) }),
  minutes: 36 * HOUR,
  queries: [fires(BURN, 26 * HOUR), neverFired(SLOW, 36 * HOUR)],
};

describe.skipIf(!requireProgram('promtool'))('message alerts over hours (promtool test rules)', () => {
  it('the fast burn alert resolves within half an hour after deliveries recover or the store is replaced', () => {
    expect(testRules([BURN], [burnt, newStore])).toBe('');
  });

  it('the slow burn alert does not fire because of a fast burn that is still in its window', () => {
    expect(testRules([BURN, SLOW], [afterwards])).toBe('');
  });

  it('message alerts keep firing without traffic, and do not fire on a backlog that is counted all at once', () => {
    expect(testRules([FAILING, STALLED, LOG_STALE], asJobs(others))).toBe('');
  });
});
