import { describe, expect, it } from 'vitest';
import { alerts } from '../../mixin/rules.ts';
import { ALERTMANAGER, startAlertmanager } from '../support/alertmanager.ts';
import { eventually } from '../support/eventually.ts';
import { requireProgram } from '../support/prometheus.ts';
import { faster, type Labels, shipped, startReceivers } from '../support/shipped-alertmanager.ts';

/** Labels that each alert's rule sets, by alert name. */
const ruleLabels = new Map<string, Labels>(
  alerts.map(({ name, severity, collector }) => [name, { severity, ...(collector && { collector }) }]),
);
/** Returns the labels of a shipped alert, including those set by its rule. */
function shippedAlert(alertname: string, labels: Labels): Labels {
  const set = ruleLabels.get(alertname);
  if (set === undefined) throw new Error(`there is no alert ${alertname}`);
  return { alertname, ...set, ...labels };
}
const ofAccount = (account: string, names: readonly string[], more: Labels = {}) =>
  names.map(name => shippedAlert(name, { cluster: 'eu', namespace: 'shop', account, ...more }));

const ACCOUNTS = ['one', 'two', 'three'];
const COLLECTORS = ['dlq', 'events', 'flow_control'];

/** Per incident, the alerts that fire and the notifications that receivers must get exactly once. */
const incidents: Readonly<Record<string, { readonly fires: readonly Labels[]; readonly sent: readonly string[] }>> = {
  'a rejected token': {
    fires: [
      ...ofAccount('one', ['DeliveryTokenRejected', 'DeliveryBlind', 'DeliveryDlqGrowing', 'DeliveryRetryRatioHigh']),
    ],
    sent: ['urgent: DeliveryTokenRejected'],
  },
  'an outage of all accounts': {
    fires: [
      shippedAlert('DeliveryServiceUnavailable', { cluster: 'eu', namespace: 'shop' }),
      ...ACCOUNTS.flatMap(account =>
        COLLECTORS.flatMap(collector => ofAccount(account, ['DeliveryBlind'], { collector })),
      ),
      ...ofAccount('two', ['DeliveryDlqGrowing', 'DeliveryScheduleMissed', 'DeliveryWaitlistStalled']),
    ],
    sent: ['urgent: DeliveryServiceUnavailable'],
  },
  'an outage of eleven of twenty accounts, and failing messages in an account that can be read': {
    fires: [
      shippedAlert('DeliveryServiceUnavailable', { cluster: 'eu', namespace: 'shop' }),
      ...Array.from({ length: 11 }, (_, index) => `away-${index}`).flatMap(account => [
        ...COLLECTORS.flatMap(collector => ofAccount(account, ['DeliveryBlind'], { collector })),
      ]),
      ...ofAccount('read', ['DeliveryErrorBudgetFastBurn', 'DeliveryErrorBudgetSlowBurn']),
      ...ofAccount('also-read', ['DeliveryDlqGrowing']),
      ...ofAccount('rejected', ['DeliveryTokenRejected']),
    ],
    sent: [
      'default: DeliveryDlqGrowing',
      'urgent: DeliveryErrorBudgetFastBurn',
      'urgent: DeliveryServiceUnavailable',
      'urgent: DeliveryTokenRejected',
    ],
  },
  'an outage of the service in another namespace': {
    fires: [
      shippedAlert('DeliveryServiceUnavailable', { cluster: 'eu', namespace: 'stage' }),
      ...ofAccount('one', ['DeliveryBlind'], { collector: 'dlq' }),
    ],
    sent: ['urgent: DeliveryBlind', 'urgent: DeliveryServiceUnavailable'],
  },
  'no agent': {
    fires: [
      // absent() returns no target labels.
      shippedAlert('DeliveryAgentDown', { cluster: 'eu' }),
      ...ofAccount('two', ['DeliveryErrorBudgetFastBurn', 'DeliveryDlqGrowing']),
    ],
    sent: ['urgent: DeliveryAgentDown'],
  },
  'one of several agents': {
    fires: [
      ...['critical', 'warning'].map((severity, i) =>
        shippedAlert('DeliveryInstanceDown', { cluster: 'eu', namespace: 'shop', instance: `${i}:10922`, severity }),
      ),
    ],
    sent: ['default: DeliveryInstanceDown', 'urgent: DeliveryInstanceDown'],
  },
  'no agent, with the label cluster on targets only': {
    fires: [
      shippedAlert('DeliveryAgentDown', {}),
      shippedAlert('DeliveryInstanceDown', { cluster: 'eu', namespace: 'shop', instance: 'one', severity: 'critical' }),
    ],
    sent: ['urgent: DeliveryAgentDown'],
  },
  'no agent of one of two clusters that share an Alertmanager': {
    fires: [
      shippedAlert('DeliveryAgentDown', { cluster: 'us' }),
      ...ofAccount('one', ['DeliveryDlqGrowing']),
      ...ofAccount('two', ['DeliveryDlqGrowing'], { cluster: 'us' }),
    ],
    sent: ['default: DeliveryDlqGrowing', 'urgent: DeliveryAgentDown'],
  },
  'a full disk of one agent, and an unreadable account of another': {
    fires: [
      shippedAlert('DeliveryStoreFailing', { cluster: 'eu', namespace: 'shop', instance: 'one:10922' }),
      ...ofAccount('two', ['DeliveryBlind'], { collector: 'dlq' }),
    ],
    sent: ['urgent: DeliveryBlind', 'urgent: DeliveryStoreFailing'],
  },
  'an unreadable dead-letter queue with a readable event log': {
    fires: [
      ...ofAccount('one', ['DeliveryBlind'], { collector: 'dlq' }),
      ...ofAccount('one', ['DeliveryDlqGrowing', 'DeliveryRetryRatioHigh', 'DeliveryRequestBudgetLow']),
    ],
    sent: ['default: DeliveryRequestBudgetLow DeliveryRetryRatioHigh', 'urgent: DeliveryBlind'],
  },
  'a first dead letter, which is only informational': {
    fires: ofAccount('one', ['DeliveryDlqFirstEntry', 'DeliveryDlqNewKind']),
    sent: [],
  },
  'two unreadable accounts': {
    fires: [
      ...ofAccount('one', ['DeliveryBlind'], { collector: 'dlq' }),
      ...ofAccount('two', ['DeliveryBlind'], { collector: 'dlq' }),
      ...ofAccount('one', ['DeliveryListsMissing'], { collector: 'dlq' }),
    ],
    sent: ['urgent: DeliveryBlind DeliveryBlind'],
  },
  'many failures': {
    fires: ofAccount('one', [
      'DeliveryErrorBudgetFastBurn',
      'DeliveryErrorBudgetSlowBurn',
      'DeliveryOnTimeBudgetFastBurn',
    ]),
    sent: ['urgent: DeliveryErrorBudgetFastBurn'],
  },
  'dead letters matched by four filters': {
    fires: [
      ...ofAccount('one', ['DeliveryDlqGrowing', 'DeliveryDlqFirstEntry']),
      ...['payments', 'mails', 'status-500', 'nightly'].map(filter => ({
        ...{ alertname: 'FilterGrowing', severity: 'warning' },
        ...{ cluster: 'eu', namespace: 'shop', account: 'one', filter },
      })),
    ],
    sent: ['default: DeliveryDlqGrowing FilterGrowing FilterGrowing FilterGrowing FilterGrowing'],
  },
  'two accounts with different incidents': {
    fires: [...ofAccount('one', ['DeliveryTokenRejected']), ...ofAccount('two', ['DeliveryBlind'])],
    sent: ['urgent: DeliveryBlind DeliveryTokenRejected'],
  },
  'all tokens rejected at once': {
    fires: ACCOUNTS.flatMap(account => ofAccount(account, ['DeliveryTokenRejected', 'DeliveryBlind'])),
    sent: ['urgent: DeliveryTokenRejected DeliveryTokenRejected DeliveryTokenRejected'],
  },
  'an event log that lags': {
    fires: ofAccount('one', ['DeliveryEventLogStale', 'DeliveryScheduleMissed', 'DeliveryScheduleLate']),
    sent: ['default: DeliveryEventLogStale'],
  },
  'an account with the same name in another namespace': {
    fires: [
      ...ofAccount('one', ['DeliveryTokenRejected']),
      ...ofAccount('one', ['DeliveryDlqGrowing'], { namespace: 'stage' }),
    ],
    sent: ['default: DeliveryDlqGrowing', 'urgent: DeliveryTokenRejected'],
  },
};

describe('notifications about incidents', () => {
  it('deploy/alertmanager.yml refers only to existing alerts', () => {
    const named = shipped()
      .inhibit_rules.flatMap(({ source_matchers: source, target_matchers: target }) => [...source, ...target])
      .flatMap(matcher => matcher.match(/Delivery\w+/g) ?? []);
    expect(named.length).toBeGreaterThan(10);
    expect(named.filter(name => !ruleLabels.has(name))).toEqual([]);
  });

  it.skipIf(!requireProgram(ALERTMANAGER))(
    'an Alertmanager with deploy/alertmanager.yml sends each expected notification of an incident once, and no others',
    async () => {
      const receivers = await startReceivers();
      const { url } = await startAlertmanager(receivers.url, faster(60, receivers.url));
      const post = async (alerts: readonly Labels[]) => {
        const answer = await fetch(`${url}/api/v2/alerts`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify(alerts.map(labels => ({ labels }))),
        });
        expect(answer.status).toBe(200);
      };
      // Each incident has a different job label, so labels of two incidents are never equal.
      await post(Object.entries(incidents).flatMap(([job, { fires }]) => fires.map(labels => ({ ...labels, job }))));
      // Alertmanager delays a group's notifications. Once those of two groups posted later have arrived, no earlier one is
      // pending.
      await eventually(() => expect(receivers.inJob('a rejected token')).not.toEqual([]));
      for (const job of ['a later group', 'the last group']) {
        await post([{ alertname: 'Last', severity: 'critical', job }]);
        await eventually(() => expect(receivers.inJob(job)).toEqual(['urgent: Last']));
      }
      expect(Object.fromEntries(Object.keys(incidents).map(name => [name, receivers.inJob(name)]))).toEqual(
        Object.fromEntries(Object.entries(incidents).map(([name, { sent }]) => [name, sent])),
      );
    },
  );
});
