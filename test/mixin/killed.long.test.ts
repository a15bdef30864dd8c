import { describe, expect, it } from 'vitest';
import { requireProgram } from '../support/prometheus.ts';
import { caseOf } from './cases/index.ts';
import { course, killedEvery } from './course.ts';
import { asJobs, fires, isQuietFrom, type RuleTest, replica, testRules } from './promtool.ts';
import { sceneOf } from './scene.ts';

describe.skipIf(!requireProgram('promtool'))('an agent that is killed again and again (promtool test rules)', () => {
  it('alerts are resolved within an hour although the agent is killed every 25 minutes', () => {
    const period = 25;
    const names = [
      ...['DeliveryErrorBudgetFastBurn', 'DeliveryOnTimeBudgetFastBurn', 'DeliveryStalled', 'DeliveryDlqGrowing'],
      ...['DeliveryDispatchPausedWithBacklog', 'DeliveryDlqAgeHigh', 'DeliveryTokenRejected'],
    ];
    const tests = names.map((name): RuleTest => {
      const each = caseOf(name);
      const { fires: cause, idle, recovery = idle, memory = 75 } = each;
      const end = Math.ceil((each.at + 60) / period) * period + 8;
      const input = killedEvery(sceneOf(each).withHealth(course(cause, [end, recovery])), period, each.at);
      return {
        name,
        input: replica(input),
        minutes: end + 240,
        queries: [
          ...[5, 15, 30, 45].map(before => fires(name, end - before)),
          isQuietFrom(name, end + memory + 60, end + 240),
        ],
      };
    });
    expect(testRules(names, asJobs(tests))).toBe('');
  });

  it('an agent that is killed every ten minutes does not restart the clock of the growth of a queue', () => {
    const name = 'DeliveryDlqGrowing';
    const each = caseOf(name);
    const input = killedEvery(sceneOf(each).withHealth(course(each.fires, [120, each.idle])), 10, each.at);
    const test = {
      name,
      input: replica(input),
      minutes: 300,
      queries: [isQuietFrom(name, 240, 300)],
    };
    expect(testRules([name], [test])).toBe('');
  });
});
