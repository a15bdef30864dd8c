import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { alertGroups } from '../../mixin/rules.ts';
import { ALERTMANAGER, startAlertmanager } from '../support/alertmanager.ts';
import { eventually } from '../support/eventually.ts';
import { serve } from '../support/http-service.ts';
import { requireProgram } from '../support/prometheus.ts';

interface Route {
  readonly routes?: readonly Route[];
  readonly group_wait?: string;
  readonly group_interval?: string;
}
interface Config {
  readonly route: Route;
  readonly inhibit_rules: readonly Readonly<Record<'source_matchers' | 'target_matchers', readonly string[]>>[];
  readonly receivers: readonly { readonly name: string; readonly webhook_configs?: readonly { url: string }[] }[];
}
const shipped = (): Config => parse(readFileSync('deploy/alertmanager.yml', 'utf8'));

type Labels = Readonly<Record<string, string>>;
/** Labels that rules set, by alert. */
const ruleLabels = new Map<string, Labels>(
  alertGroups.flatMap(({ alerts }) =>
    alerts.map(({ name, severity, collector }) => [name, { severity, ...(collector && { collector }) }]),
  ),
);
/** Labels of a shipped alert, with those that its rule sets. */
function shippedAlert(alertname: string, labels: Labels): Labels {
  const set = ruleLabels.get(alertname);
  if (set === undefined) throw new Error(`there is no alert ${alertname}`);
  return { alertname, ...set, ...labels };
}
const ofAccount = (account: string, names: readonly string[], more: Labels = {}) =>
  names.map(name => shippedAlert(name, { cluster: 'eu', namespace: 'shop', account, ...more }));

const ACCOUNTS = ['one', 'two', 'three'];

/** What fires in an incident, and whom it must tell, each once, and of which alerts. */
const incidents: Readonly<Record<string, { readonly fires: readonly Labels[]; readonly told: readonly string[] }>> = {
  'a refused token': {
    fires: [
      ...ofAccount('one', ['DeliveryTokenRejected', 'DeliveryBlind', 'DeliveryDlqGrowing', 'DeliveryRetryRatioHigh']),
    ],
    told: ['urgent: DeliveryTokenRejected'],
  },
  'an outage of all accounts': {
    fires: [
      shippedAlert('DeliveryServiceUnavailable', { cluster: 'eu', namespace: 'shop' }),
      ...ACCOUNTS.flatMap(account => ofAccount(account, ['DeliveryBlind', 'DeliveryCollectorStale'])),
      ...ofAccount('two', ['DeliveryErrorBudgetFastBurn', 'DeliveryDlqGrowing']),
    ],
    told: ['urgent: DeliveryServiceUnavailable'],
  },
  'no agent': {
    fires: [
      // absent() gives no labels of targets.
      shippedAlert('DeliveryAgentDown', { cluster: 'eu' }),
      ...ACCOUNTS.flatMap(account => ofAccount(account, ['DeliveryAccountMissing'])),
      ...ofAccount('two', ['DeliveryErrorBudgetFastBurn', 'DeliveryDlqGrowing']),
    ],
    told: ['urgent: DeliveryAgentDown'],
  },
  'one of several agents': {
    fires: [
      ...['DeliveryInstanceDown', 'DeliveryAgentCrashLooping'].map(name =>
        shippedAlert(name, { cluster: 'eu', namespace: 'shop', instance: 'one:10922' }),
      ),
      ...ACCOUNTS.flatMap(account => ofAccount(account, ['DeliveryAccountMissing'])),
    ],
    told: [
      'default: DeliveryAgentCrashLooping',
      'urgent: DeliveryAccountMissing DeliveryAccountMissing DeliveryAccountMissing',
    ],
  },
  'no agent, and targets with the label cluster': {
    fires: [
      shippedAlert('DeliveryAgentDown', {}),
      ...ACCOUNTS.flatMap(account => ofAccount(account, ['DeliveryAccountMissing'])),
    ],
    told: ['urgent: DeliveryAgentDown'],
  },
  'no agent of one of two clusters with an Alertmanager in common': {
    fires: [
      shippedAlert('DeliveryAgentDown', { cluster: 'us' }),
      ...ofAccount('one', ['DeliveryDlqGrowing']),
      ...ofAccount('two', ['DeliveryDlqGrowing'], { cluster: 'us' }),
    ],
    told: ['default: DeliveryDlqGrowing', 'urgent: DeliveryAgentDown'],
  },
  'a full disk of one agent, and an account of another that is not read': {
    fires: [
      shippedAlert('DeliveryStoreFailing', { cluster: 'eu', namespace: 'shop', instance: 'one:10922' }),
      ...ofAccount('two', ['DeliveryBlind'], { collector: 'dlq' }),
    ],
    told: ['urgent: DeliveryBlind', 'urgent: DeliveryStoreFailing'],
  },
  'a dead-letter queue that is not read, and an event log that is': {
    fires: [
      ...ofAccount('one', ['DeliveryBlind'], { collector: 'dlq' }),
      ...ofAccount('one', ['DeliveryDlqGrowing', 'DeliveryRetryRatioHigh', 'DeliveryRequestBudgetLow']),
    ],
    told: ['default: DeliveryRequestBudgetLow DeliveryRetryRatioHigh', 'urgent: DeliveryBlind'],
  },
  'a first dead letter, which is worth knowing': {
    fires: ofAccount('one', ['DeliveryDlqFirstEntry', 'DeliveryDlqNewKind']),
    told: [],
  },
  'two accounts that are not read': {
    fires: [
      ...ofAccount('one', ['DeliveryBlind'], { collector: 'dlq' }),
      ...ofAccount('two', ['DeliveryBlind'], { collector: 'dlq' }),
      ...ofAccount('one', ['DeliveryListsMissing'], { collector: 'dlq' }),
    ],
    told: ['urgent: DeliveryBlind DeliveryBlind'],
  },
  'many failures': {
    fires: ofAccount('one', [
      'DeliveryErrorBudgetFastBurn',
      'DeliveryErrorBudgetSlowBurn',
      'DeliveryDlqArrivalRatioHigh',
    ]),
    told: ['urgent: DeliveryErrorBudgetFastBurn'],
  },
  'dead letters that four filters match': {
    fires: [
      ...ofAccount('one', ['DeliveryDlqGrowing', 'DeliveryDlqFirstEntry']),
      ...['payments', 'mails', 'status-500', 'nightly'].map(filter => ({
        ...{ alertname: 'FilterGrowing', severity: 'warning' },
        ...{ cluster: 'eu', namespace: 'shop', account: 'one', filter },
      })),
    ],
    told: ['default: DeliveryDlqGrowing FilterGrowing FilterGrowing FilterGrowing FilterGrowing'],
  },
  'two accounts, each with its own': {
    fires: [...ofAccount('one', ['DeliveryTokenRejected']), ...ofAccount('two', ['DeliveryBlind'])],
    told: ['urgent: DeliveryBlind DeliveryTokenRejected'],
  },
  'all tokens refused at once': {
    fires: ACCOUNTS.flatMap(account => ofAccount(account, ['DeliveryTokenRejected', 'DeliveryBlind'])),
    told: ['urgent: DeliveryTokenRejected DeliveryTokenRejected DeliveryTokenRejected'],
  },
  'an event log that lags': {
    fires: ofAccount('one', ['DeliveryEventLogStale', 'DeliveryScheduleMissed', 'DeliveryScheduleLate']),
    told: ['default: DeliveryEventLogStale'],
  },
  'an account of the same name elsewhere': {
    fires: [
      ...ofAccount('one', ['DeliveryTokenRejected']),
      ...ofAccount('one', ['DeliveryDlqGrowing'], { namespace: 'stage' }),
    ],
    told: ['default: DeliveryDlqGrowing', 'urgent: DeliveryTokenRejected'],
  },
};

const hasten = ({ routes = [], ...route }: Route): Route => ({
  ...route,
  group_wait: '1s',
  group_interval: '1s',
  routes: routes.map(hasten),
});

/** The shipped configuration, whose receivers are at a webhook, by their names. It does not wait for minutes. */
function inFastMotion(url: string): object {
  const { route, receivers, ...config } = shipped();
  return {
    ...config,
    route: hasten(route),
    receivers: receivers.map(({ name, webhook_configs: webhooks }) => ({
      name,
      ...(webhooks && { webhook_configs: [{ url: `${url}/${name}` }] }),
    })),
  };
}

/** What receivers are told, as `receiver: names of alerts`, by job. */
async function startReceivers() {
  const told: { readonly job: string; readonly text: string }[] = [];
  const service = await serve((request, response) => {
    let body = '';
    request.setEncoding('utf8').on('data', chunk => {
      body += chunk;
    });
    request.on('end', () => {
      const { alerts }: { alerts: { labels: Labels }[] } = JSON.parse(body);
      const names = alerts.map(({ labels }) => labels.alertname).sort();
      told.push({ job: alerts[0]?.labels.job ?? '', text: `${request.url?.slice(1)}: ${names.join(' ')}` });
      response.end();
    });
  });
  return {
    url: service.url,
    of: (incident: string) => told.flatMap(({ job, text }) => (job === incident ? [text] : [])).sort(),
  };
}

describe('deploy/alertmanager.yml', () => {
  it('names only alerts that there are', () => {
    const named = shipped()
      .inhibit_rules.flatMap(({ source_matchers: source, target_matchers: target }) => [...source, ...target])
      .flatMap(matcher => matcher.match(/Delivery\w+/g) ?? []);
    expect(named.length).toBeGreaterThan(10);
    expect(named.filter(name => !ruleLabels.has(name))).toEqual([]);
  });

  it.skipIf(!requireProgram(ALERTMANAGER))('tells of one incident once', async () => {
    const receivers = await startReceivers();
    const { url } = await startAlertmanager(receivers.url, inFastMotion(receivers.url));
    const post = async (alerts: readonly Labels[]) => {
      const answer = await fetch(`${url}/api/v2/alerts`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(alerts.map(labels => ({ labels }))),
      });
      expect(answer.status).toBe(200);
    };
    // Each incident is a job of its own: labels of different jobs are never equal.
    await post(Object.entries(incidents).flatMap(([job, { fires }]) => fires.map(labels => ({ ...labels, job }))));
    // Groups notify when they have waited: those of this one do so after all of the others, twice.
    await eventually(() => expect(receivers.of('a refused token')).not.toEqual([]));
    for (const job of ['once more', 'and again']) {
      await post([{ alertname: 'Last', severity: 'critical', job }]);
      await eventually(() => expect(receivers.of(job)).toEqual(['urgent: Last']));
    }
    expect(Object.fromEntries(Object.keys(incidents).map(name => [name, receivers.of(name)]))).toEqual(
      Object.fromEntries(Object.entries(incidents).map(([name, { told }]) => [name, told])),
    );
  });
});
