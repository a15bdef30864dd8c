import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import type { Emulator } from '../../src/emulator/server.ts';
import { startAgent, unlimited } from '../support/agent.ts';
import { ALERTMANAGER, type Alertmanager, startAlertmanager } from '../support/alertmanager.ts';
import { afterThisTest } from '../support/client.ts';
import { emulate } from '../support/emulate.ts';
import { eventually } from '../support/eventually.ts';
import { newFolder } from '../support/folder.ts';
import { serve } from '../support/http-service.ts';
import { requireProgram, startPrometheus } from '../support/prometheus.ts';

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
  return new URL((await startAgent(config, emulator.token)).url).host;
}

const SECONDS: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3600, d: 86_400 };
const FASTER = 120;

/** Returns the shipped rules with all durations divided by 120: half an hour becomes fifteen seconds. */
function inFastMotion(rules: string): string {
  const faster = (amount: string, unit: string) => `${Math.ceil((Number(amount) * (SECONDS[unit] ?? 1)) / FASTER)}s`;
  return rules
    .replace(
      /((?:for|keep_firing_for|interval): )(\d+)([smhd])\b/g,
      (_, key, amount, unit) => key + faster(amount, unit),
    )
    .replace(
      /\[(\d+)([smhd])\]/g,
      (_, amount, unit) => `[${faster(amount, unit) === '3s' ? '4s' : faster(amount, unit)}]`,
    )
    .replace(/offset (\d+)([smhd])\b/g, (_, amount, unit) => `offset ${faster(amount, unit)}`);
}

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
  it('an alert and its resolution reach the receiver through Prometheus (with the shipped rules) and Alertmanager', async () => {
    const receiver = await startReceiver();
    const alertmanager = await startAlertmanager(receiver.url);
    const { emulator, heal } = await startGrowth();
    const target = await watch(emulator);
    const folder = newFolder();
    for (const name of ['recording.yaml', 'alerting.yaml']) {
      writeFileSync(join(folder, name), inFastMotion(readFileSync(`dashboards/rules/${name}`, 'utf8')));
    }
    const prometheus = await startPrometheus({
      scrapeConfigs: [{ job_name: 'delivery-watch', static_configs: [{ targets: [target] }] }],
      config: {
        rule_files: [join(folder, '*.yaml')],
        alerting: { alertmanagers: [{ static_configs: [{ targets: [new URL(alertmanager.url).host] }] }] },
      },
      flags: ['--rules.alert.resend-delay=1s'],
    });
    afterThisTest(() => prometheus.stop());

    await eventually(() => expect(receiver.of('DeliveryDlqGrowing')).not.toEqual([]));
    const [growing] = receiver.of('DeliveryDlqGrowing');
    expect(growing).toMatchObject({
      status: 'firing',
      labels: { account: 'shop', severity: 'warning', job: 'delivery-watch' },
      annotations: { summary: 'The dead-letter queue of shop is growing.' },
    });
    await restartWhileHealing(alertmanager, heal);
    await eventually(() => expect(receiver.of('DeliveryDlqGrowing').at(-1)?.status).toBe('resolved'));
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
