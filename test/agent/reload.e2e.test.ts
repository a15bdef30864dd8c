import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { openAccount } from '../../src/agent/account.ts';
import { type AgentDeps, startAgent } from '../../src/agent/agent.ts';
import { loadConfig } from '../../src/config/load.ts';
import { systemClock } from '../../src/kit/clock.ts';
import { attachSqliteStore, openSqliteStore } from '../../src/store/sqlite.ts';
import { scrape } from '../support/agent.ts';
import { afterThisTest } from '../support/client.ts';
import { eventually } from '../support/eventually.ts';
import { newFolder } from '../support/folder.ts';
import { json, serve } from '../support/http-service.ts';

/** Starts a service with one key per account. Accounts in `waits` get no response until `release` is called. */
async function setUp(options: Partial<AgentDeps> = {}) {
  const waits = new Set<string>();
  const held: (() => void)[] = [];
  function release(): void {
    waits.clear();
    for (const answer of held.splice(0)) answer();
  }
  const service = await serve((request, response) => {
    const name = request.headers.authorization?.replace('Bearer token-canary-', '') ?? '';
    const answer = () => json(response, { flowControls: [{ flowControlKey: name, waitListSize: 7 }] });
    if (waits.has(name)) held.push(answer);
    else answer();
  });
  const folder = newFolder();
  const file = join(folder, 'config.yaml');
  const account = (name: string, more: object = {}) => ({
    name,
    baseUrl: service.url,
    token: `token-canary-${name}`,
    budget: { requestsPerSecond: 5000, burst: 5000 },
    ...more,
  });
  const common = {
    server: { listen: '127.0.0.1:0' },
    log: { level: 'silent' },
    store: { kind: 'memory' },
    collect: { flowControl: { every: '20ms' }, dlq: { enabled: false }, events: { enabled: false } },
    // On a busy machine a round may take longer than its interval of 20 ms. Its data must not become stale.
    staleness: { markAfter: 1000, withdrawAfter: 1000 },
  };
  const textOf = (config: object) => JSON.stringify({ ...common, ...config }, null, 1);
  const write = (config: object) => writeFileSync(file, textOf(config));
  async function start(config: object) {
    write(config);
    const deps = { env: {}, clock: systemClock, random: Math.random, ...options };
    const agent = await startAgent(loadConfig(file, {}), deps);
    afterThisTest(() => agent.close());
    const value = async (name: string, labels: Readonly<Record<string, string>> = {}) =>
      (await scrape(agent.url)).samples(name, labels)[0]?.value;
    const waiting = (account: string) => value('delivery_flow_control_waitlist_size', { account });
    const reads = (account: string) =>
      value('delivery_watch_api_requests_total', { account, endpoint: 'flow_control', outcome: 'ok' });
    const isValid = () => value('delivery_watch_config_last_reload_successful');
    return { agent, value, waiting, reads, isValid };
  }
  return { service, folder, file, account, textOf, write, start, waits, release };
}

it('opens added accounts, reopens changed ones and closes removed ones, without affecting unchanged accounts', async () => {
  const { account, write, start, waits, release } = await setUp();
  const { agent, value, waiting, reads } = await start({
    accounts: ['kept', 'changed', 'gone'].map(name => account(name)),
  });
  for (const name of ['kept', 'changed', 'gone']) await eventually(async () => expect(await waiting(name)).toBe(7));
  const hash = (await scrape(agent.url)).samples('delivery_watch_config_info')[0]?.labels.hash;
  const before = [await reads('kept'), await reads('changed')] as const;
  // Block new rounds, so that the shown data must come from before the reload.
  waits.add('changed').add('added');
  write({ accounts: [account('kept'), account('changed', { labels: { team: 'x' }, region: 'x' }), account('added')] });
  expect(await agent.reload()).toEqual({ changed: ['accounts: changed changed, gone removed, added added'] });

  expect(await waiting('changed')).toBe(7);
  expect(await value('delivery_up', { account: 'changed' })).toBe(1);
  expect(await value('delivery_account_info', { account: 'changed', team: 'x' })).toBe(1);
  expect(await value('delivery_account_info', { account: 'kept' })).toBe(1);
  expect(await reads('changed')).toBeGreaterThanOrEqual(before[1] ?? 0);
  expect(await reads('kept')).toBeGreaterThanOrEqual(before[0] ?? 0);
  expect((await scrape(agent.url)).samples('delivery_watch_config_info').map(({ labels }) => labels.hash)).not.toEqual([
    hash,
  ]);
  const exposition = await (await fetch(`${agent.url}/metrics`)).text();
  expect(exposition).not.toContain('"gone"');
  expect((await fetch(`${agent.url}/probe?account=gone`)).status).toBe(404);
  const targets = await (await fetch(`${agent.url}/api/v1/sd`)).text();
  expect(targets).toContain('"added"');
  expect(targets).not.toContain('"gone"');
  expect(agent.status().map(({ account }) => account)).toEqual(['kept', 'changed', 'added']);
  release();
  await eventually(async () => expect(await waiting('added')).toBe(7));
});

it('serves every series of all accounts while a changed account is reopened', async () => {
  let whileOpening: () => Promise<void> = async () => undefined;
  const { account, folder, write, start } = await setUp({
    async openAccount(...which) {
      const opened = await openAccount(...which);
      await whileOpening();
      return opened;
    },
  });
  const above = { above: { metric: 'delivery_dlq_messages', value: 5 } };
  const common = {
    collect: { flowControl: { every: '20ms' }, events: { enabled: false } },
    store: { path: join(folder, 'store.db') },
    autoCancel: { mode: 'plan', rules: [{ name: 'r', match: { url: { prefix: ['https://'] } } }] },
    alerts: { enabled: true, rules: [{ name: 'Many', when: above }] },
  };
  const { agent, waiting } = await start({ ...common, accounts: ['kept', 'changed'].map(name => account(name)) });
  for (const name of ['kept', 'changed']) await eventually(async () => expect(await waiting(name)).toBe(7));
  const exposed: string[] = [];
  whileOpening = async () => void exposed.push(await (await fetch(`${agent.url}/metrics`)).text());
  write({ ...common, accounts: [account('kept'), account('changed', { labels: { team: 'x' }, region: 'x' })] });
  await agent.reload();
  expect(exposed).toHaveLength(1);
  for (const name of ['kept', 'changed']) {
    const labels = name === 'changed' ? ',team="x"' : '';
    expect(exposed[0]).toContain(`delivery_account_info{account="${name}"${labels}} 1`);
    expect(exposed[0]).toContain(`delivery_auto_cancel_paused{account="${name}"} 0`);
    expect(exposed[0]).toContain(`delivery_watch_alerts{account="${name}",alert="Many",state="firing"} 0`);
  }
});

it('withdraws the previous data of a reopened account if its rounds get no response', async () => {
  const { account, write, start, waits } = await setUp();
  const staleness = { withdrawAtMost: '1s', markAfter: 3, withdrawAfter: 5 };
  const { agent, waiting } = await start({ accounts: [account('a')], staleness });
  await eventually(async () => expect(await waiting('a')).toBe(7));
  waits.add('a');
  write({ accounts: [account('a', { labels: { team: 'x' }, region: 'x' })], staleness });
  await agent.reload();
  await eventually(async () => expect(await waiting('a')).toBeUndefined());
});

it.each<[string, (setup: Awaited<ReturnType<typeof setUp>>) => void, RegExp]>([
  ['is missing', ({ file }) => rmSync(file), /does not exist/],
  ['is empty', ({ file }) => writeFileSync(file, ''), /accounts: is required/],
  ['has an unknown key', ({ write, account }) => write({ accounts: [account('a')], lgo: {} }), /lgo: unknown key/],
  [
    'contains an account twice',
    ({ write, account }) => write({ accounts: [account('a'), account('a')] }),
    /must be unique/,
  ],
  [
    'configures another store',
    ({ write, account }) => write({ accounts: [account('a')], store: { kind: 'memory', path: 'x.db' } }),
    /store\.path: can't change while the agent runs; restart the agent to apply the change/,
  ],
  [
    'configures another schema',
    ({ write, account }) => write({ accounts: [account('a')], store: { kind: 'memory', schema: 'other' } }),
    /store\.schema: can't change while the agent runs/,
  ],
  [
    'configures another replica URL',
    ({ write, account }) =>
      write({ accounts: [account('a')], server: { listen: '127.0.0.1:0', replicaUrl: 'http://x.example' } }),
    /server\.replicaUrl: can't change while the agent runs/,
  ],
  [
    'configures another address',
    ({ write, account }) => write({ accounts: [account('b')], server: { listen: '127.0.0.2:0' } }),
    /server\.listen: can't change while the agent runs/,
  ],
])('keeps the active configuration if the file %s, and reports the reason', async (_what, spoil, why) => {
  const setup = await setUp();
  const { agent, waiting, reads, isValid } = await setup.start({ accounts: [setup.account('a')] });
  await eventually(async () => expect(await waiting('a')).toBe(7));
  spoil(setup);
  const answer = await agent.reload();
  expect(answer).toMatchObject({ faults: [{ file: setup.file, message: expect.stringMatching(why) }] });
  expect(JSON.stringify(answer)).not.toContain('canary');
  expect(await isValid()).toBe(0);
  const isOnPage = async () => (await (await fetch(agent.url)).text()).includes('The last reload failed');
  expect(await isOnPage()).toBe(true);
  const before = (await reads('a')) ?? 0;
  await eventually(async () => expect(await reads('a')).toBeGreaterThan(before));
  setup.write({ accounts: [setup.account('a')] });
  expect(await agent.reload()).toEqual({ changed: [] });
  expect([await isValid(), await isOnPage()]).toEqual([1, false]);
  expect(await reads('a')).toBeGreaterThan(before);
});

it('polls an account with a damaged auto-cancel journal, and starts its auto-cancel at the first reload after the repair', async () => {
  const { account, folder, write, start } = await setUp();
  const path = join(folder, 'store.db');
  const common = {
    store: { path },
    collect: { flowControl: { every: '20ms' }, events: { enabled: false } },
    autoCancel: { mode: 'plan', rules: [{ name: 'r', match: { url: { prefix: ['https://'] } } }] },
  };
  const { agent, reads, waiting, value } = await start({ ...common, accounts: [account('a'), account('b')] });
  for (const name of ['a', 'b']) await eventually(async () => expect(await waiting(name)).toBe(7));
  const lines = (value: string | null) => [{ key: 'auto-cancel/journal/000000000001', value }];
  const other = await attachSqliteStore({ path });
  await other.commit('c', lines('no line'));
  const changed = (name: string) => account(name, { labels: { team: 'x' }, region: 'x' });
  const before = [await reads('a'), await reads('b')].map(value => value ?? 0);
  write({ ...common, accounts: [changed('a'), changed('b'), account('c')] });
  expect(await agent.reload()).toEqual({ changed: ['accounts: a changed, b changed, c added'] });
  for (const [index, name] of ['a', 'b'].entries()) {
    expect(await waiting(name)).toBe(7);
    await eventually(async () => expect(await reads(name)).toBeGreaterThan(before[index] ?? 0));
  }
  await eventually(async () => expect(await waiting('c')).toBe(7));
  const paused = (name: string) => value('delivery_auto_cancel_paused', { account: name });
  expect([await paused('a'), await paused('c')]).toEqual([0, undefined]);
  await other.commit('c', lines(null));
  await other.close();
  write({ ...common, accounts: [changed('a'), changed('b'), account('c')], log: { level: 'error' } });
  expect(await agent.reload()).toEqual({ changed: ['log changed'] });
  expect(await paused('c')).toBe(0);
});

it('runs all accounts except one with a damaged row, reports that account, and opens it once the row is repaired', async () => {
  const { account, folder, write, start } = await setUp();
  const path = join(folder, 'store.db');
  const spent = (value: string | null) => [{ key: 'budget/spent', value }];
  const first = await openSqliteStore({ path });
  await first.commit('b', spent('no JSON'));
  await first.close();
  const common = { store: { path }, alerts: { enabled: true } };
  const { agent, waiting, value } = await start({ ...common, accounts: [account('a'), account('b')] });
  await eventually(async () => expect(await waiting('a')).toBe(7));
  const up = async () => [await value('delivery_up', { account: 'a' }), await value('delivery_up', { account: 'b' })];
  expect(await up()).toEqual([1, 0]);
  for (const url of ['/', '/accounts/b', '/api/v1/status', '/api/v1/overview', '/api/v1/accounts/b', '/-/ready']) {
    expect([url, (await fetch(`${agent.url}${url}`)).status]).toEqual([url, 200]);
  }
  const page = await (await fetch(`${agent.url}/accounts/b`)).text();
  expect(page).toContain('the account could not be opened');
  const problems = async () => {
    const view = (await (await fetch(`${agent.url}/api/v1/accounts/b`)).json()) as { problems: { text: string }[] };
    return view.problems;
  };
  const [problem, ...others] = await problems();
  expect(problem?.text).toMatch(
    /^No data is read: the account could not be opened: .*: the row budget\/spent is damaged: stop the agent and restore a backup of the store/,
  );
  expect(others).toEqual([]);
  await setTimeout(5);
  expect(await problems()).toEqual([problem]);
  expect((await fetch(`${agent.url}/probe?account=b`)).status).toBe(200);
  write({ ...common, accounts: [account('a'), account('b', { labels: { team: 'x' }, region: 'x' })] });
  await agent.reload();
  expect(await up()).toEqual([1, 0]);
  const other = await attachSqliteStore({ path });
  await other.commit('b', spent(null));
  await other.close();
  write({ ...common, accounts: [account('a'), account('b')] });
  await agent.reload();
  await eventually(async () => expect(await up()).toEqual([1, 1]));
});

it('reports the line of a configuration error', async () => {
  const { account, file, write, start } = await setUp();
  const { agent } = await start({ accounts: [account('a')] });
  write({ accounts: [account('a')], server: { listn: 'x' } });
  const fault = {
    file,
    line: 3,
    column: expect.any(Number),
    message: expect.stringContaining('server.listn: unknown key'),
  };
  expect(await agent.reload()).toEqual({ faults: [fault] });
});

it('reload requests during a reload share the next reload, and reloads are rejected once the agent is stopping', async () => {
  const { account, write, start } = await setUp();
  const { agent } = await start({ accounts: [account('a')] });
  const running = agent.reload();
  write({ accounts: [account('a'), account('b')] });
  const others = await Promise.all(Array.from({ length: 49 }, () => agent.reload()));
  expect(await running).toHaveProperty('changed');
  expect(new Set(others).size).toBe(1);
  expect(agent.status()).toHaveLength(2);
  write({ accounts: [account('a'), account('c')] });
  const last = agent.reload();
  await agent.close();
  expect(await last).toSatisfy(
    answer => JSON.stringify(answer).includes('the agent is stopping') || 'changed' in answer,
  );
  expect(await agent.reload()).toMatchObject({ faults: [{ message: 'the agent is stopping' }] });
});

it('detects files replaced by renaming, changed symbolic links and additional matching files', async () => {
  const { account, folder, file, textOf, start } = await setUp({ watchEvery: 20 });
  const more = join(folder, 'more');
  mkdirSync(more);
  const [first, second] = [join(folder, '..v1'), join(folder, '..v2')];
  for (const version of [first, second]) mkdirSync(version);
  const { agent, isValid } = await start({ accounts: [account('a')], accountFiles: ['more/*.yaml'] });
  const names = () => agent.status().map(({ account }) => account);

  writeFileSync(`${file}~`, textOf({ accounts: [account('b')], accountFiles: ['more/*.yaml'] }));
  renameSync(`${file}~`, file);
  await eventually(() => expect(names()).toEqual(['b']));

  writeFileSync(join(more, 'one.yaml'), JSON.stringify([account('c')]));
  await eventually(() => expect(names()).toEqual(['b', 'c']));

  writeFileSync(join(first, 'config.yaml'), textOf({ accounts: [account('d')] }));
  writeFileSync(join(second, 'config.yaml'), textOf({ accounts: [account('e')] }));
  const link = join(folder, '..data');
  symlinkSync(first, link);
  rmSync(file);
  symlinkSync(join(link, 'config.yaml'), file);
  await eventually(() => expect(names()).toEqual(['d']));
  symlinkSync(second, `${link}~`);
  renameSync(`${link}~`, link);
  await eventually(() => expect(names()).toEqual(['e']));

  rmSync(file);
  await eventually(async () => expect(await isValid()).toBe(0));
  symlinkSync(join(link, 'config.yaml'), file);
  await eventually(async () => expect(await isValid()).toBe(1));
  expect(names()).toEqual(['e']);
});

const FORMATS = ['*/*', 'application/openmetrics-text'];

it('omits excluded families from /metrics and /probe in every format, without affecting polling and alerts', async () => {
  const { account, write, start, waits } = await setUp();
  const alerts = {
    enabled: true,
    evaluateEvery: '20ms',
    rules: [{ name: 'AnyKey', when: { above: { metric: 'delivery_flow_control_keys', value: 0 } } }],
  };
  const accounts = (exclude: string[]) => [
    account('a', { collect: { families: { exclude } } }),
    account('b', { token: 'token-canary-b' }),
  ];
  const { agent, reads, value } = await start({ accounts: accounts([]), alerts });
  const keys = (account: string) => value('delivery_flow_control_keys', { account });
  for (const name of ['a', 'b']) await eventually(async () => expect(await keys(name)).toBe(1));
  const firing = (name: string) => value('delivery_watch_alerts', { account: name, alert: 'AnyKey', state: 'firing' });
  await eventually(async () => expect(await firing('a')).toBe(1));
  const before = (await reads('a')) ?? 0;

  write({ accounts: accounts(['delivery_flow_control_k*']), alerts });
  expect(await agent.reload()).toEqual({ changed: ['accounts: a changed'] });
  expect(await keys('a')).toBeUndefined();
  expect(await keys('b')).toBe(1);
  for (const accept of FORMATS) {
    const has = async (path: string) =>
      (await (await fetch(agent.url + path, { headers: { accept } })).text()).includes('delivery_flow_control_keys');
    expect([await has('/metrics'), await has('/probe?account=a'), await has('/probe?account=b')]).toEqual([
      true,
      false,
      true,
    ]);
  }
  expect(await value('delivery_up', { account: 'a' })).toBe(1);
  await eventually(async () => expect(await reads('a')).toBeGreaterThan(before + 2));
  expect(await firing('a')).toBe(1);

  // Families that are no longer excluded are shown without a new read.
  waits.add('a');
  write({ accounts: accounts([]), alerts });
  expect(await agent.reload()).toEqual({ changed: ['accounts: a changed'] });
  expect(await keys('a')).toBe(1);

  write({
    accounts: accounts([]),
    alerts,
    collect: {
      flowControl: { every: '20ms' },
      dlq: { enabled: false },
      events: { enabled: false },
      families: { exclude: ['delivery_flow_control_k*'] },
    },
  });
  expect(await agent.reload()).toEqual({ changed: ['accounts: b changed', 'collect changed'] });
  expect(await keys('a')).toBe(1);
  expect(await keys('b')).toBeUndefined();
});
