import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { startEmulator } from '../../src/emulator/server.ts';
import { runCli, startCli } from '../support/cli.ts';
import { afterThisTest } from '../support/client.ts';

/** How long the real thing is counted, milliseconds. */
const COUNTED = 20_000;

function configFile(config: object): string {
  const folder = mkdtempSync(join(tmpdir(), 'delivery-watch-'));
  afterThisTest(async () => rmSync(folder, { recursive: true }));
  const file = join(folder, 'config.yaml');
  writeFileSync(file, JSON.stringify(config));
  return file;
}

it('plan predicts within a tenth what the service then counts', async () => {
  const emulator = await startEmulator({ workload: false, history: 0, dlqEntries: 0 });
  afterThisTest(() => emulator.close());
  for (let index = 0; index < 450; index += 1) {
    const enteredAt = Date.now() - index * 60_000;
    emulator.state.addDlqEntry({ enteredAt, createdAt: enteredAt - 5000 });
    emulator.state.addEvent({ time: Date.now() - index * 100 });
  }
  const budget = { requestsPerSecond: 1000, burst: 1000, requestsPerDay: 100_000_000 };
  const file = configFile({
    server: { listen: '127.0.0.1:0' },
    store: { kind: 'memory' },
    accounts: [{ name: 'a', baseUrl: emulator.url, token: { env: 'DELIVERY_TOKEN' }, budget }],
    collect: {
      flowControl: { every: '400ms', watch: ['k'], watchEvery: '300ms' },
      dlq: { every: '500ms', rescanEvery: '2s', filters: [{ name: 'b', match: { queueName: 'b' } }] },
      events: { every: '600ms' },
    },
  });
  const env = { DELIVERY_TOKEN: emulator.token };
  const { code, stdout, stderr } = await runCli(['plan', '--config', file], env);
  expect([code, stderr]).toEqual([0, '']);
  const [, perDay = ''] = /^together\s+\S+\s+(\S+)/m.exec(stdout) ?? [];
  const predicted = (Number(perDay.replaceAll(',', '')) * COUNTED) / 86_400_000;
  expect(predicted).toBeGreaterThan(100);
  expect(stdout).toMatch(/^dlq full\s+2s\s+7 /m);

  const agent = startCli(['serve', '--config', file], env);
  afterThisTest(async () => {
    agent.kill('SIGKILL');
    await agent.ended;
  });
  await agent.says(/"url":"([^"]+)"/);
  // What is done once, at the beginning, is over.
  await sleep(2000);
  const calls = () => Object.values(emulator.state.calls()).reduce((sum, calls) => sum + calls, 0);
  const [before, start] = [calls(), performance.now()];
  await sleep(COUNTED);
  const counted = ((calls() - before) * COUNTED) / (performance.now() - start);
  expect(counted / predicted).toBeGreaterThan(0.9);
  expect(counted / predicted).toBeLessThan(1.1);
});

it('plan says what could not be measured, and exits with 1', async () => {
  const account = { name: 'a', baseUrl: 'http://127.0.0.1:1', token: { env: 'DELIVERY_TOKEN' } };
  const collect = { dlq: { enabled: false }, events: { enabled: false } };
  const { code, stdout, stderr } = await runCli(['plan', '--config', configFile({ accounts: [account], collect })], {
    DELIVERY_TOKEN: 'x',
  });
  expect(code).toBe(1);
  expect(stdout).toContain('not complete: flow_control: GET /v2/flowControl: ECONNREFUSED');
  expect(stderr).toBe('not complete: a\n');
});
