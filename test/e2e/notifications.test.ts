import { describe, expect, it } from 'vitest';
import { NAMED } from '../../mixin/catalogue.ts';
import { alerts } from '../../mixin/rules.ts';
import { ALERTMANAGER, startAlertmanager } from '../support/alertmanager.ts';
import { eventually } from '../support/eventually.ts';
import { bothVersions } from '../support/newer-packages.ts';
import { faster, type Labels, shipped, startReceivers } from '../support/shipped-alertmanager.ts';

const kindOf = new Map(NAMED.map(({ alert, kinds }) => [alert as string, kinds[0]]));
const CRITICAL = new Set([
  ...['DeliveryAgentDown', 'DeliveryAccountMissing', 'DeliveryNoLeader', 'DeliveryTokenRejected', 'DeliveryBlind'],
  ...['DeliveryErrorBudgetFastBurn', 'DeliveryMessagesLate'],
]);
/** Returns the labels of a shipped alert. A name in lower case is the kind of a DeliveryProblem. */
function shippedAlert(name: string, labels: Labels): Labels {
  if (name.startsWith('Delivery') && !alerts.some(({ alert }) => alert === name)) throw new Error(`no alert ${name}`);
  const alertname = name.startsWith('Delivery') ? name : 'DeliveryProblem';
  const kind = alertname === name ? kindOf.get(name) : name;
  return { alertname, severity: CRITICAL.has(name) ? 'critical' : 'warning', ...(kind && { kind }), ...labels };
}
const ofAccount = (account: string, names: readonly string[], more: Labels = {}) =>
  names.map(name => shippedAlert(name, { cluster: 'eu', namespace: 'shop', account, ...more }));
const ofAgent = (name: string, more: Labels = {}) => shippedAlert(name, { cluster: 'eu', namespace: 'shop', ...more });

const ACCOUNTS = ['one', 'two', 'three'];

/** Per incident, the alerts that fire and the notifications that receivers must get exactly once. */
const incidents: Readonly<Record<string, { readonly fires: readonly Labels[]; readonly sent: readonly string[] }>> = {
  'a rejected token': {
    fires: ofAccount('one', ['DeliveryTokenRejected', 'DeliveryBlind', 'DeliveryDlqGrowing', 'budget_low']),
    sent: ['urgent: DeliveryTokenRejected'],
  },
  'an outage of all accounts': {
    fires: [
      ...ACCOUNTS.flatMap(account => ofAccount(account, ['DeliveryBlind'])),
      ...ofAccount('two', ['DeliveryDlqGrowing', 'DeliveryScheduleFailing', 'waitlist_stalled']),
    ],
    sent: ['urgent: DeliveryBlind DeliveryBlind DeliveryBlind'],
  },
  'an outage of two of four accounts, and failing messages in an account that can be read': {
    fires: [
      ...['away', 'away-too'].flatMap(account => ofAccount(account, ['DeliveryBlind'])),
      ...ofAccount('read', ['DeliveryErrorBudgetFastBurn', 'DeliveryErrorBudgetSlowBurn']),
      ...ofAccount('also-read', ['DeliveryDlqGrowing']),
      ...ofAccount('rejected', ['DeliveryTokenRejected']),
    ],
    sent: [
      'default: DeliveryDlqGrowing',
      'urgent: DeliveryBlind DeliveryBlind',
      'urgent: DeliveryErrorBudgetFastBurn',
      'urgent: DeliveryTokenRejected',
    ],
  },
  'no agent': {
    fires: [
      // absent() returns no target labels.
      shippedAlert('DeliveryAgentDown', { cluster: 'eu' }),
      ofAgent('DeliveryInstanceDown', { instance: 'one:10922' }),
      ...ofAccount('two', ['DeliveryAccountMissing', 'DeliveryErrorBudgetFastBurn', 'DeliveryDlqGrowing']),
    ],
    sent: ['urgent: DeliveryAgentDown'],
  },
  'no agent, with the label cluster on targets only': {
    fires: [shippedAlert('DeliveryAgentDown', {}), ofAgent('DeliveryInstanceDown', { instance: 'one:10922' })],
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
  'one of two agents with different accounts': {
    fires: [
      ofAgent('DeliveryInstanceDown', { instance: 'one:10922' }),
      ...['one', 'two'].flatMap(account => ofAccount(account, ['DeliveryAccountMissing', 'DeliveryDlqGrowing'])),
      ...ofAccount('three', ['DeliveryErrorBudgetFastBurn']),
    ],
    sent: [
      'default: DeliveryInstanceDown',
      'urgent: DeliveryAccountMissing DeliveryAccountMissing',
      'urgent: DeliveryErrorBudgetFastBurn',
    ],
  },
  'no leader': {
    fires: [
      ofAgent('DeliveryNoLeader', { schema: 'public' }),
      ...ACCOUNTS.flatMap(account => ofAccount(account, ['DeliveryAccountMissing'])),
    ],
    sent: ['urgent: DeliveryNoLeader'],
  },
  'no leader of one of two groups, and an unreadable account of the other one': {
    fires: [ofAgent('DeliveryNoLeader', { schema: 'public' }), ...ofAccount('one', ['DeliveryBlind'])],
    sent: ['urgent: DeliveryBlind', 'urgent: DeliveryNoLeader'],
  },
  'no database': {
    fires: [
      ofAgent('database_away', { severity: 'critical' }),
      ofAgent('store_failing', { severity: 'critical' }),
      ofAgent('DeliveryNoLeader', { schema: 'public' }),
      ...ofAccount('one', ['DeliveryAccountMissing']),
    ],
    sent: ['urgent: DeliveryProblem'],
  },
  'an unreadable dead-letter queue with a readable event log': {
    fires: [
      ...ofAccount('one', ['DeliveryBlind'], { kind: 'data_stale', subject: 'dlq' }),
      ...ofAccount('one', ['DeliveryDlqGrowing', 'DeliveryErrorBudgetSlowBurn', 'budget_low']),
    ],
    sent: ['default: DeliveryErrorBudgetSlowBurn DeliveryProblem', 'urgent: DeliveryBlind'],
  },
  'an unreadable event log with a readable dead-letter queue': {
    fires: [
      ...ofAccount('one', ['DeliveryBlind'], { kind: 'data_stale', subject: 'events' }),
      ...ofAccount('one', ['DeliveryDlqGrowing', 'DeliveryErrorBudgetSlowBurn', 'DeliveryDestinationFailing']),
    ],
    sent: ['default: DeliveryDlqGrowing', 'urgent: DeliveryBlind'],
  },
  'problems of severity info': {
    fires: ofAccount('one', ['event_log_gap'], { severity: 'info' }),
    sent: [],
  },
  'messages that fail after retries': {
    fires: ofAccount('one', [
      ...['DeliveryErrorBudgetFastBurn', 'DeliveryErrorBudgetSlowBurn', 'DeliveryMessagesLate'],
      ...['DeliveryDestinationFailing', 'DeliveryDlqGrowing'],
    ]),
    sent: ['default: DeliveryDestinationFailing', 'urgent: DeliveryErrorBudgetFastBurn'],
  },
  'messages to one destination that fail at once': {
    fires: [
      ...ofAccount('one', ['DeliveryErrorBudgetFastBurn', 'DeliveryDlqGrowing']),
      ...ofAccount('one', ['DeliveryDestinationFailing'], { subject: 'pay.example.com' }),
    ],
    sent: ['default: DeliveryDestinationFailing', 'urgent: DeliveryErrorBudgetFastBurn'],
  },
  'dead letters matched by four filters': {
    fires: [
      ...ofAccount('one', ['DeliveryDlqGrowing']),
      ...['payments', 'mails', 'status-500', 'nightly'].map(filter => ({
        ...{ alertname: 'FilterGrowing', severity: 'warning' },
        ...{ cluster: 'eu', namespace: 'shop', account: 'one', filter },
      })),
    ],
    sent: ['default: DeliveryDlqGrowing FilterGrowing FilterGrowing FilterGrowing FilterGrowing'],
  },
  'all tokens rejected at once': {
    fires: ACCOUNTS.flatMap(account => ofAccount(account, ['DeliveryTokenRejected', 'DeliveryBlind'])),
    sent: ['urgent: DeliveryTokenRejected DeliveryTokenRejected DeliveryTokenRejected'],
  },
  'an event log that lags': {
    fires: ofAccount('one', ['event_log_behind', 'DeliveryScheduleFailing']),
    sent: ['default: DeliveryProblem'],
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
    expect(named.filter(name => !alerts.some(({ alert }) => alert === name))).toEqual([]);
  });

  it.each(bothVersions(ALERTMANAGER))(
    '%s with deploy/alertmanager.yml sends each expected notification of an incident once, and no others',
    async program => {
      const receivers = await startReceivers();
      const { url } = await startAlertmanager(receivers.url, faster(100, receivers.url), program);
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
      // Alertmanager delays a group's notifications. Once two groups posted later have notified, no notification is pending.
      await eventually(() => expect(receivers.inJob('a rejected token')).not.toEqual([]));
      for (const job of ['a later group', 'the last group']) {
        await post([{ alertname: 'Last', severity: 'warning', job }]);
        await eventually(() => expect(receivers.inJob(job)).toEqual(['default: Last']));
      }
      expect(Object.fromEntries(Object.keys(incidents).map(name => [name, receivers.inJob(name)]))).toEqual(
        Object.fromEntries(Object.entries(incidents).map(([name, { sent }]) => [name, sent])),
      );
    },
  );
});
