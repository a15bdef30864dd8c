import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { startAgent } from '../../src/agent/agent.ts';
import { parseConfig } from '../../src/config/load.ts';
import { systemClock } from '../../src/kit/clock.ts';
import { createChance } from '../support/chance.ts';
import { runCli } from '../support/cli.ts';
import { afterThisTest } from '../support/client.ts';
import { collectOnly } from '../support/collect.ts';
import { emulateEmpty } from '../support/emulate.ts';
import { newFolder } from '../support/folder.ts';
import { startFront } from '../support/front.ts';
import { createManualClock, settle } from '../support/manual-clock.ts';

/** Period in which requests of the agent are counted (ms on its clock). */
const COUNTED = 60_000;

function configFile(config: object): string {
  const file = join(newFolder(), 'config.yaml');
  writeFileSync(file, JSON.stringify(config));
  return file;
}

it('plan predicts the number of requests to within 10 %', async () => {
  const clock = createManualClock(Date.now());
  const emulator = await emulateEmpty({
    clock: { ...clock, sleep: systemClock.sleep },
  });
  for (let index = 0; index < 450; index += 1) {
    const enteredAt = clock.now() - index * 60_000;
    emulator.state.addDlqEntry({ enteredAt, createdAt: enteredAt - 5000 });
  }
  // Ten events per second, including the period in which requests are counted.
  for (let time = -45_000; time < COUNTED + 10_000; time += 100) emulator.state.addEvent({ time: clock.now() + time });
  const budget = { requestsPerSecond: 1000, burst: 1000, requestsPerDay: 100_000_000 };
  const configOf = (baseUrl: string) => ({
    server: { listen: '127.0.0.1:0' },
    store: { kind: 'memory' },
    log: { level: 'silent' },
    accounts: [{ name: 'a', baseUrl, token: { env: 'DELIVERY_TOKEN' }, budget }],
    collect: {
      flowControl: { every: '400ms', watch: ['k'], watchEvery: '300ms' },
      dlq: { every: '500ms', rescanEvery: '2s', filters: [{ name: 'b', match: { queueName: 'b' } }] },
      events: { every: '600ms' },
    },
  });
  const env = { DELIVERY_TOKEN: emulator.token };
  const { code, stdout, stderr } = await runCli(['plan', '--config', configFile(configOf(emulator.url))], env);
  expect([code, stderr]).toEqual([0, '']);
  const [, perDay = ''] = /^total\s+\S+\s+(\S+)/m.exec(stdout) ?? [];
  const predicted = (Number(perDay.replaceAll(',', '')) * COUNTED) / 86_400_000;
  expect(predicted).toBeGreaterThan(300);
  expect(stdout).toMatch(/^dlq full\s+2s\s+7 /m);
  expect(stdout).toMatch(/^queues\s+\d/m);
  expect(stdout).toMatch(/^ {2}dlq full: reads the queue, failed workflow runs and each filter, in pages of 100;/m);
  expect(stdout).toMatch(/^messages a day +[\d,]+ calls +1,000 \(too low\) +unlimited +1,000,000/m);

  // The clock of this agent only advances while no request is in flight, so the load of the machine has no effect.
  let inFlight = 0;
  const front = await startFront(emulator.url, {
    before() {
      inFlight += 1;
    },
    after() {
      inFlight -= 1;
    },
  });
  afterThisTest(() => front.close());
  const loaded = parseConfig(JSON.stringify(configOf(front.url)), 'config.yaml', env);
  const agent = await startAgent(loaded, { env, clock, random: createChance().fraction });
  afterThisTest(() => agent.close());
  async function pass(ms: number): Promise<void> {
    for (const end = clock.monotonic() + ms; clock.monotonic() < end; ) {
      await clock.advance(20);
      do await settle();
      while (inFlight > 0);
    }
  }
  // One-time requests at startup are done by then.
  await pass(5000);
  const calls = () => Object.values(emulator.state.calls()).reduce((sum, calls) => sum + calls, 0);
  const before = calls();
  await pass(COUNTED);
  const counted = calls() - before;
  expect(counted / predicted).toBeGreaterThan(0.9);
  expect(counted / predicted).toBeLessThan(1.1);
});

it('plan reports accounts that it cannot measure, sends only one request with a rejected token, and exits with 1', async () => {
  const emulator = await emulateEmpty();
  const requested: string[] = [];
  const front = await startFront(emulator.url, { before: ({ path }) => requested.push(path) });
  afterThisTest(() => front.close());
  const account = (name: string, baseUrl: string, limits = {}) => ({
    name,
    baseUrl,
    token: { env: name === 'refused' ? 'BAD' : 'DELIVERY_TOKEN' },
    limits,
  });
  const accounts = [
    account('gone', 'http://127.0.0.1:1'),
    account('refused', front.url),
    account('over', emulator.url, { requestsPerDay: 6000 }),
    account('under', emulator.url, { requestsPerDay: 1_000_000 }),
  ];
  const { code, stdout, stderr } = await runCli(
    ['plan', '--config', configFile({ accounts, collect: collectOnly('flowControl') })],
    {
      DELIVERY_TOKEN: emulator.token,
      BAD: 'canary-7f3a',
    },
  );
  expect(code).toBe(1);
  expect(stdout).toContain('gone: not measured: flow_control list: GET /v2/flowControl: ECONNREFUSED\n');
  expect(stdout).toContain(
    'refused: not measured: GET /v2/flowControl: status 401: unable to authenticate: invalid token\n',
  );
  expect(requested).toEqual(['/v2/flowControl']);
  const most = 'that the account’s plan allows for everything';
  expect(stdout).toMatch(
    new RegExp(`^over: [\\d,]+ calls a day are [\\d.]+ % of the 6,000 ${most}: reading alone`, 'm'),
  );
  expect(stdout).toMatch(new RegExp(`^[\\d,]+ calls a day are [\\d.]+ % of the 1,000,000 ${most}$`, 'm'));
  expect(stderr).toBe('not complete: gone, refused\n');
});

it('plan does not wait if the daily budget is too small, and compares the calls with the limit of the configured public plan', async () => {
  const emulator = await emulateEmpty();
  const accounts = ['free', 'pay_as_you_go'].map(plan => ({
    ...{ name: plan, plan, baseUrl: emulator.url, token: { env: 'DELIVERY_TOKEN' } },
    budget: { requestsPerDay: 1000 },
  }));
  const { code, stdout } = await runCli(['plan', '--config', configFile({ accounts })], {
    DELIVERY_TOKEN: emulator.token,
  });
  expect(code).toBe(0);
  expect(
    stdout.match(/^over: [\d,]+ calls a day are [\d,.]+ % of the 900 that the budget allows for reading: /gm),
  ).toHaveLength(2);
  expect(stdout.match(/^over: .*public plan.*$/gm)).toEqual([
    expect.stringMatching(
      /^over: [\d,]+ calls a day are [\d,.]+ % of the 1,000 that the public plan free allows: too many if the service counts calls as messages$/,
    ),
  ]);
});
