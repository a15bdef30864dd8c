import type { Agent } from 'undici';
import { expect, it, vi } from 'vitest';
import { fingerprintOf } from '../../src/notify/notice.ts';
import { StoreError } from '../../src/store/errors.ts';
import { createMemoryStore } from '../../src/store/memory.ts';
import { NO_ACCOUNT, type Store } from '../../src/store/store.ts';
import { eventually } from '../support/eventually.ts';
import { liveBytes } from '../support/live-bytes.ts';
import { createManualClock } from '../support/manual-clock.ts';
import { accountNamed, configOf, openSupervised } from '../support/supervised.ts';

const MINUTE = 60_000;
const broken = () => Promise.reject(new StoreError('io', 'the disk'));

/** Sets up a supervisor without replicas. The store rejects commits of `unwritable` and reads of `unreadable` accounts. */
async function setUp(names: readonly string[]) {
  const clock = createManualClock();
  const inner = createMemoryStore();
  const [unwritable, unreadable] = [new Set<string>(), new Set<string>()];
  const store: Store = {
    ...inner,
    scan: (...which) => (unreadable.has(which[0]) ? broken() : inner.scan(...which)),
    commit: (...what) => (unwritable.has(what[0]) ? broken() : inner.commit(...what)),
  };
  const requests = new Map<string, number>();
  const start = async () => {
    const parts = await openSupervised({
      clock,
      store,
      intervals: { orders: MINUTE },
      config: configOf(names.map(name => accountNamed(name))),
      async request({ settings: { name } }, send) {
        requests.set(name, (requests.get(name) ?? 0) + 1);
        await send();
      },
    });
    parts.supervisor.start();
    return parts;
  };
  return { clock, store, unwritable, unreadable, requests: (name: string) => requests.get(name) ?? 0, start };
}

it('keeps an account running until its failed save is retried, even if other accounts are reopened earlier', async () => {
  const { clock, unwritable, requests, start } = await setUp(['a', 'b']);
  const { supervisor, log } = await start();
  await clock.advance(1000);
  unwritable.add('a');
  const changed = ['a', 'b'].map(name => accountNamed(name, { region: 'x' }));
  await supervisor.reload(configOf(changed));
  unwritable.clear();
  const [first] = supervisor.state().running;
  for (let count = 0; count < 3; count += 1) {
    await supervisor.reconcile();
    const before = requests('a');
    await clock.advance(3000);
    expect(supervisor.state().running[0]).toBe(first);
    expect(requests('a')).toBeGreaterThan(before);
  }
  await clock.advance(MINUTE);
  expect(supervisor.state().running.map(({ name }) => name)).toEqual(['a', 'b']);
  expect(supervisor.state().running[0]).not.toBe(first);
  expect(log.lines.filter(({ level }) => level === 'error')).toHaveLength(1);
});

it('keeps the connections of an account that could not be saved until the account is reopened', async () => {
  const { clock, unwritable, start } = await setUp(['a']);
  const { supervisor } = await start();
  await clock.advance(1000);
  const isClosed = () => dispatcher && (dispatcher as Agent).destroyed;
  const [dispatcher] = supervisor.state().running.map(({ dispatcher }) => dispatcher);
  unwritable.add('a');
  const changed = configOf([accountNamed('a', { upstream: { connectTimeout: '9s' } })]);
  await supervisor.reload(changed);
  expect(isClosed()).toBe(false);
  vi.spyOn(supervisor.traces, 'prepare').mockRejectedValueOnce(new Error('refused'));
  await expect(supervisor.reload(changed)).rejects.toThrow('refused');
  expect(isClosed()).toBe(false);
  unwritable.clear();
  await clock.advance(MINUTE);
  await eventually(() => expect(isClosed()).toBe(true));
});

it('keeps showing an account that failed to open while a reload retries opening it, and resolves its alerts when it is removed', async () => {
  const clock = createManualClock();
  const inner = createMemoryStore();
  const shown: unknown[] = [];
  let look = () => undefined as unknown;
  const store: Store = {
    ...inner,
    async scan(account, prefix) {
      if (account === 'a' && prefix === 'budget/') shown.push(look());
      return inner.scan(account, prefix);
    },
  };
  const labels = { alertname: 'Any', account: 'a' };
  const alert = { rule: 'Any', labels, annotations: {}, value: 1, state: { phase: 'firing', startsAt: 1 } };
  await inner.commit('a', [
    { key: `alerts/state/${fingerprintOf(labels)}`, value: JSON.stringify(alert) },
    { key: 'account-state/freshness', value: '{"damaged' },
  ]);
  const when = { above: { metric: 'delivery_flow_control_keys', value: 100 } };
  const alerts = { enabled: true, rules: [{ name: 'Any', when }] };
  const config = (...names: string[]) =>
    configOf(
      names.map(name => accountNamed(name)),
      { alerts },
    );
  const { supervisor } = await openSupervised({ clock, store, config: config('a', 'b') });
  look = () =>
    supervisor.state().accounts.map(({ name, status }) => [name, status().collectors[0]?.rounds[0]?.failure?.reason]);
  supervisor.start();
  await clock.advance(1000);
  shown.length = 0;
  await supervisor.reload(config('a', 'b', 'c'));
  expect(shown).toEqual([
    [
      ['a', 'store'],
      ['b', undefined],
    ],
  ]);
  await supervisor.reload(config('b', 'c'));
  const rows = await inner.scan('a', 'alerts/state/');
  expect([...rows.values()].map(text => JSON.parse(text).state.phase)).toEqual(['resolved']);
});

it('retries reading agent-wide rows after a failure', async () => {
  const { clock, unreadable, start } = await setUp(['a']);
  unreadable.add(NO_ACCOUNT);
  const parts = await start();
  const failures = () => parts.log.lines.filter(({ level, fields }) => level === 'error' && 'account' in fields);
  await clock.advance(MINUTE);
  expect(failures().length).toBeGreaterThan(1);
  unreadable.clear();
  const before = failures().length;
  await clock.advance(4 * MINUTE);
  expect(failures()).toHaveLength(before);
});

it('does not retain earlier configurations and sessions in memory', async () => {
  const { clock, start } = await setUp(['a']);
  const { supervisor, log } = await start();
  const above = (value: number) => ({ above: { metric: 'delivery_flow_control_keys', value } });
  const config = (count: number) =>
    configOf([accountNamed('a', { region: `r${count}` })], {
      collect: { flowControl: { every: '1s' }, dlq: { every: '1m' }, events: { enabled: false } },
      alerts: {
        enabled: true,
        rules: Array.from({ length: 50 }, (_, index) => ({ name: `Rule${index}`, when: above(10 + index + count) })),
      },
      autoCancel: { mode: 'plan', rules: [{ name: 'r', match: { url: { prefix: [`https://${count}.example/`] } } }] },
    });
  let count = 0;
  async function reloadOften(times: number): Promise<number> {
    for (let time = 0; time < times; time += 1) {
      count += 1;
      await supervisor.reload(config(count));
      await clock.advance(100);
    }
    log.lines.length = 0;
    return liveBytes();
  }
  await reloadOften(20);
  const [sleepers, sources] = [clock.sleepers, supervisor.state().sources.length];
  const before = await reloadOften(20);
  const perReload = ((await reloadOften(40)) - before) / 40;
  expect(perReload).toBeLessThan(20_000);
  expect([clock.sleepers, supervisor.state().sources.length]).toEqual([sleepers, sources]);
});

it('starts no notification sender if the agent is stopped while a reload replaces the receivers', async () => {
  const { clock, store, start } = await setUp(['a']);
  const { supervisor } = await start();
  await clock.advance(1000);
  const notifiers = [{ name: 'hook', webhook: { url: 'http://receiver.invalid' } }];
  const config = configOf([accountNamed('a')], { alerts: { enabled: true, notifiers } });
  let stopped: Promise<void> | undefined;
  const { sizes } = store;
  // The reload deletes rows of removed receivers.
  vi.spyOn(store, 'sizes').mockImplementation((account, prefix) => {
    if (prefix === 'alerts/') stopped ??= supervisor.stop();
    return sizes(account, prefix);
  });
  await supervisor.reload(config);
  expect(stopped).toBeDefined();
  await stopped;
  await clock.advance(0);
  expect(clock.sleepers).toBe(0);
});

it('spreads the first history samples of many accounts over a minute', async () => {
  const clock = createManualClock();
  const names = Array.from({ length: 40 }, (_, index) => `n${index}`);
  let drawn = 0;
  const { supervisor } = await openSupervised({
    clock,
    store: createMemoryStore(),
    config: configOf(names.map(name => accountNamed(name))),
    adapt: base => ({ ...base, random: () => (drawn++ % 10) / 10 }),
  });
  supervisor.start();
  const sampled = () =>
    supervisor.state().running.filter(({ account }) => account.history.recent('delivery_up', MINUTE * 60).length > 0);
  await clock.advance(8000);
  expect(sampled().length).toBeLessThan(14);
  await clock.advance(2 * MINUTE);
  expect(sampled()).toHaveLength(names.length);
});
