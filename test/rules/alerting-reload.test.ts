import { describe, expect, it } from 'vitest';
import type { Account } from '../../src/agent/account.ts';
import { parseConfig } from '../../src/config/load.ts';
import type { Config } from '../../src/config/schema.ts';
import type { Source } from '../../src/metrics/family.ts';
import { Alerting } from '../../src/rules/alerting.ts';
import { createCollectorState } from '../../src/scheduler/board.ts';
import { afterThisTest } from '../support/client.ts';
import { createSharedStore } from '../support/fake-replicas.ts';
import { json, serve } from '../support/http-service.ts';
import { createManualClock } from '../support/manual-clock.ts';
import { createTestLog, createTestTracer } from '../support/silent.ts';

const MINUTE = 60_000;
const never = new AbortController().signal;

const above = (name: string, value: number, more: object = {}) => ({
  name,
  when: { above: { metric: 'delivery_dlq_messages', value } },
  ...more,
});

/** Creates alerting for a process or for replicas that switch between configurations. Each account has a dead-letter queue. */
async function setUp() {
  const clock = createManualClock();
  const shared = createSharedStore(clock);
  const store = shared.rows;
  const sizes = new Map<string, number>();
  const sent: string[] = [];
  const hook = await serve((request, response) => {
    let body = '';
    request.on('data', chunk => {
      body += chunk;
    });
    request.on('end', () => {
      for (const { status, labels } of JSON.parse(body).alerts) {
        sent.push(`${request.url} ${status} ${labels.alertname} ${labels.account}`);
      }
      json(response, {});
    });
  });
  function openAccount(name: string) {
    const staleness = { markAfter: 1000, withdrawAfter: 1000, withdrawAtMost: 1000 * MINUTE };
    const slot = createCollectorState(
      { account: name, collector: 'dlq' },
      { full: { every: MINUTE }, new: { every: MINUTE } },
      staleness,
      clock,
    );
    for (const round of ['full', 'new']) slot.observed(round, { at: clock.now(), facts: {} });
    const source: Source = {
      account: name,
      families: [{ name: 'delivery_dlq_messages', type: 'gauge', help: '', labels: [] }],
      revision: () => sizes.get(name),
      samples: () => new Map([['delivery_dlq_messages', [{ labels: {}, value: sizes.get(name) ?? 0 }]]]),
    };
    const state = (collector: string) => (collector === 'dlq' ? slot : undefined);
    return { account: { name, state } as unknown as Account, sources: [source] };
  }
  type Opened = ReturnType<typeof openAccount>;
  interface Running {
    readonly alerting: Alerting;
    /** Accounts that this replica has opened. */
    readonly opened: Map<string, Opened>;
    held: readonly string[];
  }
  const running = new Map<string, Running>();
  const replicas = new Map<string, ReturnType<typeof shared.join>>();
  function replicaOf(id: string) {
    const replica = replicas.get(id) ?? shared.join(id);
    replicas.set(id, replica);
    return replica;
  }
  /** Renews the leases of a replica and opens and closes accounts accordingly. `names`: all configured accounts. */
  async function renewLeases(
    id: string,
    names: readonly string[],
    alerts: object,
    paths: Readonly<Record<string, string>> = {},
  ) {
    const { replicas } = replicaOf(id);
    const all = ['', ...names];
    const { lost, excess } = await replicas.renew(all);
    const leaving = new Set([...lost, ...excess]);
    const held = all.filter(name => replicas.remaining(name) > 0 && !leaving.has(name));
    const used = await use(names, alerts, paths, { id, held });
    await replicas.release([...leaving]);
    return used;
  }
  function start(config: Config, replica?: { readonly id: string }): Running {
    const own = replica && replicaOf(replica.id);
    const holding = own && {
      ...own.replicas,
      held: (name: string) => started.held.includes(name),
      confirm: async (name: string) => own.replicas.remaining(name) > 0,
    };
    const common = { env: {}, clock, random: () => 0, log: createTestLog(), tracer: createTestTracer() };
    const alerting = new Alerting(config, { ...common, store: own ?? store, holding, accounts: () => [] });
    afterThisTest(() => alerting.close());
    const started: Running = { alerting, opened: new Map(), held: [] };
    running.set(replica?.id ?? '', started);
    return started;
  }
  /**
   * Switches to a configuration as the supervisor does: closes accounts that are not held, then configures and opens the rest.
   */
  async function use(
    names: readonly string[],
    alerts: object,
    paths: Readonly<Record<string, string>> = {},
    replica?: { readonly id: string; readonly held: readonly string[] },
  ) {
    const notifiers = Object.entries(paths).map(([name, path]) => ({
      name,
      webhook: { url: `${hook.url}${path}`, groupWait: '1s' },
    }));
    const text = JSON.stringify({
      accounts: names.map(name => ({ name, baseUrl: 'http://127.0.0.1:1', token: `x-${name}` })),
      alerts: { enabled: true, notifiers, ...alerts },
    });
    const config = parseConfig(text, 'x.yaml').config;
    const before = running.get(replica?.id ?? '');
    const current = before ?? start(config, replica);
    const { alerting, opened } = current;
    if (before) await alerting.use(config, alerting.prepare(config));
    current.held = replica?.held ?? ['', ...names];
    const isHeld = (name: string) => current.held.includes(name);
    for (const name of [...opened.keys()].filter(name => !isHeld(name))) {
      opened.delete(name);
      await (names.includes(name) ? alerting.release(name) : alerting.remove(name));
    }
    if (!isHeld('')) await alerting.release('');
    for (const name of ['', ...names].filter(isHeld)) {
      if (!opened.has(name)) await alerting.open(name);
      if (name === '') continue;
      const { account, sources } = opened.get(name) ?? openAccount(name);
      opened.set(name, { account, sources });
      await alerting.evaluate(account, sources);
    }
    return {
      alerting,
      async evaluate() {
        for (const each of alerting.evaluations) await each(never);
        return alerting.alerts().map(({ state, labels }) => `${state} ${labels.alertname} ${labels.account}`);
      },
      async send() {
        await clock.advance(2000);
        for (const each of alerting.senders) await each(never);
        return sent.splice(0).sort();
      },
    };
  }
  return { clock, sizes, use, renewLeases, shared, store };
}

it('a reload keeps the alerts and history of unchanged rules and reports changed rules as unknown until they are evaluated', async () => {
  const { clock, sizes, use } = await setUp();
  sizes.set('a', 5);
  const grows = { name: 'Grows', when: { growth: { metric: 'delivery_dlq_messages', over: '1h', atLeast: 3 } } };
  const first = await use(['a'], { rules: [above('Waits', 0, { for: '1h' }), grows, above('Differs', 100)] });
  expect(await first.evaluate()).toEqual(['pending Waits a']);
  await clock.advance(30 * MINUTE);
  await first.evaluate();

  const rules = [above('Waits', 0, { for: '1h' }), grows, above('Differs', 99), above('New', 0)];
  const second = await use(['a', 'b'], { rules });
  // Growth needs an hour of history; only half an hour has passed.
  expect([...second.alerting.states('a').keys()].sort()).toEqual(['Differs', 'Grows', 'New']);
  sizes.set('a', 9);
  await clock.advance(30 * MINUTE);
  expect(await second.evaluate()).toEqual(['firing Waits a', 'firing Grows a', 'firing New a']);
  expect([...second.alerting.states('a').keys()].sort()).toEqual(['Grows', 'New', 'Waits']);

  const third = await use(['a', 'b'], { rules });
  expect([...third.alerting.states('a').values()]).toEqual(['firing', 'firing', 'firing']);
});

it('a reload continues the evaluation loop of an account if its interval is unchanged, and otherwise replaces it', async () => {
  const { sizes, use, clock } = await setUp();
  const config = { rules: [above('Some', 0)], evaluateEvery: '10s' };
  const { alerting } = await use(['a'], config);
  alerting.start();
  await clock.advance(4000);
  sizes.set('a', 1);
  await use(['a'], config);
  await clock.advance(5000);
  expect(alerting.alerts()).toEqual([]);
  await clock.advance(1000);
  expect(alerting.alerts()).toMatchObject([{ state: 'firing' }]);

  // A changed interval replaces the loop.
  await use(['a'], { ...config, evaluateEvery: '30s' });
  sizes.set('a', 0);
  await clock.advance(0);
  expect(alerting.alerts()).toMatchObject([{ state: 'resolved' }]);
});

it('a reload resolves alerts of removed rules and accounts, and their resolved notifications are sent', async () => {
  const { sizes, use, clock } = await setUp();
  const hook = { hook: '/hook' };
  for (const name of ['a', 'b']) sizes.set(name, 1);
  const first = await use(['a', 'b'], { rules: [above('Stays', 0), above('Goes', 0)] }, hook);
  expect(await first.evaluate()).toHaveLength(4);
  expect(await first.send()).toHaveLength(4);

  const second = await use(['a'], { rules: [above('Stays', 0)] }, hook);
  expect(await second.evaluate()).toEqual(['firing Stays a', 'resolved Goes a']);
  const sent = (await second.send()).filter(line => line.includes('resolved'));
  expect(sent).toEqual(['/hook resolved Goes a', '/hook resolved Goes b', '/hook resolved Stays b']);

  // The account returns before its resolved alert is discarded.
  const third = await use(['a', 'b'], { rules: [above('Stays', 0)] }, hook);
  expect(await third.evaluate()).toContain('firing Stays b');
  await (await use(['a'], { rules: [above('Stays', 0)] }, hook)).evaluate();
  await clock.advance(20 * MINUTE);
  const off = await use(['a'], { rules: [above('Stays', 0)], enabled: false }, hook);
  expect(await off.evaluate()).toEqual(['resolved Stays a']);
  expect(off.alerting.sourceOf('a')).toBeUndefined();
  expect(off.alerting.sources).toHaveLength(1);
});

it('a reload sends queued notifications to the new address of a notifier and deletes notifications of removed notifiers', async () => {
  const { sizes, use, store } = await setUp();
  sizes.set('a', 1);
  const first = await use(['a'], { rules: [above('Some', 0)] }, { moved: '/old', gone: '/gone' });
  await first.evaluate();
  const waiting = async () =>
    [...(await store.scan('a', 'alerts/outbox/')).values()].map(row => JSON.parse(row).notifier);
  expect((await waiting()).sort()).toEqual(['gone', 'moved']);
  const second = await use(['a'], { rules: [above('Some', 0)] }, { moved: '/new' });
  expect(await waiting()).toEqual(['moved']);
  expect(await second.send()).toEqual(['/new firing Some a']);
  expect(await waiting()).toEqual([]);
  const counted = second.alerting.sources.flatMap(source => [
    ...(source.samples().get('delivery_watch_notifications_total') ?? []),
  ]);
  expect(counted.map(({ labels, value }) => `${labels.notifier} ${labels.outcome} ${value}`)).toEqual([
    'moved sent 1',
    'moved failed 0',
    'moved dropped 0',
  ]);
});

describe('takeovers', () => {
  const rules = { rules: [above('Fires', 0), above('Waits', 0, { for: '1h' })] };
  const hook = { hook: '/hook' };

  it('an account that another replica takes over keeps its alerts, and its previous replica neither resolves nor sends them', async () => {
    const { sizes, renewLeases, shared } = await setUp();
    for (const name of ['a', 'b']) sizes.set(name, 1);
    for (const name of ['', 'a', 'b']) shared.place(name, 'one');
    const first = await renewLeases('one', ['a', 'b'], rules, hook);
    await first.evaluate();
    // A queued group is sent by the replica that holds the account when the group is due.
    shared.place('a', 'two');
    const rest = await renewLeases('one', ['a', 'b'], rules, hook);
    expect(await rest.evaluate()).toEqual(['firing Fires b', 'pending Waits b']);
    expect(rest.alerting.states('a')).toEqual(new Map());
    expect(await rest.send()).toEqual(['/hook firing Fires b']);

    const other = await renewLeases('two', ['a', 'b'], rules, hook);
    expect(
      other.alerting.alerts().map(({ state, labels }) => `${state} ${labels.alertname} ${labels.account}`),
    ).toEqual(['firing Fires a', 'pending Waits a']);
    expect(await other.evaluate()).toEqual(['firing Fires a', 'pending Waits a']);
    expect(await other.send()).toEqual(['/hook firing Fires a']);

    shared.place('a', 'one');
    await renewLeases('two', ['a', 'b'], rules, hook);
    const again = await renewLeases('one', ['a', 'b'], rules, hook);
    sizes.set('a', 0);
    expect(await again.evaluate()).toEqual(['resolved Fires a', 'firing Fires b', 'pending Waits b']);
    expect(await again.send()).toEqual(['/hook resolved Fires a']);
  });

  it('a replica sends the unsent notifications of an account that moves back to it', async () => {
    const { sizes, renewLeases, shared } = await setUp();
    sizes.set('a', 1);
    for (const name of ['', 'a']) shared.place(name, 'one');
    const first = await renewLeases('one', ['a'], rules, hook);
    await first.evaluate();
    expect(await first.send()).toEqual(['/hook firing Fires a']);

    shared.place('a', 'two');
    await renewLeases('one', ['a'], rules, hook);
    const other = await renewLeases('two', ['a'], rules, hook);
    sizes.set('a', 0);
    expect(await other.evaluate()).toEqual(['resolved Fires a']);

    shared.place('a', 'one');
    await renewLeases('two', ['a'], rules, hook);
    const again = await renewLeases('one', ['a'], rules, hook);
    expect(await again.send()).toEqual(['/hook resolved Fires a']);
  });

  it('the replica that holds an account resolves the account’s alerts when the account is removed from the configuration', async () => {
    const { sizes, renewLeases, shared } = await setUp();
    for (const name of ['a', 'b']) sizes.set(name, 1);
    for (const name of ['', 'a', 'b']) shared.place(name, name === 'b' ? 'two' : 'one');
    const [one, two] = [
      await renewLeases('one', ['a', 'b'], rules, hook),
      await renewLeases('two', ['a', 'b'], rules, hook),
    ];
    for (const replica of [one, two]) {
      await replica.evaluate();
      await replica.send();
    }
    const [after, gone] = [await renewLeases('one', ['a'], rules, hook), await renewLeases('two', ['a'], rules, hook)];
    expect(await after.evaluate()).toEqual(['firing Fires a', 'pending Waits a']);
    expect(await after.send()).toEqual([]);
    expect(await gone.send()).toEqual(['/hook resolved Fires b']);
  });
});
