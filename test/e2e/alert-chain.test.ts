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

interface Told {
  readonly status: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

/** What a receiver behind Alertmanager is told. */
async function startReceiver() {
  const told: Told[] = [];
  const service = await serve((request, response) => {
    let text = '';
    request.setEncoding('utf8').on('data', chunk => {
      text += chunk;
    });
    request.on('end', () => {
      told.push(...JSON.parse(text).alerts);
      response.end();
    });
  });
  return { url: service.url, of: (name: string) => told.filter(({ labels }) => labels.alertname === name) };
}

/** The scenario dlq-growth, ten minutes of it a second, until it is healed. */
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

/** The shipped rules with every duration a hundred and twentieth: half an hour is fifteen seconds. */
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

/** Alertmanager dies once it has told of the alert, and comes back after all is well. */
async function dieAndComeBack(alertmanager: Alertmanager, heal: () => Promise<void>): Promise<void> {
  const told = Date.now();
  await eventually(() => expect(alertmanager.savedAt()).toBeGreaterThan(told));
  await alertmanager.kill();
  await heal();
  await sleep(3000);
  await alertmanager.startAgain();
}

describe.skipIf(!requireProgram('prometheus') || !requireProgram(ALERTMANAGER))('an alert on its whole way', () => {
  it('goes from the service through agent, Prometheus with our rules and Alertmanager to who is told, and so does its end', async () => {
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
    await dieAndComeBack(alertmanager, heal);
    await eventually(() => expect(receiver.of('DeliveryDlqGrowing').at(-1)?.status).toBe('resolved'));
  });

  it('goes from the agent itself to Alertmanager where there is no Prometheus, and so does its end', async () => {
    const receiver = await startReceiver();
    const alertmanager = await startAlertmanager(receiver.url);
    const { emulator, heal } = await startGrowth();
    const growth = { metric: 'delivery_dlq_messages', over: '5s', atLeast: 10 };
    await watch(emulator, {
      alerts: {
        enabled: true,
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
    await dieAndComeBack(alertmanager, heal);
    await eventually(() => expect(receiver.of('DlqGrowing').at(-1)?.status).toBe('resolved'));
  });
});
