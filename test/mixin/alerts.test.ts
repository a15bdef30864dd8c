import { describe, expect, it } from 'vitest';
import { agentAlerts } from '../../mixin/agent-alerts.ts';
import { leaderAlerts } from '../../mixin/leader-alerts.ts';
import { readingAlerts } from '../../mixin/reading-alerts.ts';
import { alerts } from '../../mixin/rules.ts';
import { requireProgram } from '../support/prometheus.ts';
import { errorsOf } from './alert-case.ts';
import { alertingRule } from './alerting-rule.ts';
import { alertCases } from './cases/index.ts';

/** Cases without multi-day windows. Cases with them, and rare situations, are in alerts.long.test.ts. */
const ofHours = alertCases.filter(({ step }) => step === undefined);

describe.skipIf(!requireProgram('promtool'))('alerts in common situations (promtool test rules)', () => {
  it.each(ofHours)('$alert fires and resolves as specified', each => {
    expect(errorsOf(each, 'usual')).toBe('');
  });
});

/** Agent-wide alerts, which sight.test.ts and agents.long.test.ts test. */
const OF_AGENTS = [
  'DeliveryAgentDown',
  'DeliveryInstanceDown',
  'DeliveryAgentCrashLooping',
  'DeliveryConfigReloadFailed',
  'DeliveryDatabaseAway',
  'DeliveryNoLeader',
  'DeliveryTwoLeaders',
  'DeliveryStoreFailing',
  'DeliveryServiceUnavailable',
];

it('each alert has a test case', () => {
  expect([...OF_AGENTS, ...alertCases.map(({ alert }) => alert)].sort()).toEqual(alerts.map(({ name }) => name).sort());
});

it('DeliveryBlind does not depend on other alerts', () => {
  expect(alertingRule('DeliveryBlind').expr).not.toContain('ALERTS');
});

it('each alert depends on a collector, except those about the agent and two about the event log', () => {
  expect(alerts.filter(({ collector }) => !collector).map(({ name }) => name)).toEqual([
    ...[...agentAlerts, ...leaderAlerts, ...readingAlerts].map(({ name }) => name),
    // Gaps are permanent, so the alert does not depend on fresh data.
    'DeliveryEventLogGap',
    // This alert compares the log with other collectors, so it handles blind collectors itself.
    'DeliveryEventLogStale',
  ]);
});
