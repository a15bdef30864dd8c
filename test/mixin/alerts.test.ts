import { describe, expect, it } from 'vitest';
import { alertGroups } from '../../mixin/rules.ts';
import { requireProgram } from '../support/prometheus.ts';
import { wrongIn } from './alert-case.ts';
import { alertingRule } from './alerting-rule.ts';
import { REASONS, VARIANTS } from './cases/case.ts';
import { alertCases } from './cases/index.ts';

const alerts = alertGroups.flatMap(({ alerts }) => alerts);

/** Those whose windows are days, and what is rare, are in alerts.long.test.ts. */
const ofHours = alertCases.filter(({ step }) => step === undefined);

describe.skipIf(!requireProgram('promtool'))('alerts, by promtool test rules', () => {
  it.each(ofHours)('$alert', each => {
    expect(wrongIn(each, 'usual')).toBe('');
  });
});

/** Of no one account: in sight.test.ts and agents.test.ts. */
const OF_AGENTS = [
  'DeliveryAgentDown',
  'DeliveryInstanceDown',
  'DeliveryAgentCrashLooping',
  'DeliveryAccountMissing',
  'DeliveryConfigReloadFailed',
  'DeliveryDatabaseAway',
  'DeliveryAccountUncollected',
  'DeliveryAccountHeldTwice',
  'DeliveryStoreFailing',
  'DeliveryServiceUnavailable',
];

it('has cases for every alert', () => {
  expect([...OF_AGENTS, ...alertCases.map(({ alert }) => alert)].sort()).toEqual(alerts.map(({ name }) => name).sort());
  expect(alertingRule('DeliveryBlind').expr).not.toContain('ALERTS');
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
