import { alertingRule } from '../../src/mixin/rules.ts';
import type { AlertCase } from './cases/case.ts';
import { asJobs, JOB, neverFired, type RuleTest, replica, testRules } from './promtool.ts';
import { alertNamed, sceneOf } from './scene.ts';
import { ends, quiet, variantsOf } from './variants.ts';

function firstFiring(each: AlertCase): RuleTest {
  const { alert, labels = {}, fires: input, at, says, step } = each;
  const { annotations, labels: given } = alertingRule(alertNamed(alert));
  const account = alertNamed(alert).isOfAgent ? {} : { account: 'a' };
  const named: Readonly<Record<string, string>> = { account: 'a', ...labels };
  const filled = Object.entries(annotations).map(([name, text]) => [
    name,
    text.replace(/\{\{ \$labels\.(\w+) \}\}/g, (_, label: string) => named[label] ?? '?'),
  ]);
  const expected = {
    exp_labels: { job: JOB, ...account, ...labels, ...given },
    exp_annotations: { ...Object.fromEntries(filled), description: says },
  };
  return {
    name: `${alert} fires at the minute, and says what is wrong`,
    input: replica(sceneOf(each).sees(input)),
    minutes: at,
    step,
    alerts: [{ alert, minute: at, expected: [expected] }],
    queries: [neverFired(alert, at - 1)],
  };
}

/** What promtool finds wrong in all tests that an entry of the table stands for; nothing when all is well. */
export function wrongIn(each: AlertCase): string {
  const scene = sceneOf(each);
  const { alert, below, idle } = each;
  const tests = [
    ...variantsOf(scene),
    ends(scene),
    ...quiet(scene, 'nothing is there', {}),
    ...quiet(scene, 'at rest', idle),
    ...Object.entries(below).flatMap(([why, input]) => quiet(scene, why, input)),
  ];
  return testRules([alert], [firstFiring(each), ...asJobs(tests)]);
}
