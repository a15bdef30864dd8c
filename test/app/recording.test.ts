import { join } from 'node:path';
import { expect, it } from 'vitest';
import type { Account } from '../../src/app/account.ts';
import { buildGeneration, type Generation } from '../../src/app/generation.ts';
import { openBase, settle } from '../../src/app/parts.ts';
import { recorded } from '../../src/app/recorded.ts';
import { openRecording } from '../../src/app/recording.ts';
import { parseConfig } from '../../src/config/load.ts';
import { startEmulator } from '../../src/emulator/server.ts';
import { createClosing } from '../../src/kit/closing.ts';
import { createAccountMeter } from '../../src/metrics/own.ts';
import { afterThisTest } from '../support/client.ts';
import { newFolder } from '../support/folder.ts';
import { createManualClock } from '../support/manual-clock.ts';
import { createTestLog } from '../support/silent.ts';

const MINUTE = 60_000;
const signal = new AbortController().signal;

/** A generation whose loops are run by hand, on a store that the next one opens again. */
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
      let { generation } = await buildGeneration(loaded, base, { names: () => ['a'] });
      return {
        base,
        get generation(): Generation {
          return generation;
        },
        async read() {
          for (const { rounds } of generation.accounts.all) for (const { run } of rounds) await run(signal);
        },
        async sample() {
          await clock.advance(MINUTE);
          for (const { body } of generation.recording.loops) await body(signal);
          await generation.save();
        },
        async reload(next: object, rules: readonly object[] = []) {
          const built = await buildGeneration(configOf(next, rules), base, { names: () => ['a'] }, generation);
          built.generation.alerting.take();
          built.generation.recording.take();
          ({ generation } = built);
          return built.change.changes;
        },
        /** Without a save, as when it is killed. */
        async end() {
          await settle([generation.alerting.close(), generation.traces.close()], base);
          await closing.close();
        },
        rows: async () => [...(await base.store.scan('a', 'history/')).keys()],
      };
    },
  };
}

const valueAt = ({ history }: Account, series: string) => history.recent(series, 10 * MINUTE).at(-1)?.value;

it('is what is exposed at the same moment, and is there after a kill', async () => {
  const scene = await setUp();
  const first = await scene.open({});
  const [account] = first.generation.accounts.all as [Account];
  await first.sample();
  // Nothing was read: that is no 0.
  expect([valueAt(account, 'delivery_dlq_messages'), valueAt(account, 'delivery_up')]).toEqual([undefined, 0]);
  await first.read();
  await first.sample();
  const { body } = await first.generation.served.exposition({ account: 'a' }, 'text', false);
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
  const view = await second.generation.served.history('a', query);
  const [messages] = view?.series.filter(({ family }) => family === 'delivery_dlq_messages') ?? [];
  expect(messages).toEqual({
    family: 'delivery_dlq_messages',
    labels: {},
    values: [null, expect.any(Number), null],
  });
  expect(view?.times).toHaveLength(3);
  expect(second.generation.history('b')).toBeUndefined();
  expect(recorded.length).toBeGreaterThan(20);
});

it('goes on through reloads, takes other limits, and is deleted where nothing shall be kept', async () => {
  const scene = await setUp();
  const agent = await scene.open({ keep: '6h' });
  afterThisTest(() => agent.end());
  const [loop] = agent.generation.recording.loops;
  await agent.sample();
  expect(await agent.rows()).toHaveLength(1);
  expect(await agent.reload({ keep: '5h', maxMB: 7 })).toEqual([
    'store.history.keep changed',
    'store.history.maxMB changed',
  ]);
  // What has not changed goes on undisturbed.
  expect(agent.generation.recording.loops[0]?.body).toBe(loop?.body);
  const growth = { metric: 'delivery_collector_consecutive_failures', over: '1h', atLeast: 1 };
  await agent.reload({ keep: '5h', maxMB: 7 }, [{ name: 'Grows', when: { growth } }]);
  expect(agent.generation.recording.loops[0]?.body).not.toBe(loop?.body);
  await agent.sample();
  const [account] = agent.generation.accounts.all as [Account];
  // A condition selects it, and it is recorded.
  expect(valueAt(account, 'delivery_collector_consecutive_failures{collector="dlq",round="full"}')).toBe(0);
  await agent.reload({ keep: '0s' });
  await agent.sample();
  expect(await agent.rows()).toEqual([]);
  expect(account.history.recent('delivery_up', 10 * MINUTE)).toHaveLength(3);
});

it('samples accounts at different times, says when one was taken, and survives a bug', async () => {
  const clock = createManualClock();
  const log = createTestLog();
  const { config } = parseConfig(
    JSON.stringify({
      accounts: ['a', 'b'].map(name => ({ name, baseUrl: 'http://127.0.0.1:1', token: 'x' })),
    }),
    'x.yaml',
  );
  const taken: string[] = [];
  const limits: number[] = [];
  const accountOf = (name: string, sample: () => Promise<void>) =>
    ({
      name,
      shownStatus: () => ({ account: name, up: false, collectors: [] }),
      shown: () => ({}),
      meter: createAccountMeter({ requests: [], bytes: [], collectors: [] }, () => 0),
      budgetRemaining: () => undefined,
      isTokenRejected: () => undefined,
      history: { sample, recent: () => [], use: ({ maxBytes }: { maxBytes: number }) => limits.push(maxBytes) },
      problems: {
        firstSeen: () => undefined,
        saw: (_problems: unknown, at: number) => taken.push(`${name} ${at - clock.now()}`),
      },
    }) as unknown as Account;
  const { loops } = openRecording({
    config,
    accounts: [accountOf('a', async () => undefined), accountOf('b', () => Promise.reject(new Error('a bug')))],
    sources: [],
    clock,
    log,
  });
  expect(new Set(loops.map(({ firstDelay }) => firstDelay)).size).toBe(2);
  expect(limits).toEqual([50e6, 50e6]);
  for (const { body } of loops) await body(signal);
  expect(taken).toEqual(['a 0']);
  expect(log.lines.map(({ message }) => message)).toEqual(['bug']);
});
