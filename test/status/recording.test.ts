import { join } from 'node:path';
import { expect, it } from 'vitest';
import type { Account } from '../../src/agent/account.ts';
import { openBase } from '../../src/agent/base.ts';
import type { RunningAccount } from '../../src/agent/running-account.ts';
import { createServing } from '../../src/agent/served.ts';
import { Supervisor } from '../../src/agent/supervisor.ts';
import { parseConfig } from '../../src/config/load.ts';
import { startEmulator } from '../../src/emulator/server.ts';
import { createClosing } from '../../src/kit/closing.ts';
import { createSampling, historyLimits, recorded } from '../../src/status/recording.ts';
import { afterThisTest } from '../support/client.ts';
import { newFolder } from '../support/folder.ts';
import { createManualClock } from '../support/manual-clock.ts';
import { createTestLog } from '../support/silent.ts';

const MINUTE = 60_000;
const signal = new AbortController().signal;

/** Creates agents with rounds and samples that the test triggers. Each agent reopens the store file of the previous one. */
async function setUp() {
  const clock = createManualClock(Date.UTC(2026, 0, 1, 0, 30));
  const emulator = await startEmulator({ workload: false, scenario: 'dlq-growth', history: 600, clock });
  afterThisTest(() => emulator.close());
  const path = join(newFolder(), 'x.db');
  const configOf = (history: object, rules: readonly object[] = []) =>
    parseConfig(
      JSON.stringify({
        log: { level: 'silent' },
        store: { path, history },
        alerts: { enabled: true, rules },
        accounts: [{ name: 'a', baseUrl: emulator.url, token: emulator.token, labels: { team: 'x' } }],
      }),
      'x.yaml',
      {},
    );
  return {
    clock,
    configOf,
    async open(history: object) {
      const closing = createClosing();
      const loaded = configOf(history);
      const deps = { env: {}, clock, random: () => 0 };
      const base = await openBase(loaded, deps, closing);
      const supervisor = await Supervisor.open(loaded, base);
      const { served } = await createServing(supervisor, base);
      const account = (): RunningAccount => {
        const [only] = supervisor.state().running;
        if (!only) throw new Error('the account is not open');
        return only;
      };
      return {
        served,
        account,
        async read() {
          for (const { run } of account().account.rounds) await run(signal);
        },
        async sample() {
          await clock.advance(MINUTE);
          await account().sample();
          await supervisor.save();
        },
        reload: (next: object, rules: readonly object[] = []) => supervisor.reload(configOf(next, rules)),
        /** Closes without saving, like a killed process. */
        async end() {
          await supervisor.stop();
          await Promise.all([supervisor.alerting.close(), supervisor.traces.close()]);
          await closing.close();
        },
        rows: async () => [...(await base.store.scan('a', 'history/')).keys()],
      };
    },
  };
}

const valueAt = ({ account: { history } }: RunningAccount, series: string) =>
  history.recent(series, 10 * MINUTE).at(-1)?.value;

it('the history records the values that are exposed at the same time, and restores them after a kill', async () => {
  const scene = await setUp();
  const first = await scene.open({});
  const account = first.account();
  await first.sample();
  // Before the first read the value is missing, not 0.
  expect([valueAt(account, 'delivery_dlq_messages'), valueAt(account, 'delivery_up')]).toEqual([undefined, 0]);
  await first.read();
  await first.sample();
  const { body } = await first.served.exposition({ account: 'a' }, 'text', false);
  const lines = body.toString().split('\n');
  let compared = 0;
  for (const line of lines) {
    const [, series = '', shown] = /^(.+) (\S+)$/.exec(line) ?? [];
    const name = series.replace('account="a",', '').replace('{account="a"}', '');
    const value = valueAt(account, name);
    if (line.startsWith('#') || value === undefined) continue;
    expect(`${name} ${value}`).toBe(`${name} ${shown}`);
    compared += 1;
  }
  expect(compared).toBeGreaterThan(60);
  expect(valueAt(account, 'delivery_dlq_messages')).toBeGreaterThan(0);
  const asked = lines
    .filter(line => line.startsWith('delivery_watch_api_requests_total') && line.includes('outcome="ok"'))
    .reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0);
  expect(valueAt(account, 'delivery_watch_api_requests_total{outcome="ok"}')).toBe(asked);
  await first.end();

  const second = await scene.open({});
  afterThisTest(() => second.end());
  await second.sample();
  const query = { family: ['delivery_dlq_messages', 'delivery_up'], over: '1h', points: 100 };
  const view = await second.served.views().history('a', query);
  const [messages] = view?.series.filter(({ family }) => family === 'delivery_dlq_messages') ?? [];
  expect(messages).toEqual({
    family: 'delivery_dlq_messages',
    labels: {},
    values: [null, expect.any(Number), null],
  });
  expect(view?.times).toHaveLength(3);
  expect(await second.served.views().history('b', query)).toBeUndefined();
  expect(recorded.length).toBeGreaterThan(20);
});

it('the history continues across reloads, records families of new rules, and deletes its rows if `keep` is 0', async () => {
  const scene = await setUp();
  const agent = await scene.open({ keep: '6h' });
  afterThisTest(() => agent.end());
  const account = agent.account();
  await agent.sample();
  expect(await agent.rows()).toHaveLength(1);
  expect(await agent.reload({ keep: '5h', maxMB: 7 })).toEqual(['store changed']);
  expect(agent.account()).toBe(account);
  const growth = { metric: 'delivery_collector_consecutive_failures', over: '1h', atLeast: 1 };
  await agent.reload({ keep: '5h', maxMB: 7 }, [{ name: 'Grows', when: { growth } }]);
  await agent.sample();
  // The family is recorded because a condition selects it.
  expect(valueAt(account, 'delivery_collector_consecutive_failures{collector="dlq",round="full"}')).toBe(0);
  await agent.reload({ keep: '0s' });
  await agent.sample();
  expect(await agent.rows()).toEqual([]);
  expect(account.account.history.recent('delivery_up', 10 * MINUTE)).toHaveLength(3);
});

it('a failed sample is logged as a bug', async () => {
  const log = createTestLog();
  const { config } = parseConfig(
    JSON.stringify({ accounts: [{ name: 'a', baseUrl: 'http://127.0.0.1:1', token: 'x' }] }),
    'x.yaml',
  );
  const history = { sample: () => Promise.reject(new Error('a bug')) };
  const account = { name: 'a', history, shown: () => ({}) } as unknown as Account;
  const checkInput = () => {
    throw new Error('not called');
  };
  await createSampling(account, { config, sources: [], log, clock: createManualClock(), checkInput })();
  expect(log.lines.map(({ message }) => message)).toEqual(['bug']);
});

it('historyLimits divides the size limit equally between the accounts', () => {
  const accounts = ['a', 'b'].map(name => ({ name, baseUrl: 'http://127.0.0.1:1', token: 'x' }));
  const { config } = parseConfig(JSON.stringify({ accounts }), 'x.yaml');
  expect(historyLimits(config.store.history, config.accounts.length)).toEqual({
    keep: config.store.history.keep,
    maxBytes: 50e6,
  });
});

it('the first samples of accounts that start together are staggered', async () => {
  const clock = createManualClock();
  const { config } = parseConfig(
    JSON.stringify({
      log: { level: 'silent' },
      store: { kind: 'memory' },
      accounts: ['a', 'b'].map(name => ({ name, baseUrl: 'http://127.0.0.1:1', token: 'x' })),
    }),
    'x.yaml',
  );
  let calls = 0;
  const random = () => {
    calls += 1;
    return (calls * 0.37) % 1;
  };
  const closing = createClosing();
  afterThisTest(closing.close);
  const loaded = { file: 'x.yaml', config, hash: '', warnings: [] };
  const supervisor = await Supervisor.open(loaded, await openBase(loaded, { env: {}, clock, random }, closing));
  closing.add('accounts', () => supervisor.close());
  closing.add('loops', () => supervisor.stop());
  const start = clock.now();
  supervisor.start();
  await clock.advance(8000);
  const times = supervisor
    .state()
    .running.flatMap(({ account }) => account.history.recent('delivery_up', MINUTE).map(({ at }) => at - start));
  expect(times).toHaveLength(2);
  expect(new Set(times).size).toBe(2);
  for (const time of times) expect(time).toBeGreaterThanOrEqual(5000);
});
