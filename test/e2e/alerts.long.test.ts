import { createHmac } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { describe, expect, it } from 'vitest';
import type { Emulator } from '../../src/emulator/server.ts';
import { Secret } from '../../src/kit/secret.ts';
import { createAlertmanager } from '../../src/notify/notifiers/alertmanager.ts';
import { createPost } from '../../src/upstream/post.ts';
import { createDeliveryScene } from '../rules/alerting-scene.ts';
import { createAgent, unlimited } from '../support/agent.ts';
import { ALERTMANAGER, startAlertmanager } from '../support/alertmanager.ts';
import { afterThisTest } from '../support/client.ts';
import { emulateEmpty } from '../support/emulate.ts';
import { eventually } from '../support/eventually.ts';
import { serve } from '../support/http-service.ts';
import { startPagerduty } from '../support/pagerduty.ts';
import { parseExposition } from '../support/parse-exposition.ts';
import { requireProgram } from '../support/prometheus.ts';

const SECRET = 'hook-secret-canary';
const ROUTING_KEY = 'canary00000000000000000000000000';

interface Delivery {
  readonly key: string;
  readonly status: string;
  readonly startsAt: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly fingerprint: string;
}

/**
 * Starts a webhook receiver that records deliveries, once per idempotency key. `status`: its response status, 200 by
 * default.
 */
async function startHook() {
  const received: Delivery[] = [];
  const hook = { received, status: 200, url: '', requests: 0 };
  function handle(request: IncomingMessage, response: ServerResponse): void {
    let text = '';
    request.setEncoding('utf8').on('data', chunk => {
      text += chunk;
    });
    request.on('end', () => {
      hook.requests += 1;
      const { headers } = request;
      const signed = `${headers['x-delivery-watch-timestamp']}.${text}`;
      const isOurs =
        headers['x-delivery-watch-signature'] === `sha256=${createHmac('sha256', SECRET).update(signed).digest('hex')}`;
      if (hook.status === 200 && isOurs) {
        const key = String(headers['idempotency-key']);
        const [alert] = JSON.parse(text).alerts;
        if (!received.some(each => each.key === key)) received.push({ ...alert, key });
      }
      response.writeHead(isOurs ? hook.status : 401).end();
    });
  }
  const service = await serve(handle);
  hook.url = `${service.url}/url-canary`;
  return hook;
}

function createAlerting(emulator: Emulator, notifiers: readonly object[], more: object = {}, secret = SECRET) {
  const above = (value: number) => ({ above: { metric: 'delivery_dlq_messages', value } });
  const config = {
    accounts: [unlimited('a', emulator.url)],
    collect: { dlq: { every: '200ms', rescanEvery: '500ms' } },
    alerts: {
      enabled: true,
      builtin: null,
      evaluateEvery: '200ms',
      rules: [
        { name: 'Any', when: above(0), annotations: { summary: '{{ $value }} in {{ $labels.account }}' } },
        { name: 'Many', when: above(5), for: '1h' },
      ],
      notifiers,
    },
    ...more,
  };
  const agent = createAgent(config, { DELIVERY_TOKEN: emulator.token, HOOK_SECRET: secret });
  /** Kills the agent and returns its log. */
  async function kill(): Promise<string> {
    await agent.end();
    return agent.process.stderr();
  }
  return { start: agent.start, end: agent.end, get: agent.get, value: agent.value, kill };
}

const hookAt = (url: string) => ({ name: 'hook', webhook: { url, secret: { env: 'HOOK_SECRET' }, groupWait: '0s' } });

describe('alerts after an agent is killed', () => {
  it('alerts of a killed agent are delivered at least once each, in order and with an unchanged start time', async () => {
    const [emulator, hook] = [await emulateEmpty(), await startHook()];
    const agent = createAlerting(emulator, [hookAt(hook.url)]);
    let log = '';
    for (let round = 0; round < 3; round += 1) {
      const id = emulator.state.addDlqEntry();
      // The agent is killed before a notification is accepted.
      hook.status = 503;
      const requests = hook.requests;
      await agent.start();
      await eventually(() => expect(hook.requests).toBeGreaterThan(requests));
      log += await agent.kill();
      hook.status = 200;
      await agent.start();
      await eventually(() => expect(hook.received).toHaveLength(2 * round + 1));
      log += await agent.kill();
      // Remove the entry while no agent runs.
      emulator.state.removeDlqEntry(id);
      await agent.start();
      await eventually(() => expect(hook.received).toHaveLength(2 * round + 2));
      log += await agent.kill();
    }
    expect(hook.received.map(({ status }) => status)).toEqual(
      Array.from({ length: 3 }, () => ['firing', 'resolved']).flat(),
    );
    for (let round = 0; round < 3; round += 1) {
      const [begin, end] = hook.received.slice(2 * round) as [Delivery, Delivery];
      expect(end.startsAt).toBe(begin.startsAt);
      expect(begin.key).toMatch(new RegExp(`^${begin.fingerprint}:firing:`));
      expect(begin.labels).toEqual({ alertname: 'Any', account: 'a' });
    }
    expect(new Set(hook.received.map(({ key }) => key)).size).toBe(6);
    expect(log).not.toContain('canary');
  });

  it('a group of alerts is sent as one notification, and repeated unchanged if the agent dies before it receives the response', async () => {
    const emulators = [await emulateEmpty(), await emulateEmpty()];
    const bodies: { readonly key: string; readonly text: string }[] = [];
    let isAnswering = false;
    const service = await serve((request, response) => {
      let text = '';
      request.setEncoding('utf8').on('data', chunk => {
        text += chunk;
      });
      request.on('end', () => {
        bodies.push({ key: String(request.headers['idempotency-key']), text });
        if (isAnswering) response.end();
      });
    });
    const webhook = { url: service.url, groupBy: ['alertname'], groupWait: '2s' };
    const accounts = emulators.map(({ url }, index) => ({
      ...unlimited(`account-${index}`, url),
      token: { env: `TOKEN_${index}` },
    }));
    const collect = { dlq: { every: '200ms' }, flowControl: { enabled: false }, events: { enabled: false } };
    const rules = [{ name: 'Any', when: { above: { metric: 'delivery_dlq_messages', value: 0 } } }];
    const agent = createAgent(
      {
        accounts,
        collect,
        alerts: { enabled: true, builtin: null, evaluateEvery: '200ms', rules, notifiers: [{ name: 'hook', webhook }] },
      },
      Object.fromEntries(emulators.map(({ token }, index) => [`TOKEN_${index}`, token])),
    );
    for (const emulator of emulators) emulator.state.addDlqEntry();
    await agent.start();
    // Both alerts fire, and the agent stops during the group wait.
    await eventually(async () => expect(JSON.parse(await agent.get('/api/v1/alerts'))).toHaveLength(2));
    await agent.end();
    expect(bodies).toEqual([]);
    await agent.start();
    await eventually(() => expect(bodies).toHaveLength(1));
    await agent.end();
    isAnswering = true;
    await agent.start();
    await eventually(() => expect(bodies).toHaveLength(2));
    // The agent has recorded the delivery; the next change is sent as a separate notification.
    await eventually(async () =>
      expect(await agent.value('delivery_watch_notifications_total', { notifier: 'hook', outcome: 'sent' })).toBe(1),
    );
    emulators[0]?.state.removeDlqEntry(emulators[0].state.dlqRows()[0]?.dlqId ?? '');
    await eventually(() => expect(bodies).toHaveLength(3));
    expect(bodies[1]).toEqual(bodies[0]);
    const alertsOf = (text = '') =>
      (JSON.parse(text).alerts as Delivery[]).map(({ status, labels }) => `${status} ${labels.account}`);
    expect(alertsOf(bodies[0]?.text).sort()).toEqual(['firing account-0', 'firing account-1']);
    expect(alertsOf(bodies[2]?.text)).toEqual(['resolved account-0', 'firing account-1']);
    expect(bodies[2]?.key).not.toBe(bodies[1]?.key);
  });

  it('one PagerDuty alert is opened and resolved even if the agent dies before it receives the response', async () => {
    const [emulator, pagerduty] = [await emulateEmpty(), await startPagerduty(ROUTING_KEY)];
    const webhook = { url: pagerduty.url, format: 'pagerduty', secret: { env: 'HOOK_SECRET' } };
    const agent = createAlerting(emulator, [{ name: 'pd', webhook }], {}, ROUTING_KEY);
    const id = emulator.state.addDlqEntry();
    pagerduty.isSilent = true;
    await agent.start();
    await eventually(() => expect(pagerduty.events).toHaveLength(1));
    let log = await agent.kill();
    pagerduty.isSilent = false;
    await agent.start();
    await eventually(() => expect(pagerduty.events).toHaveLength(2));
    emulator.state.removeDlqEntry(id);
    await eventually(() => expect(pagerduty.events).toHaveLength(3));
    log += await agent.kill();
    expect(pagerduty.events.map(({ event_action }) => event_action)).toEqual(['trigger', 'trigger', 'resolve']);
    expect(pagerduty.events[1]).toEqual(pagerduty.events[0]);
    expect(pagerduty).toMatchObject({ errors: [], opened: 1, open: new Set() });
    expect(log).not.toContain(ROUTING_KEY);
  });

  it('alerts are exposed and counted, and the agent exits with code 0 on SIGTERM', async () => {
    const [emulator, hook] = [await emulateEmpty(), await startHook()];
    for (let count = 0; count < 6; count += 1) emulator.state.addDlqEntry();
    const agent = createAlerting(emulator, [hookAt(hook.url)]);
    await agent.start();
    const text = agent.get;
    await eventually(() => expect(hook.received).toHaveLength(1));
    await eventually(async () => {
      const alerts = JSON.parse(await text('/api/v1/alerts'));
      expect(alerts).toEqual([
        {
          state: 'firing',
          labels: { alertname: 'Any', account: 'a' },
          annotations: { summary: '6 in a' },
          value: 6,
          startsAt: hook.received[0]?.startsAt,
        },
        {
          state: 'pending',
          labels: { alertname: 'Many', account: 'a' },
          annotations: { summary: 'delivery_dlq_messages of a is 6, above 5.' },
          value: 6,
        },
      ]);
    });
    expect((await text('/')).replace(/<[^>]*>|\s/g, '')).toMatch(/FiringalertsfiringAnya6ina/);
    const metrics = await text('/metrics');
    const families = new Map(parseExposition(metrics, 'text').map(({ name, samples }) => [name, samples]));
    expect(families.get('delivery_watch_alerts')).toEqual([
      expect.objectContaining({ labels: { account: 'a', alert: 'Any', state: 'pending' }, value: 0 }),
      expect.objectContaining({ labels: { account: 'a', alert: 'Any', state: 'firing' }, value: 1 }),
      expect.objectContaining({ labels: { account: 'a', alert: 'Any', state: 'silenced' }, value: 0 }),
      expect.objectContaining({ labels: { account: 'a', alert: 'Any', state: 'beyond_cap' }, value: 0 }),
      expect.objectContaining({ labels: { account: 'a', alert: 'Many', state: 'pending' }, value: 1 }),
      expect.objectContaining({ labels: { account: 'a', alert: 'Many', state: 'firing' }, value: 0 }),
      expect.objectContaining({ labels: { account: 'a', alert: 'Many', state: 'silenced' }, value: 0 }),
      expect.objectContaining({ labels: { account: 'a', alert: 'Many', state: 'beyond_cap' }, value: 0 }),
    ]);
    expect(families.get('delivery_watch_notifications_total')).toEqual([
      expect.objectContaining({ labels: { notifier: 'hook', outcome: 'sent' }, value: 1 }),
      expect.objectContaining({ labels: { notifier: 'hook', outcome: 'failed' }, value: 0 }),
      expect.objectContaining({ labels: { notifier: 'hook', outcome: 'dropped' }, value: 0 }),
    ]);
    expect(await agent.end('SIGTERM')).toBe(0);
  });

  it('alerts keep firing while requests to the service fail', async () => {
    const [emulator, hook] = [await emulateEmpty(), await startHook()];
    emulator.state.addDlqEntry();
    const agent = createAlerting(emulator, [hookAt(hook.url)], { staleness: { markAfter: 1, withdrawAfter: 1 } });
    const url = await agent.start();
    await eventually(() => expect(hook.received).toHaveLength(1));
    emulator.faults.add({ endpoint: 'GET /v2/dlq', kind: 'status', status: 500 });
    /** Waits until data is withdrawn and several requests have failed, and expects that the alert still fires. */
    async function failAt(at: string): Promise<void> {
      await eventually(async () => {
        const text = await (await fetch(`${at}/metrics`)).text();
        expect(text).not.toContain('delivery_dlq_messages{');
        expect(Number(/requests_total{.*"dlq",outcome="server"} (\d+)/.exec(text)?.[1])).toBeGreaterThan(8);
      });
      const alerts = (await (await fetch(`${at}/api/v1/alerts`)).json()) as { state: string }[];
      expect(alerts.map(({ state }) => state)).toEqual(['firing']);
    }
    await failAt(url);
    // A new process without data also keeps the alert firing.
    await agent.kill();
    await failAt(await agent.start());
    expect(hook.received).toHaveLength(1);
    emulator.faults.clear();
    for (const { dlqId } of emulator.state.dlqRows()) emulator.state.removeDlqEntry(dlqId);
    await eventually(() => expect(hook.received.map(({ status }) => status)).toEqual(['firing', 'resolved']));
  });
});

describe.skipIf(!requireProgram(ALERTMANAGER))('Alertmanager', () => {
  it('an Alertmanager receives firing and resolved alerts with the agent’s fingerprints while another cluster member is down', async () => {
    const [emulator, hook] = [await emulateEmpty(), await startHook()];
    // Receives notifications from Alertmanager, which does not sign its requests.
    const received: { status: string; alerts: Delivery[] }[] = [];
    const service = await serve((request, response) => {
      let text = '';
      request.setEncoding('utf8').on('data', chunk => {
        text += chunk;
      });
      request.on('end', () => {
        received.push(JSON.parse(text));
        response.end();
      });
    });
    const alertmanager = await startAlertmanager(service.url);
    const urls = ['http://127.0.0.1:1', alertmanager.url];
    const agent = createAlerting(emulator, [{ name: 'ops', alertmanager: { urls } }, hookAt(hook.url)]);
    const id = emulator.state.addDlqEntry();
    await agent.start();
    const [firing] = await eventually(async () => {
      const alerts = await alertmanager.alerts();
      expect(alerts).toHaveLength(1);
      return alerts;
    });
    await eventually(() => expect(hook.received).toHaveLength(1));
    const [direct] = hook.received;
    expect(firing).toMatchObject({
      labels: { alertname: 'Any', account: 'a' },
      annotations: { summary: '1 in a' },
      fingerprint: direct?.fingerprint,
    });
    // Compare as instants: Alertmanager omits trailing zeros of fractional seconds.
    expect(Date.parse(firing?.startsAt ?? '')).toBe(Date.parse(direct?.startsAt ?? ''));
    // `endsAt` is four minutes after the last notification, so that the alert resolves if the agent stops.
    const left = Date.parse(firing?.endsAt ?? '') - Date.now();
    expect(left).toBeGreaterThan(150_000);
    expect(left).toBeLessThanOrEqual(240_000);
    // A restarted agent sends the same alert.
    await agent.kill();
    await agent.start();
    emulator.state.removeDlqEntry(id);
    await eventually(async () => expect(await alertmanager.alerts()).toEqual([]));
    await eventually(() => expect(received.map(({ status }) => status)).toEqual(['firing', 'resolved']));
    await eventually(() => expect(hook.received).toHaveLength(2));
    // Except for `generatorURL`, Alertmanager forwards the alert as the agent sends it.
    const [viaAlertmanager] = received[0]?.alerts ?? [];
    const { key: _key, ...ours } = direct as Delivery;
    const withInstant = (alert: Delivery | undefined) => ({ ...alert, startsAt: Date.parse(alert?.startsAt ?? '') });
    expect(withInstant(viaAlertmanager)).toEqual({
      ...withInstant(ours as Delivery),
      generatorURL: viaAlertmanager && 'generatorURL' in viaAlertmanager ? '' : undefined,
    });
  });

  it('an Alertmanager gets every start and end of an alert, although the agent is killed at each step', async () => {
    const emulator = await emulateEmpty();
    const received: string[] = [];
    const service = await serve((request, response) => {
      let text = '';
      request.setEncoding('utf8').on('data', chunk => {
        text += chunk;
      });
      request.on('end', () => {
        received.push(JSON.parse(text).status);
        response.end();
      });
    });
    const alertmanager = await startAlertmanager(service.url);
    const agent = createAlerting(emulator, [{ name: 'ops', alertmanager: { urls: [alertmanager.url] } }]);
    const shown = (count: number) => eventually(async () => expect(await alertmanager.alerts()).toHaveLength(count));
    const failed = () => agent.value('delivery_watch_notifications_total', { notifier: 'ops', outcome: 'failed' });
    const states: string[] = [];
    for (let round = 0; round < 2; round += 1) {
      // Killed as soon as Alertmanager has the alert: the agent may not have logged it.
      const id = emulator.state.addDlqEntry();
      await agent.start();
      await shown(1);
      await agent.kill();
      // The alert ends while no agent runs. Killed while Alertmanager is down, and as soon as it has the resolution.
      emulator.state.removeDlqEntry(id);
      await eventually(() => expect(received.at(-1)).toBe('firing'));
      const notifiedAt = Date.now();
      await eventually(() => expect(alertmanager.savedAt()).toBeGreaterThan(notifiedAt));
      await alertmanager.kill();
      await agent.start();
      await eventually(async () => expect(await failed()).toBeGreaterThan(0));
      await agent.kill();
      await alertmanager.startAgain();
      await agent.start();
      await eventually(() => expect(received.at(-1)).toBe('resolved'));
      await agent.kill();
      states.push('firing', 'resolved');
    }
    expect(received).toEqual(states);
  });

  it('an Alertmanager accepts the valid alerts of a batch with an invalid one, and only the invalid one is refused', async () => {
    const hook = await startHook();
    const alertmanager = await startAlertmanager(hook.url);
    const { post, close } = createPost();
    afterThisTest(close);
    const deps = { notifier: 'ops', selects: () => true, post, now: Date.now, holdsFor: 240_000, externalUrl: '' };
    const scene = await createDeliveryScene(createAlertmanager({ ...deps, urls: [new Secret(alertmanager.url)] }));
    const startsAt = Date.now();
    for (const x of ['1', '3']) scene.begin(x, { startsAt });
    // An alert without labels is invalid.
    scene.begin('2', { startsAt, labels: {} });
    await scene.deliver();
    expect(scene.counts).toEqual({ 'ops sent': 2, 'ops failed': 1 });
    expect((await alertmanager.alerts()).map(({ labels }) => labels.x).sort()).toEqual(['1', '3']);
  });
});
