import { describe, expect, it } from 'vitest';
import { alerts } from '../../mixin/rules.ts';
import { requireProgram } from '../support/prometheus.ts';
import type { Input } from './cases/case.ts';
import { caseOf } from './cases/index.ts';
import { course, ended } from './course.ts';
import { asJobs, fires, isQuiet, isQuietFrom, type RuleTest, replica, testRules } from './promtool.ts';
import { alertNamed, sceneOf } from './scene.ts';

/** Alerts on states that one good answer disproves, except those whose condition includes a window. */
const PROVEN = [
  'DeliveryBlind',
  'DeliveryCollectorStale',
  'DeliveryTokenRejected',
  'DeliveryRequestBudgetLow',
  'DeliveryAutoCancelBreakerOpen',
  'DeliveryAutoCancelUnresolved',
  'DeliveryNotificationsFailing',
  'DeliveryDlqExpiringSoon',
  'DeliveryDlqAgeHigh',
  'DeliveryDlqNearlyFull',
  'DeliveryFailureCallbackStuck',
  'DeliveryWaitlistStalled',
  'DeliveryDispatchPausedWithBacklog',
  'DeliveryStalled',
];

const EMPTIED = {
  during: { delivery_dlq_messages: () => 5 },
  after: { delivery_dlq_messages: () => 0, delivery_dlq_retention_seconds: () => 10_000 },
};
/** Inputs during the problem and after its end, if the idle account does not disprove it. */
const ANSWERS: Readonly<Record<string, { readonly during?: Input; readonly after: Input }>> = {
  DeliveryNotificationsFailing: {
    after: {
      'delivery_watch_notifications_total{notifier="ops",outcome="sent"}': minute => 2 * minute,
      'delivery_watch_notifications_total{notifier="ops",outcome="failed"}': () => 0,
    },
  },
  DeliveryDlqExpiringSoon: EMPTIED,
  DeliveryDlqAgeHigh: EMPTIED,
  DeliveryStalled: {
    after: {
      'delivery_messages_finished_total{outcome="delivered"}': minute => 5 * minute,
      'delivery_messages_finished_total{outcome="failed"}': () => 0,
      delivery_messages_in_flight_overdue: () => 0,
    },
  },
};

function resolvedAt(name: string): RuleTest {
  const each = caseOf(name);
  const { fires: cause, at, idle, recovery = idle } = each;
  const end = at + 8;
  const { during, after } = ANSWERS[name] ?? { after: recovery };
  const input = course({ ...during, ...cause }, [end, after]);
  return {
    name,
    input: replica(sceneOf(each).withHealth(input)),
    minutes: end + 10,
    queries: [fires(name, end - 1), isQuietFrom(name, end + 2, end + 10)],
  };
}

describe.skipIf(!requireProgram('promtool'))('good news (promtool test rules)', () => {
  it('alerts on proven states are resolved within two minutes', () => {
    expect(testRules(PROVEN, asJobs(PROVEN.map(resolvedAt)))).toBe('');
  });

  it('only alerts on shares and growth keep firing for more than two minutes', () => {
    const longer = alerts
      .filter(({ keepFiringFor = '0s' }) => /^\d{2,}m|h$/.test(keepFiringFor))
      .map(({ name }) => name);
    expect(longer.filter(name => PROVEN.includes(name))).toEqual([]);
    expect(alertNamed('DeliveryErrorBudgetFastBurn').keepFiringFor).toBe('10m');
  });

  it('alerts are not resolved before DeliveryAgentDown fires if the agent dies', () => {
    const names = [
      ...['DeliveryTokenRejected', 'DeliveryAutoCancelBreakerOpen', 'DeliveryAutoCancelUnresolved'],
      ...['DeliveryCollectorStale', 'DeliveryRequestBudgetLow', 'DeliveryDispatchPausedWithBacklog'],
      ...['DeliveryWaitlistStalled', 'DeliveryDlqGrowing', 'DeliveryDlqAgeHigh', 'DeliveryErrorBudgetFastBurn'],
      'DeliveryBlind',
    ];
    const tests = names.map((name): RuleTest => {
      const each = caseOf(name);
      const dies = each.at + 4;
      return {
        name,
        input: replica(ended(sceneOf(each).withHealth(each.fires), dies)),
        minutes: dies + 60,
        queries: [...[4, 5, 6, 7, 8, 10, 11].map(after => fires(name, dies + after)), isQuiet(name, dies + 45)],
      };
    });
    expect(testRules(names, asJobs(tests))).toBe('');
  });

  it('a token that another process of the agent proves to be accepted resolves the alert although the old process is gone', () => {
    const name = 'DeliveryTokenRejected';
    const input: Input = {
      ...replica({ delivery_token_rejected: minute => (minute < 20 ? 1 : undefined) }, 'old:10922'),
      ...replica({ delivery_token_rejected: minute => (minute < 22 ? undefined : 0) }, 'new:10922'),
    };
    const test = { name, input, minutes: 30, queries: [fires(name, 21), isQuietFrom(name, 24, 30)] };
    expect(testRules([name], [test])).toBe('');
  });
});
