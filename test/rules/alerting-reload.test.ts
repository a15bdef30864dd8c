import { describe, expect, it } from 'vitest';
import type { Account } from '../../src/agent/account.ts';
import { parseConfig } from '../../src/config/load.ts';
import type { Config } from '../../src/config/schema.ts';
import { Recorder } from '../../src/history/recorder.ts';
import type { Source } from '../../src/metrics/family.ts';
import { Alerting } from '../../src/rules/alerting.ts';
import { createAlertFacts, createSelection, windowsOf } from '../../src/rules/facts.ts';
import { createCollectorState } from '../../src/scheduler/board.ts';
import { createMemoryStore } from '../../src/store/memory.ts';
import { afterThisTest } from '../support/client.ts';
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

/** Creates alerting that switches between configurations. Each account has a dead-letter queue. */
async function setUp() {
  const clock = createManualClock();
  const store = createMemoryStore();
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
  async function openAccount(name: string) {
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
    const history = await Recorder.open({ account: name, store, clock, log: createTestLog() });
    return { account: { name, state, history } as unknown as Account, sources: [source] };
  }
  type Opened = Awaited<ReturnType<typeof openAccount>>;
  interface Running {
    readonly alerting: Alerting;
    readonly opened: Map<string, Opened>;
  }
  let running: Running | undefined;
  function start(config: Config): Running {
    const common = { env: {}, clock, random: () => 0, log: createTestLog(), tracer: createTestTracer() };
    const alerting = new Alerting(config, { ...common, store, accounts: () => [] });
    afterThisTest(() => alerting.close());
    return { alerting, opened: new Map() };
  }
  /**
   * Switches to a configuration as the supervisor does: closes removed accounts, then configures and opens the rest.
   */
  async function use(
    names: readonly string[],
    alerts: object,
    paths: Readonly<Record<string, string>> = {},
    selection: object = {},
  ) {
    const notifiers = Object.entries(paths).map(([name, path]) => ({
      name,
      ...selection,
      webhook: { url: `${hook.url}${path}`, groupWait: '1s' },
    }));
    const text = JSON.stringify({
      accounts: names.map(name => ({ name, baseUrl: 'http://127.0.0.1:1', token: `x-${name}` })),
      alerts: { enabled: true, notifiers, ...alerts },
    });
    const config = parseConfig(text, 'x.yaml').config;
    const before = running;
    running ??= start(config);
    const { alerting, opened } = running;
    if (before) await alerting.use(config, alerting.sending.prepare(config));
    for (const name of [...opened.keys()].filter(name => !names.includes(name))) {
      opened.delete(name);
      await alerting.remove(name);
    }
    for (const name of ['', ...names]) {
      if (!opened.has(name)) await alerting.open(name);
      if (name === '') continue;
      const { account, sources } = opened.get(name) ?? (await openAccount(name));
      opened.set(name, { account, sources });
      await alerting.evaluate(account, sources);
    }
    const windows = config.alerts.rules.flatMap(({ when }) => windowsOf(when));
    return {
      alerting,
      async evaluate() {
        for (const { account, sources } of opened.values()) {
          await account.history.sample(createSelection(windows, createAlertFacts(account, sources))().values);
        }
        for (const each of alerting.evaluations) await each(never);
        return alerting.alerts().map(({ state, labels }) => `${state} ${labels.alertname} ${labels.account}`);
      },
      /** Sends due notifications now, and again after the group wait. */
      async send() {
        for (let pass = 0; pass < 2; pass += 1) {
          await clock.advance(2000);
          for (const each of alerting.sending.senders) await each(never);
        }
        return sent.splice(0).sort();
      },
    };
  }
  return {
    clock,
    sizes,
    use,
    store,
    /** The next `use` starts another process with the same store. */
    takeOver() {
      running = undefined;
    },
  };
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
  const families = (sources: readonly Source[]) => sources.flatMap(({ families }) => families.map(({ name }) => name));
  expect(families(off.alerting.sourcesOf('a'))).toEqual(['delivery_problem']);
  expect(families(off.alerting.sources)).toEqual(['delivery_watch_notifications_total', 'delivery_problem']);
});

it('a reload sends unsent alerts to the new address of a notifier and deletes the log of removed notifiers', async () => {
  const { sizes, use, store } = await setUp();
  sizes.set('a', 1);
  const logged = async () =>
    [...(await store.scan('', 'alerts/log/')).keys()].map(key => key.split('/').slice(2, 4).join('/'));
  const rules = [above('Some', 0)];
  const first = await use(['a'], { rules }, { moved: '/old', gone: '/gone' });
  await first.evaluate();
  expect(await first.send()).toEqual(['/gone firing Some a', '/old firing Some a']);
  expect((await logged()).sort()).toEqual(['gone/0', 'moved/0']);
  const second = await use(['a'], { rules }, { moved: '/new', added: '/added' });
  expect(await logged()).toEqual(['moved/0']);
  // Both are new receivers, so each gets the firing alert once.
  expect(await second.send()).toEqual(['/added firing Some a', '/new firing Some a']);
  expect(await second.send()).toEqual([]);
  const counted = second.alerting.sending.sources.flatMap(source => [
    ...(source.samples().get('delivery_watch_notifications_total') ?? []),
  ]);
  expect(counted.map(({ labels, value }) => `${labels.notifier} ${labels.outcome} ${value}`)).toEqual([
    'moved sent 2',
    'moved failed 0',
    'moved dropped 0',
    'added sent 1',
    'added failed 0',
    'added dropped 0',
  ]);
});

it('sent alerts are resolved if the next process lacks their rule or account, or has alerts disabled', async () => {
  const { sizes, use, takeOver } = await setUp();
  for (const name of ['a', 'b']) sizes.set(name, 1);
  const hook = { hook: '/hook' };
  const first = await use(['a', 'b'], { rules: [above('Stays', 0), above('Goes', 0)] }, hook);
  await first.evaluate();
  expect(await first.send()).toHaveLength(4);
  takeOver();
  const second = await use(['a'], { rules: [above('Stays', 0)] }, hook);
  await second.evaluate();
  expect(await second.send()).toEqual(['/hook resolved Goes a', '/hook resolved Goes b', '/hook resolved Stays b']);
  takeOver();
  const third = await use(['a'], { rules: [above('Stays', 0)], enabled: false }, hook);
  await third.evaluate();
  expect(await third.send()).toEqual(['/hook resolved Stays a']);
});

it('severity and match select the alerts of a notifier; changing them resolves alerts that are no longer selected', async () => {
  const { sizes, use } = await setUp();
  for (const name of ['a', 'b']) sizes.set(name, 1);
  const rules = ['info', 'warning', 'error', 'critical', 'odd'].map(severity =>
    above(severity, 0, { labels: { severity } }),
  );
  const selecting = (selection: object) => use(['a', 'b'], { rules }, { hook: '/hook' }, selection);
  const first = await selecting({ severity: 'error' });
  await first.evaluate();
  expect((await first.send()).map(line => line.split(' ').slice(2).join(' '))).toEqual([
    'critical a',
    'critical b',
    'error a',
    'error b',
  ]);
  const second = await selecting({ match: { account: ['a', 'c'] } });
  expect(await second.send()).toEqual(
    [
      ...['info', 'odd', 'warning'].map(name => `/hook firing ${name} a`),
      ...['critical', 'error'].map(name => `/hook resolved ${name} b`),
    ].sort(),
  );
});

describe('takeovers', () => {
  const rules = { rules: [above('Fires', 0), above('Waits', 0, { for: '1h' })] };
  const hook = { hook: '/hook' };

  it('a process that takes over keeps the alerts and sends unsent ones once', async () => {
    const { sizes, use, takeOver } = await setUp();
    for (const name of ['a', 'b']) sizes.set(name, 1);
    const first = await use(['a', 'b'], rules, hook);
    await first.evaluate();
    takeOver();
    const other = await use(['a', 'b'], rules, hook);
    const alerts = ['firing Fires a', 'pending Waits a', 'firing Fires b', 'pending Waits b'];
    expect(
      other.alerting.alerts().map(({ state, labels }) => `${state} ${labels.alertname} ${labels.account}`),
    ).toEqual(alerts);
    expect(await other.evaluate()).toEqual(alerts);
    expect(await other.send()).toEqual(['/hook firing Fires a', '/hook firing Fires b']);
    takeOver();
    const again = await use(['a', 'b'], rules, hook);
    sizes.set('a', 0);
    expect(await again.evaluate()).toEqual(['resolved Fires a', 'firing Fires b', 'pending Waits b']);
    expect(await again.send()).toEqual(['/hook resolved Fires a']);
  });

  it('a process that takes over resolves the alerts of an account that its configuration lacks', async () => {
    const { sizes, use, takeOver } = await setUp();
    for (const name of ['a', 'b']) sizes.set(name, 1);
    const first = await use(['a', 'b'], rules, hook);
    await first.evaluate();
    await first.send();
    const second = await use(['a'], rules, hook);
    expect(await second.send()).toEqual(['/hook resolved Fires b']);
    takeOver();
    const third = await use(['a'], rules, hook);
    expect(await third.evaluate()).toEqual(['firing Fires a', 'pending Waits a']);
    expect(await third.send()).toEqual([]);
  });
});
