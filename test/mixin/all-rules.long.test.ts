import { describe, expect, it } from 'vitest';
import { alerts } from '../../mixin/rules.ts';
import { requireProgram } from '../support/prometheus.ts';
import { ago, flat, from, type Input, rising, type Values } from './cases/case.ts';
import { allRounds, course, cutOff, type Darkness, ended, health, takenOver, unseen } from './course.ts';
import { type RuleTest, replica, type Target, testRules } from './promtool.ts';

/** Evaluates all rules on the series of complete accounts, and checks that exactly the expected alerts fire. */

const HOUR = 60;
const DAY = 24 * HOUR;

interface Situation {
  readonly hours: number;
  readonly replicas: (target: (more?: Partial<Target>) => Target) => Input;
  /** All alerts that fire at any time between minute `since` (default 0) and the end. */
  readonly fires: readonly string[];
  readonly since?: number;
}

const FINISHED = (outcome: string) => `delivery_messages_finished_total{outcome="${outcome}"}`;
const EVENTS = (state: string) => `delivery_events_total{state="${state}"}`;
const REQUESTS = (outcome: string) => `delivery_watch_api_requests_total{endpoint="dlq",outcome="${outcome}"}`;
const DLQ = 'delivery_dlq_messages';
const OLDEST = 'delivery_dlq_oldest_entered_timestamp_seconds';
const RETENTION = 'delivery_dlq_retention_seconds';
const WAITLIST = 'delivery_flow_control_waitlist_size{flow_control_key="mail"}';
const KEY_STATE = (state: string) => `delivery_flow_control_state{flow_control_key="mail",state="${state}"}`;

/** A healthy account with traffic. */
const atWork: Input = {
  [FINISHED('delivered')]: rising(20),
  [FINISHED('failed')]: flat(0),
  [FINISHED('cancelled')]: flat(0),
  [EVENTS('created')]: rising(20),
  [EVENTS('active')]: rising(20),
  [EVENTS('retry')]: flat(0),
  delivery_messages_overdue_total: flat(0),
  delivery_messages_in_flight: flat(5),
  delivery_event_log_newest_timestamp_seconds: ago(10),
  [DLQ]: flat(0),
  delivery_dlq_entered_total: flat(0),
  [WAITLIST]: minute => minute % 3,
  [REQUESTS('ok')]: rising(4),
  [REQUESTS('rate_limited')]: flat(0),
  delivery_token_rejected: flat(0),
  delivery_watch_api_budget_remaining: minute => 200_000 - 16 * (minute % DAY),
};
const AT_REST: Input = {
  ...Object.fromEntries(
    Object.keys(atWork)
      .filter(name => /_total/.test(name))
      .map(name => [name, flat(0)]),
  ),
  [WAITLIST]: flat(0),
  delivery_event_log_newest_timestamp_seconds: flat(0),
};
const process = (startedAt: Values): Input => ({
  up: flat(1),
  process_start_time_seconds: startedAt,
  delivery_watch_config_last_reload_successful: flat(1),
});

/** Returns all series of one agent and one account. */
const shows = (input: Input, target: Target, darkness?: Darkness): Input => {
  const all = { ...atWork, ...input };
  return {
    ...replica(
      { ...process(flat(0)), ...health(allRounds, darkness), ...(darkness ? unseen(all, darkness) : all) },
      target,
    ),
  };
};
const account =
  (input: Input, darkness?: Darkness): Situation['replicas'] =>
  target =>
    shows(input, target(), darkness);
/**
 * Returns the series of a takeover by another replica after two hours. `before`: series of the previous holder; `holds`: its
 * leader gauge.
 */
const moved =
  (before: (input: Input, at: number) => Input, holds: Values): Situation['replicas'] =>
  target => {
    const at = 2 * HOUR;
    const all = { ...health(allRounds), ...atWork };
    return {
      ...replica({ ...process(flat(0)), 'delivery_watch_leader{schema="s"}': holds, ...before(all, at) }, target()),
      ...replica(
        { ...process(flat(0)), 'delivery_watch_leader{schema="s"}': from(at, 1), ...takenOver(all, at) },
        target({ instance: 'two' }),
      ),
    };
  };
/** A counter with a constant rate per hour. */
const hourly =
  (count: number): Values =>
  minute =>
    Math.floor((minute * count) / HOUR);
const failing = (failed: Values, delivered: Values, queue: Values): Input => ({
  [FINISHED('failed')]: failed,
  [FINISHED('delivered')]: delivered,
  [DLQ]: queue,
  delivery_dlq_entered_total: failed,
  [OLDEST]: minute => Math.max(0, 60 * (minute - 12 * HOUR)),
});

const SITUATIONS: Readonly<Record<string, Situation>> = {
  'a healthy account': { hours: 12, replicas: account({}), fires: [] },
  'an account without traffic': {
    hours: 8,
    replicas: account(AT_REST),
    fires: [],
  },
  '4.9 % fail all day': {
    hours: 30,
    replicas: account(failing(hourly(49), hourly(951), flat(0))),
    fires: ['DeliveryErrorBudgetSlowBurn'],
  },
  '18 messages an hour, all fail': {
    hours: 8,
    replicas: account(failing(hourly(18), flat(0), hourly(18))),
    fires: ['DeliveryDlqFirstEntry', 'DeliveryDlqGrowing', 'DeliveryErrorBudgetFastBurn'],
  },
  '8 messages an hour, all fail, and the queue grows from 3 to 195': {
    hours: 24,
    replicas: account(failing(hourly(8), flat(0), minute => 3 + Math.floor((minute * 8) / HOUR))),
    fires: ['DeliveryDlqGrowing', 'DeliveryErrorBudgetFastBurn'],
  },
  'an hourly job leaves 60 dead letters': {
    hours: 12,
    replicas: account({
      [DLQ]: minute => 60 * Math.floor(minute / HOUR),
      [OLDEST]: minute => 60 * Math.max(0, minute - HOUR),
    }),
    fires: ['DeliveryDlqFirstEntry', 'DeliveryDlqGrowing'],
  },
  '20 dead letters every 20 minutes': {
    hours: 12,
    replicas: account({
      [DLQ]: minute => 20 * Math.floor(minute / 20),
      [OLDEST]: minute => 60 * Math.max(0, minute - HOUR),
    }),
    fires: ['DeliveryDlqFirstEntry', 'DeliveryDlqGrowing'],
  },
  'a backlog of 5,000 dead letters and one more an hour': {
    hours: 12,
    replicas: account({ [DLQ]: minute => 5000 + Math.floor(minute / HOUR), [OLDEST]: ago(3600) }),
    fires: [],
  },
  'operators let all dead letters expire': {
    hours: 8,
    replicas: account({
      [DLQ]: flat(900),
      [OLDEST]: ago(259_000),
      [RETENTION]: flat(259_200),
      'delivery_dlq_left_total{reason="expired"}': hourly(12),
      'delivery_dlq_left_total{reason="removed"}': flat(0),
    }),
    fires: ['DeliveryDlqAgeHigh'],
  },
  'half of all messages hang for hours': {
    hours: 6,
    replicas: account({
      [FINISHED('delivered')]: rising(10),
      delivery_messages_overdue_total: rising(10),
      delivery_messages_in_flight: rising(10),
    }),
    fires: ['DeliveryOnTimeBudgetFastBurn'],
  },
  '500 messages delayed by 8 hours, none overdue': {
    hours: 8,
    replicas: account({
      [FINISHED('delivered')]: flat(0),
      [EVENTS('active')]: flat(0),
      [EVENTS('created')]: rising(10, 500),
      delivery_messages_in_flight: rising(10, 500),
    }),
    fires: [],
  },
  'a key with an exhausted daily rate': {
    hours: 12,
    replicas: account({ [WAITLIST]: flat(40), [KEY_STATE('rate_limited')]: flat(1) }),
    fires: [],
  },
  'a key with a frozen waitlist': {
    hours: 2,
    replicas: account({ [WAITLIST]: flat(40), [KEY_STATE('waiting')]: flat(1) }),
    fires: ['DeliveryWaitlistStalled'],
  },
  'the list of dead letters is renamed': {
    hours: 2,
    replicas: target =>
      shows({ 'delivery_lists_missing_total{collector="dlq"}': rising(2) }, target(), { from: 30, to: 9999 }),
    fires: ['DeliveryBlind', 'DeliveryListsMissing'],
  },
  'a reload failed': {
    hours: 2,
    replicas: account({ delivery_watch_config_last_reload_successful: from(30, 0, 1) }),
    fires: ['DeliveryConfigReloadFailed'],
  },
  'a refused token': {
    hours: 2,
    replicas: account({ delivery_token_rejected: from(30, 1) }, { from: 30, to: 9999 }),
    fires: ['DeliveryBlind', 'DeliveryTokenRejected'],
  },
  'one of two replicas is rate limited': {
    hours: 2,
    replicas: target => ({
      ...shows({ [REQUESTS('ok')]: rising(6), [REQUESTS('rate_limited')]: rising(4) }, target()),
      ...shows({ [REQUESTS('ok')]: rising(100) }, target({ instance: 'two' })),
    }),
    fires: ['DeliveryRateLimited'],
  },
  'an agent in a crash loop without a read': {
    hours: 4,
    replicas: target => {
      const input = { ...process(minute => 60 * minute), ...health(allRounds), delivery_up: flat(0) };
      const all = Object.fromEntries(
        Object.entries(input).filter(([name]) => !/success|complete|data_timestamp/.test(name) || /reload/.test(name)),
      );
      return replica(all, target());
    },
    fires: ['DeliveryAgentCrashLooping', 'DeliveryBlind'],
  },
  'one of two agents with one account each goes down': {
    hours: 2,
    replicas: target => {
      const lost = target({ instance: 'two', account: 'b' });
      const stopped = ended({ ...process(flat(0)), ...health(allRounds), ...atWork }, 30);
      return { ...shows({}, target()), ...replica({ ...stopped, up: from(30, 0, 1) }, lost) };
    },
    fires: ['DeliveryInstanceDown'],
  },
  'a day of blindness with failures only in its first hour': {
    hours: 30,
    replicas: account(
      course(
        failing(flat(0), rising(20), flat(0)),
        [2 * HOUR, failing(rising(20), flat(0), flat(0))],
        [3 * HOUR, failing(flat(0), rising(20), flat(0))],
      ),
      { from: 2 * HOUR, to: 26 * HOUR },
    ),
    fires: ['DeliveryBlind'],
  },
  'the first dead letters are added during two hours of blindness': {
    hours: 6,
    replicas: account(
      { [DLQ]: from(2 * HOUR, 4), [OLDEST]: minute => (minute < 2 * HOUR ? undefined : 7200) },
      { from: HOUR, to: 3 * HOUR },
    ),
    fires: ['DeliveryBlind', 'DeliveryDlqFirstEntry'],
  },
  'a dead letter is added to an idle account during an hour of blindness': {
    hours: 4,
    replicas: account(
      {
        ...AT_REST,
        [DLQ]: from(90, 1),
        delivery_dlq_entered_total: from(90, 1),
        delivery_event_log_newest_timestamp_seconds: from(90, 5400),
        [OLDEST]: minute => (minute < 90 ? undefined : 5400),
      },
      { from: HOUR, to: 2 * HOUR },
    ),
    fires: ['DeliveryBlind', 'DeliveryDlqFirstEntry'],
  },
  'an account moves to another replica': {
    hours: 8,
    replicas: moved(ended, minute => Number(minute < 2 * HOUR)),
    fires: [],
  },
  'an account is taken over from a running replica without a database': {
    hours: 8,
    replicas: moved(cutOff, flat(1)),
    fires: ['DeliveryTwoLeaders', 'DeliveryStoreFailing'],
  },
  'stage is blind and prod with the same account name has recovered': {
    hours: 8,
    since: 5 * HOUR,
    replicas: target => ({
      ...shows(
        course({ ...atWork, delivery_dlq_failure_callbacks_suspected: flat(2) }, [
          HOUR,
          { ...atWork, delivery_dlq_failure_callbacks_suspected: flat(0) },
        ]),
        target({ namespace: 'prod' }),
      ),
      ...shows({}, target({ namespace: 'stage', instance: 'two' }), { from: 30, to: 9999 }),
    }),
    fires: ['DeliveryBlind'],
  },
};

/** Combines all situations into one test with a cluster label for each, so that the rules are evaluated only once. */
function together(): RuleTest {
  const all = Object.entries(SITUATIONS).map(([name, { replicas, hours, fires, since = 0 }]) => {
    const minutes = hours * HOUR;
    const firing = `ALERTS{cluster="${name}",alertstate="firing"}`;
    const query = {
      expr: `group by (alertname) (count_over_time(${firing}[${minutes - since}m]))`,
      minute: minutes,
      expected: fires.map(alert => ({ labels: `{alertname="${alert}"}`, value: 1 })),
    };
    return { minutes, query, input: replicas((more = {}) => ({ instance: 'one', cluster: name, ...more })) };
  });
  const until = (end: number, values: Values) => (minute: number) => (minute > end ? undefined : values(minute));
  return {
    name: 'one cluster per situation',
    step: 4,
    minutes: Math.max(...all.map(({ minutes }) => minutes)),
    input: Object.fromEntries(
      all.flatMap(({ input, minutes }) =>
        Object.entries(input).map(([series, values]) => [series, until(minutes, values)]),
      ),
    ),
    queries: all.map(({ query }) => query),
  };
}

describe.skipIf(!requireProgram('promtool'))('all rules (promtool test rules)', () => {
  it('all rules together fire exactly the expected alerts of each situation', () => {
    const every = alerts.map(({ name }) => name);
    expect(testRules(every, [together()])).toBe('');
  });
});
