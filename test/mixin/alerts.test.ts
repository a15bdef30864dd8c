import { describe, expect, it } from 'vitest';
import { alertGroups, alertingRule } from '../../src/mixin/rules.ts';
import { requireProgram } from '../support/prometheus.ts';
import { type AlertCase, REASONS, VARIANTS } from './cases/case.ts';
import { alertCases } from './cases/index.ts';
import { asJobs, JOB, neverFired, type RuleTest, replica, testRules } from './promtool.ts';
import { alertNamed, ends, quiet, sceneOf, variantsOf } from './variants.ts';

const alerts = alertGroups.flatMap(({ alerts }) => alerts);

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

describe.skipIf(!requireProgram('promtool'))('alerts, by promtool test rules', () => {
  it.each(alertCases)('$alert', each => {
    const scene = sceneOf(each);
    const { alert, below, idle } = each;
    const tests = [
      ...variantsOf(scene),
      ends(scene),
      ...quiet(scene, 'nothing is there', {}),
      ...quiet(scene, 'at rest', idle),
      ...Object.entries(below).flatMap(([why, input]) => quiet(scene, why, input)),
    ];
    expect(testRules([alert], [firstFiring(each), ...asJobs(tests)])).toBe('');
  });
});

/** Of no one account: in sight.test.ts and agents.test.ts. */
const OF_AGENTS = [
  'DeliveryAgentDown',
  'DeliveryInstanceDown',
  'DeliveryAgentCrashLooping',
  'DeliveryAccountMissing',
  'DeliveryConfigReloadFailed',
  'DeliveryStoreFailing',
  'DeliveryServiceUnavailable',
];

it('has cases for every alert', () => {
  expect([...OF_AGENTS, ...alertCases.map(({ alert }) => alert)].sort()).toEqual(alerts.map(({ name }) => name).sort());
  expect(alertingRule(alertNamed('DeliveryBlind')).expr).not.toContain('ALERTS');
});

it('leaves no variant out but those that make no sense, and says why', () => {
  const exempt = alertCases.flatMap(({ alert, exempt = {} }) =>
    Object.entries(exempt).map(([variant, reason]) => ({ alert, variant, reason })),
  );
  for (const { variant, reason } of exempt) {
    expect(Object.keys(VARIANTS)).toContain(variant);
    expect(Object.keys(REASONS)).toContain(reason);
  }
});

it('holds every alert on what the service says, and no other: what the agent knows of itself is never stale', () => {
  const ofAgent = alertGroups.find(({ name }) => name === 'delivery-agent')?.alerts ?? [];
  expect(alerts.filter(({ collector }) => !collector).map(({ name }) => name)).toEqual([
    ...ofAgent.map(({ name }) => name),
    // A hole stays one.
    'DeliveryEventLogGap',
  ]);
});
