import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { startAgent } from '../../src/agent/agent.ts';
import { Config } from '../../src/config/schema.ts';
import type { Destination } from '../../src/emulator/destinations.ts';
import type { Emulator } from '../../src/emulator/server.ts';
import { acceleratedClock, type Clock, systemClock } from '../../src/kit/clock.ts';
import { startAgent as startProcess, unlimited } from '../support/agent.ts';
import { ALERTMANAGER, type Alertmanager, startAlertmanager } from '../support/alertmanager.ts';
import { afterThisTest } from '../support/client.ts';
import { emulate } from '../support/emulate.ts';
import { eventually } from '../support/eventually.ts';
import { newFolder } from '../support/folder.ts';
import { serve } from '../support/http-service.ts';
import { requireProgram, startPrometheus } from '../support/prometheus.ts';
import { faster, startReceivers } from '../support/shipped-alertmanager.ts';

interface ReceivedAlert {
  readonly status: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

/** Starts a webhook receiver that records the alerts that Alertmanager sends. */
async function startReceiver() {
  const received: ReceivedAlert[] = [];
  const service = await serve((request, response) => {
    let text = '';
    request.setEncoding('utf8').on('data', chunk => {
      text += chunk;
    });
    request.on('end', () => {
      received.push(...JSON.parse(text).alerts);
      response.end();
    });
  });
  return { url: service.url, of: (name: string) => received.filter(({ labels }) => labels.alertname === name) };
}

/** Runs the scenario dlq-growth at ten minutes per second until `heal` is called. */
async function startGrowth() {
  const emulator = await emulate({ scenario: 'dlq-growth', speed: 0, history: 0, dlqEntries: 0 });
  let grows = true;
  const growing = (async () => {
    while (grows) {
      emulator.clock.advance(60_000);
      await sleep(100);
    }
  })();
  const end = () => {
    grows = false;
    return growing;
  };
  afterThisTest(end);
  return {
    emulator,
    async heal() {
      await end();
      emulator.state.current();
      for (const { dlqId } of emulator.state.dlqRows()) emulator.state.removeDlqEntry(dlqId);
    },
  };
}

async function watch(emulator: Emulator, more: object = {}): Promise<string> {
  const config = {
    accounts: [unlimited('shop', emulator.url)],
    collect: {
      flowControl: { every: '1s' },
      dlq: { every: '500ms', rescanEvery: '1s' },
      events: { every: '1s', overlap: '1s' },
    },
    ...more,
  };
  return new URL((await startProcess(config, emulator.token)).url).host;
}

const SECONDS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400 };

/** Returns the shipped rules with all durations divided by `speed`, but at least as long as four scrapes. */
function inFastMotion(rules: string, speed: number): string {
  const faster = (amount: string, unit: string, least: number) =>
    `${Math.max(least, Math.ceil((Number(amount) * (SECONDS[unit] ?? 1)) / speed))}s`;
  return rules
    .replace(/((?:for|interval): )(\d+)([smhd])\b/g, (_, key, amount, unit) => key + faster(amount, unit, 1))
    .replace(
      /([[:])(\d+)([smhd])(?=[:\]])/g,
      (_, sign, amount, unit) => sign + faster(amount, unit, sign === ':' ? 1 : 4),
    );
}

interface Chain {
  /** Seconds of agent, service, rules and Alertmanager per real second. Prometheus scrapes every real second. */
  readonly speed: number;
  readonly accounts?: number;
  destinations?(clock: Clock): readonly Destination[];
}

/**
 * Starts the emulator, the real agent, Prometheus with the default rules and Alertmanager with the shipped configuration. All of them
 * run at the same speed.
 */
async function startChain({ speed, accounts = 1, destinations }: Chain) {
  const clock = acceleratedClock(systemClock, speed);
  const workload = destinations
    ? { destinations: destinations(clock) }
    : { history: 0, workload: false, dlqEntries: 0 };
  const emulator = await emulate({ clock, ...workload });
  const receivers = await startReceivers();
  const alertmanager = await startAlertmanager(receivers.url, faster(speed, receivers.url));
  const every = '1m';
  const config = Config.parse({
    server: { listen: '127.0.0.1:0' },
    log: { level: 'error' },
    store: { kind: 'memory' },
    accounts: Array.from({ length: accounts }, (_, index) => ({
      ...unlimited(`account-${index}`, emulator.url),
      token: emulator.token,
    })),
    collect: { flowControl: { every }, dlq: { every }, events: { every } },
    alerts: { evaluateEvery: '30s' },
  });
  const loaded = { file: 'chain', config, hash: 'chain', warnings: [] };
  const agent = await startAgent(loaded, { env: {}, clock, random: Math.random });
  afterThisTest(() => agent.close());
  const file = join(newFolder(), 'alerting.yaml');
  writeFileSync(file, inFastMotion(readFileSync('dashboards/rules/alerting.yaml', 'utf8'), speed));
  const prometheus = await startPrometheus({
    scrapeConfigs: [{ job_name: 'delivery-watch', static_configs: [{ targets: [new URL(agent.url).host] }] }],
    config: {
      rule_files: [file],
      alerting: { alertmanagers: [{ static_configs: [{ targets: [new URL(alertmanager.url).host] }] }] },
    },
    flags: ['--rules.alert.resend-delay=1s'],
  });
  afterThisTest(() => prometheus.stop());
  const pass = (minutes: number) => sleep((minutes * 60_000) / speed);
  return { emulator, receivers, prometheus, clock, pass };
}

const MINUTE = 60_000;

/** Kills Alertmanager after it has saved its notification log, calls `heal` and restarts Alertmanager. */
async function restartWhileHealing(alertmanager: Alertmanager, heal: () => Promise<void>): Promise<void> {
  const notifiedAt = Date.now();
  await eventually(() => expect(alertmanager.savedAt()).toBeGreaterThan(notifiedAt));
  await alertmanager.kill();
  await heal();
  await sleep(3000);
  await alertmanager.startAgain();
}

describe.skipIf(!requireProgram('prometheus') || !requireProgram(ALERTMANAGER))('alerts from end to end', () => {
  it('an unavailable service with twenty accounts causes one firing and one resolved notification', async () => {
    const { emulator, receivers, pass } = await startChain({ speed: 20, accounts: 20 });
    await pass(5);
    emulator.faults.add({ kind: 'status', status: 503 });
    await eventually(() => expect(receivers.all()).toHaveLength(1));
    await pass(20);
    expect(receivers.all()).toEqual([expect.stringMatching(/^urgent:( DeliveryBlind){20,}$/)]);
    emulator.faults.clear();
    await eventually(() => expect(receivers.all()).toHaveLength(2));
    await pass(10);
    expect(receivers.all().slice(1)).toEqual([expect.stringMatching(/^urgent:( DeliveryBlind \(resolved\)){20,}$/)]);
  });

  it('at most three notifications are sent if one of three destinations fails for two hours', async () => {
    const [START, END] = [60 * MINUTE, 180 * MINUTE];
    const { receivers, prometheus, clock, pass } = await startChain({
      speed: 120,
      destinations(clock) {
        const start = clock.now();
        const isDown = () => clock.now() >= start + START && clock.now() < start + END;
        return ['orders', 'mails', 'reports'].map(name => ({
          fields: { method: 'POST', header: {}, maxRetries: 3, topicId: '', url: `https://${name}.example.com/` },
          everyMs: 30_000,
          takesMs: 300,
          get flaky() {
            return name === 'orders' && isDown() ? 1 : 0.005;
          },
          doomed: 0.001,
          statuses: [503],
        }));
      },
    });
    const end = clock.now() + END;
    await eventually(() => expect(receivers.all().join()).toContain('urgent: '), 200_000);
    while (clock.now() < end) await pass(5);
    await eventually(async () => {
      expect(await prometheus.query('ALERTS{alertstate="firing", severity="critical"}')).toEqual([]);
    }, 200_000);
    await pass(20);
    // Ten minutes are five seconds here, so Prometheus may start too slowly.
    const sent = receivers.all().filter(text => !text.includes('DeliveryAgentDown'));
    expect(sent.length, sent.join('\n')).toBeLessThanOrEqual(3);
    expect(sent.at(-1)).toMatch(/^urgent: Delivery(MessagesLate|ErrorBudgetFastBurn) \(resolved\)/);
  });

  it('a revoked token and its replacement cause two notifications, the second within two minutes', async () => {
    const { emulator, receivers, clock, pass } = await startChain({ speed: 10 });
    await pass(3);
    emulator.faults.add({ kind: 'status', status: 401 });
    await eventually(() => expect(receivers.all()).toEqual(['urgent: DeliveryTokenRejected']));
    await pass(5);
    emulator.faults.clear();
    const fixedAt = clock.now();
    await eventually(() => expect(receivers.all()).toHaveLength(2));
    expect(clock.now() - fixedAt).toBeLessThan(2 * MINUTE);
    await pass(5);
    expect(receivers.all()).toEqual(['urgent: DeliveryTokenRejected', 'urgent: DeliveryTokenRejected (resolved)']);
  });

  it('an alert of the agent and its resolution reach the receiver through Alertmanager without Prometheus', async () => {
    const receiver = await startReceiver();
    const alertmanager = await startAlertmanager(receiver.url);
    const { emulator, heal } = await startGrowth();
    const growth = { metric: 'delivery_dlq_messages', over: '5s', atLeast: 10 };
    await watch(emulator, {
      alerts: {
        enabled: true,
        builtin: null,
        evaluateEvery: '500ms',
        rules: [{ name: 'DlqGrowing', when: { growth }, for: '3s', labels: { severity: 'warning' } }],
        notifiers: [{ name: 'ops', alertmanager: { urls: [alertmanager.url] } }],
      },
    });
    await eventually(() => expect(receiver.of('DlqGrowing')).not.toEqual([]));
    expect(receiver.of('DlqGrowing')[0]).toMatchObject({
      status: 'firing',
      labels: { account: 'shop' },
    });
    await restartWhileHealing(alertmanager, heal);
    await eventually(() => expect(receiver.of('DlqGrowing').at(-1)?.status).toBe('resolved'));
  });
});
