import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { hashSync } from 'bcryptjs';
import { expect, it } from 'vitest';
import { systemClock } from '../../src/kit/clock.ts';
import { eventually } from '../support/eventually.ts';
import { newFolder } from '../support/folder.ts';
import { createGroup, LEASE, type StartedProcess } from '../support/group.ts';
import { json, serve } from '../support/http-service.ts';

/** Starts a service with one key per account. `start` starts a process that polls it when it leads. */
async function setUp() {
  /** One `process account` entry per request, in order. */
  const calls: string[] = [];
  const arrivals = new Map<string, () => void>();
  const service = await serve((request, response) => {
    const [process, account = ''] = (request.headers.authorization ?? '').replace('Bearer token.', '').split('.');
    calls.push(`${process} ${account}`);
    json(response, { flowControls: [{ flowControlKey: account, waitListSize: 7 }] });
    arrivals.get(`${process} ${account}`)?.();
  });
  /** Calls `act` right after the response to the next request `call` (`process account`), when no request is in flight. */
  const atNext = (call: string, act: () => void) =>
    new Promise<void>(resolve =>
      arrivals.set(call, () => {
        arrivals.delete(call);
        act();
        resolve();
      }),
    );
  const group = createGroup();
  const configOf = (id: string, names: readonly string[], more: object = {}, others: object = {}) => ({
    collect: { flowControl: { every: '20ms' }, dlq: { enabled: false }, events: { enabled: false } },
    accounts: names.map(name => ({
      name,
      baseUrl: service.url,
      token: `token.${id}.${name}`,
      budget: { requestsPerSecond: 5000, burst: 5000 },
      ...more,
    })),
    ...others,
  });
  const start = (id: string, names: readonly string[], clock = systemClock) =>
    group.start(id, configOf(id, names), clock);
  async function accountsOf(process: StartedProcess) {
    const { samples } = await process.scrape();
    return samples('delivery_flow_control_waitlist_size').map(({ labels }) => labels.account);
  }
  const shown = (...all: StartedProcess[]) => Promise.all(all.map(accountsOf));
  return { ...group, startWith: group.start, calls, atNext, configOf, start, shown };
}

const BOTH = ['a', 'b'];

it('the leader runs all accounts, and a standby exposes only the families of the agent, with delivery_watch_leader 0', async () => {
  const { calls, start, shown } = await setUp();
  const one = await start('one', BOTH);
  await eventually(async () => expect(await shown(one)).toEqual([BOTH]));
  const two = await start('two', BOTH);
  for (const path of ['/-/healthy', '/-/ready']) expect((await fetch(two.agent.url + path)).status).toBe(200);
  const [ofOne, ofTwo] = await Promise.all([one.scrape(), two.scrape()]);
  const leads = ({ samples }: typeof ofOne) =>
    samples('delivery_watch_leader').map(({ labels, value }) => `${labels.schema} ${value}`);
  expect([leads(ofOne), leads(ofTwo)]).toEqual([['delivery_watch 1'], ['delivery_watch 0']]);
  const text = await (await fetch(`${two.agent.url}/metrics`)).text();
  expect(text).not.toContain('account="');
  expect(text).toContain('process_resident_memory_bytes');
  expect(calls.filter(call => call.startsWith('two'))).toEqual([]);
});

it('a standby answers every GET route with the response of the leader, and names the leader if the leader does not respond', async () => {
  const { database, start, shown } = await setUp();
  const one = await start('one', BOTH);
  await eventually(async () => expect(await shown(one)).toEqual([BOTH]));
  const two = await start('two', BOTH);
  const get = (path: string, headers: Record<string, string> = {}) => fetch(two.agent.url + path, { headers });
  await eventually(async () => expect((await get('/api/v1/sd')).status).toBe(200));
  const targets = (await (await get('/api/v1/sd')).json()) as { targets: string[]; labels: Record<string, string> }[];
  expect(targets.map(({ targets, labels }) => [...targets, labels.__param_account])).toEqual(
    BOTH.map(account => [new URL(one.agent.url).host, account]),
  );
  const probe = await get('/probe?account=b', { accept: 'application/openmetrics-text' });
  expect([probe.status, probe.headers.get('content-type')]).toEqual([200, expect.stringContaining('openmetrics')]);
  expect(await probe.text()).toContain('delivery_flow_control_waitlist_size{account="b"');
  for (const path of ['/', '/accounts/a', '/auto-cancel', '/runbooks/DeliveryNoLeader']) {
    const page = await get(path);
    expect([path, page.status, page.headers.get('content-security-policy')]).toEqual([
      path,
      200,
      expect.stringContaining("default-src 'none'"),
    ]);
  }
  for (const path of ['status', 'overview', 'report', 'accounts/a', 'alerts', 'journal', 'auto-cancel']) {
    expect([path, (await get(`/api/v1/${path}`)).status]).toEqual([path, 200]);
  }
  expect([(await get('/probe?account=x')).status, (await get('/api/v1/explain')).status]).toEqual([404, 400]);
  expect((await fetch(`${two.agent.url}/`, { method: 'HEAD' })).status).toBe(200);

  // The leader cannot be reached at its address.
  database.answersAt('one', 'http://127.0.0.1:9');
  await eventually(async () => {
    const refused = await get('/api/v1/status');
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '5']);
    expect(await refused.json()).toEqual({
      error: expect.stringMatching(
        /^this process is a standby, and the leader http:\/\/127\.0\.0\.1:9, which renewed its lease \d+ s ago, did not respond \(ECONNREFUSED\)$/,
      ),
    });
  });
  expect((await get('/-/ready')).status).toBe(200);
});

it('a standby without a leader answers 503, and does not forward a request that another standby has forwarded', async () => {
  const { database, start } = await setUp();
  database.next = 'nobody';
  const one = await start('one', BOTH);
  for (const path of ['/', '/api/v1/status', '/api/v1/sd', '/probe?account=a'])
    expect([path, (await fetch(one.agent.url + path)).status]).toEqual([path, 503]);
  expect((await fetch(`${one.agent.url}/metrics`)).status).toBe(200);
});

it('on SIGTERM, the leader saves everything before it releases the lease, and a standby then takes over', async () => {
  const { database, start, shown } = await setUp();
  const one = await start('one', BOTH);
  await eventually(async () => expect(await shown(one)).toEqual([BOTH]));
  const two = await start('two', BOTH);
  const before = database.course.length;
  await one.agent.close();
  const course = database.course.slice(before);
  for (const name of BOTH) {
    const saved = course.lastIndexOf(`one committed ${name}`);
    expect(saved).toBeGreaterThanOrEqual(0);
    expect(saved).toBeLessThan(course.indexOf('one released'));
  }
  await eventually(async () => expect(await shown(two)).toEqual([BOTH]));
  expect(one.isLost).toBe(false);
});

it('a leader that resumes after a takeover sends no request, commits nothing and ends', async () => {
  const { database, time, calls, atNext, start, shown } = await setUp();
  let paused = 0;
  const clock = { ...systemClock, monotonic: () => systemClock.monotonic() + paused };
  const one = await start('one', BOTH, clock);
  await eventually(async () => expect(await shown(one)).toEqual([BOTH]));
  // When a paused process continues, its monotonic clock has advanced, and the response of the database is still pending.
  let resume: (() => void) | undefined;
  let since = 0;
  await atNext('one a', () => {
    resume = database.hang('one');
    paused += 3 * LEASE;
    since = calls.length;
  });
  await time.advance(3 * LEASE);
  database.next = 'two';
  const two = await start('two', BOTH);
  await eventually(async () => expect(await shown(two)).toEqual([BOTH]));
  expect(await shown(one)).toEqual([[]]);
  resume?.();
  await eventually(() => expect(one.isLost).toBe(true));
  const later = calls.slice(since);
  expect(later.filter(call => call === 'one a')).toEqual([]);
  const won = database.course.lastIndexOf('two leads');
  expect(database.course.slice(won).filter(step => step.startsWith('one committed'))).toEqual([]);
});

it('a leader keeps reading during a database outage that is longer than the lease, and commits nothing', async () => {
  const { database, calls, start, shown } = await setUp();
  const one = await start('one', BOTH);
  await eventually(async () => expect(await shown(one)).toEqual([BOTH]));
  database.isUnavailable = true;
  const course = database.course.length;
  const until = systemClock.monotonic() + 2 * LEASE;
  await eventually(() => expect(systemClock.monotonic()).toBeGreaterThan(until));
  const since = calls.length;
  await eventually(() => expect(new Set(calls.slice(since))).toEqual(new Set(['one a', 'one b'])));
  // On a busy machine, data that is read every 20 ms may be stale for a moment.
  await eventually(async () => expect(await shown(one)).toEqual([BOTH]));
  expect(database.course.slice(course)).toEqual([]);
  database.isUnavailable = false;
  const before = calls.length;
  await eventually(() => expect(calls.length).toBeGreaterThan(before + 10));
  expect(database.course.slice(course).filter(step => /leads|released/.test(step))).toEqual([]);
  expect(one.isLost).toBe(false);
});

it('a reload of the leader changes its accounts, and a reload of a standby changes the accounts that it opens after a takeover', async () => {
  const { configOf, start, shown } = await setUp();
  const one = await start('one', BOTH);
  await eventually(async () => expect(await shown(one)).toEqual([BOTH]));
  const two = await start('two', BOTH);
  one.write(configOf('one', ['b', 'c']));
  expect(await one.agent.reload()).toEqual({ changed: ['accounts: a removed, c added'] });
  await eventually(async () => expect(await shown(one)).toEqual([['b', 'c']]));
  two.write(configOf('two', ['b', 'c']));
  expect(await two.agent.reload()).toEqual({ changed: ['accounts: a removed, c added'] });
  expect(await shown(two)).toEqual([[]]);
  await one.agent.close();
  await eventually(async () => expect(await shown(two)).toEqual([['b', 'c']]));
});

it('the leader runs all accounts except one with damaged rows, and keeps the lease', async () => {
  const { database, start, shown } = await setUp();
  await database.rows.commit('b', [{ key: 'budget/spent', value: 'no JSON' }]);
  const one = await start('one', ['a', 'b', 'c']);
  await eventually(async () => expect(await shown(one)).toEqual([['a', 'c']]));
  const { samples } = await one.scrape();
  expect(samples('delivery_up', { account: 'b' }).map(({ value }) => value)).toEqual([0]);
  expect(samples('delivery_watch_leader').map(({ value }) => value)).toEqual([1]);
});

it('a standby executes POST commands, and shows pages for the user whom it has authenticated', async () => {
  const { configOf, database, start: _, ...group } = await setUp();
  const webConfigFile = join(newFolder(), 'web.yaml');
  writeFileSync(webConfigFile, JSON.stringify({ basic_auth_users: { ann: hashSync('password', 4) } }));
  const rule = {
    name: 'r',
    mode: 'plan',
    match: { url: { prefix: ['https://'] } },
    stuckWhen: { inProgressFor: '48h' },
  };
  const others = {
    server: { listen: '127.0.0.1:0', lifecycle: true, webConfigFile },
    autoCancel: { mode: 'plan', rules: [rule] },
    collect: { flowControl: { enabled: false }, dlq: { every: '1s' }, events: { enabled: false } },
  };
  const start = (id: string) => group.startWith(id, configOf(id, ['a'], {}, others));
  const one = await start('one');
  const two = await start('two');
  const headers = { authorization: `Basic ${Buffer.from('ann:password').toString('base64')}` };
  const get = async (path: string) => (await fetch(two.agent.url + path, { headers })).text();
  await eventually(async () => expect(await get('/auto-cancel')).toContain('auto-cancel pause --reason TEXT'));
  expect((await fetch(`${two.agent.url}/auto-cancel`)).status).toBe(401);
  const paused = await fetch(`${two.agent.url}/api/v1/auto-cancel/pause`, {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json' },
    body: JSON.stringify({ reason: 'incident 7' }),
  });
  expect(paused.status).toBe(200);
  await eventually(async () => expect(await get('/api/v1/auto-cancel')).toMatch(/"by":"ann","reason":"incident 7"/));
  expect(database.leader()).toBe('one');
  expect(one.isLost).toBe(false);
});
