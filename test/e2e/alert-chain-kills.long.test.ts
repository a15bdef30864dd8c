import { rmSync } from 'node:fs';
import { resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { createAgent, unlimited } from '../support/agent.ts';
import { ALERTMANAGER, startAlertmanager } from '../support/alertmanager.ts';
import { afterThisTest } from '../support/client.ts';
import { emulateEmpty } from '../support/emulate.ts';
import { eventually } from '../support/eventually.ts';
import { freePort, requireProgram, startPrometheus } from '../support/prometheus.ts';
import { faster, startReceivers } from '../support/shipped-alertmanager.ts';

/** Timeout (ms) of changes that need the agent’s own durations, such as `for` of a check. */
const SLOW = 240_000;
/** Several evaluations of Prometheus and waits of an Alertmanager that is 60 times as fast (ms). */
const SETTLE_MS = 10_000;

describe.skipIf(!requireProgram('prometheus') || !requireProgram(ALERTMANAGER))('process kills', () => {
  it('an incident during which each process is killed causes one firing and one resolved notification', async () => {
    const emulator = await emulateEmpty();
    const receivers = await startReceivers();
    const alertmanager = await startAlertmanager(receivers.url, faster(60, receivers.url));
    const listen = `127.0.0.1:${await freePort()}`;
    const every = '1s';
    const account = { ...unlimited('shop', emulator.url), upstream: { timeout: '1s' } };
    const config = {
      server: { listen },
      accounts: [account],
      collect: { flowControl: { every }, dlq: { every }, events: { every, overlap: '1s' } },
      alerts: { evaluateEvery: '1s' },
    };
    const agent = createAgent(config, { DELIVERY_TOKEN: emulator.token });
    await agent.start();
    const prometheus = await startPrometheus({
      scrapeConfigs: [{ job_name: 'delivery-watch', static_configs: [{ targets: [listen] }] }],
      config: {
        rule_files: [resolve('dashboards/rules/alerting.yaml')],
        alerting: { alertmanagers: [{ static_configs: [{ targets: [new URL(alertmanager.url).host] }] }] },
      },
    });
    afterThisTest(() => prometheus.stop());
    const problem = () => agent.value('delivery_problem', { kind: 'service_unavailable' });
    const continues = async () => {
      await eventually(async () => expect(await problem()).toBe(1), SLOW);
      await sleep(SETTLE_MS);
      expect(receivers.all()).toEqual(['urgent: DeliveryBlind']);
    };

    await eventually(async () => expect(await agent.value('delivery_up')).toBe(1));
    emulator.faults.add({ kind: 'status', status: 503 });
    await eventually(() => expect(receivers.all()).not.toEqual([]), SLOW);
    await continues();

    await agent.end('SIGKILL');
    await sleep(SETTLE_MS);
    await agent.start();
    await continues();

    await prometheus.kill();
    await sleep(SETTLE_MS);
    await prometheus.startAgain();
    await continues();

    const notifiedAt = Date.now();
    await eventually(() => expect(alertmanager.savedAt()).toBeGreaterThan(notifiedAt));
    await alertmanager.kill();
    await sleep(SETTLE_MS);
    await alertmanager.startAgain();
    await continues();

    await agent.end('SIGKILL');
    for (const suffix of ['', '-wal', '-shm']) rmSync(agent.store + suffix, { force: true });
    await agent.start();
    await continues();

    emulator.faults.clear();
    await eventually(async () => expect(await problem()).toBe(0), SLOW);
    await sleep(SETTLE_MS);
    expect(receivers.all()).toEqual(['urgent: DeliveryBlind', 'urgent: DeliveryBlind (resolved)']);
  });
});
