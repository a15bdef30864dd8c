import { alertingRule } from './alerting-rule.ts';
import type { AlertCase } from './cases/case.ts';
import { asJobs, JOB, neverFired, type RuleTest, replica, testRules } from './promtool.ts';
import { alertNamed, sceneOf } from './scene.ts';
import { type Share, testsOf } from './variants.ts';

function firstFiring(each: AlertCase): RuleTest {
  const { alert, labels = {}, fires: input, at, description, step } = each;
  const { annotations, labels: given } = alertingRule(alert);
  const account = alertNamed(alert).isOfAgent ? {} : { account: 'a' };
  const named: Readonly<Record<string, string>> = { account: 'a', ...labels };
  const filled = Object.entries(annotations).map(([name, text]) => [
    name,
    text.replace(/\{\{ \$labels\.(\w+) \}\}/g, (_, label: string) => named[label] ?? '?'),
  ]);
  const expected = {
    exp_labels: { job: JOB, ...account, ...labels, ...given },
    exp_annotations: { ...Object.fromEntries(filled), description },
  };
  return {
    name: `${alert} fires at the expected minute with the expected description`,
    input: replica(sceneOf(each).withHealth(input)),
    minutes: at,
    step,
    alerts: [{ alert, minute: at, expected: [expected] }],
    queries: [neverFired(alert, at - 1)],
  };
}

/** Runs the generated tests of a case that belong to these shares. Returns promtool's errors; empty if all tests pass. */
export function errorsOf(each: AlertCase, ...shares: readonly Share[]): string {
  const scene = sceneOf(each);
  const first = shares.includes('usual') ? [firstFiring(each)] : [];
  return testRules([each.alert], [...first, ...asJobs(shares.flatMap(share => testsOf(scene, share)))]);
}
