import { expect, it } from 'vitest';
import { systemClock } from '../../src/kit/clock.ts';
import { NO_ACCOUNT } from '../../src/store/store.ts';
import { eventually } from '../support/eventually.ts';
import { json, serve } from '../support/http-service.ts';
import { createReplicas, LEASE, type StartedReplica } from '../support/replicas.ts';

/** Starts a service with one key per account. `start` starts a replica that polls it. */
async function setUp() {
  /** One `replica account` entry per request, in order. */
  const calls: string[] = [];
  const arrivals = new Map<string, () => void>();
  const service = await serve((request, response) => {
    const [replica, account = ''] = (request.headers.authorization ?? '').replace('Bearer token.', '').split('.');
    calls.push(`${replica} ${account}`);
    json(response, { flowControls: [{ flowControlKey: account, waitListSize: 7 }] });
    arrivals.get(`${replica} ${account}`)?.();
  });
  /** Calls `act` right after the response to the next request `call` (`replica account`), when no request is in flight. */
  const atNext = (call: string, act: () => void) =>
    new Promise<void>(resolve =>
      arrivals.set(call, () => {
        arrivals.delete(call);
        act();
        resolve();
      }),
    );
  const replicas = createReplicas();
  const configOf = (id: string, names: readonly string[], more: object = {}) => ({
    collect: { flowControl: { every: '20ms' }, dlq: { enabled: false }, events: { enabled: false } },
    accounts: names.map(name => ({
      name,
      baseUrl: service.url,
      token: `token.${id}.${name}`,
      budget: { requestsPerSecond: 5000, burst: 5000 },
      ...more,
    })),
  });
  const start = (id: string, names: readonly string[], clock = systemClock) =>
    replicas.start(id, configOf(id, names), clock);
  async function accountsOf(replica: StartedReplica) {
    const { samples } = await replica.scrape();
    return samples('delivery_flow_control_waitlist_size').map(({ labels }) => labels.account);
  }
  const shown = (...all: StartedReplica[]) => Promise.all(all.map(accountsOf));
  return { ...replicas, calls, atNext, configOf, start, shown };
}

it('a replica opens gained accounts, closes lost ones, and is ready immediately after startup', async () => {
  const { database, start, shown } = await setUp();
  for (const name of [NO_ACCOUNT, 'a', 'b']) database.place(name, 'one');
  database.place('c', 'two');
  const one = await start('one', ['a', 'b', 'c']);
  expect((await fetch(`${one.agent.url}/-/ready`)).status).toBe(200);
  const two = await start('two', ['a', 'b', 'c']);
  await eventually(async () => expect(await shown(one, two)).toEqual([['a', 'b'], ['c']]));
  database.place('b', 'two');
  await eventually(async () => expect(await shown(one, two)).toEqual([['a'], ['b', 'c']]));
  const [ofOne, ofTwo] = await Promise.all([one.scrape(), two.scrape()]);
  const leads = ({ samples }: typeof ofOne) =>
    samples('delivery_watch_leader').map(({ labels, value }) => `${labels.account} ${value}`);
  expect([leads(ofOne), leads(ofTwo)]).toEqual([
    ['a 1', 'b 0', 'c 0'],
    ['a 0', 'b 1', 'c 1'],
  ]);
  expect(ofTwo.sum('delivery_watch_lease_hand_overs_total', { reason: 'gained' })).toBe(2);
  await eventually(async () =>
    expect((await one.scrape()).sum('delivery_watch_lease_hand_overs_total', { reason: 'released' })).toBe(1),
  );
});

it('a reload opens accounts added to the configuration, and closes and releases removed ones', async () => {
  const { database, configOf, start, shown } = await setUp();
  database.place('b', 'two');
  const one = await start('one', ['a', 'b']);
  await eventually(async () => expect(await shown(one)).toEqual([['a']]));
  one.write(configOf('one', ['b', 'c']));
  expect(await one.agent.reload()).toEqual({ changed: ['accounts: a removed, c added'] });
  await eventually(async () => expect(await shown(one)).toEqual([['c']]));
  await eventually(() => expect(database.holders().has('a')).toBe(false));
  one.write(configOf('one', ['b', 'c'], { labels: { team: 'x' }, region: 'x' }));
  expect(await one.agent.reload()).toEqual({ changed: ['accounts: b changed, c changed'] });
});

it('a replica completes a reload and a handover that run concurrently', async () => {
  const { database, configOf, start, shown } = await setUp();
  const names = ['a', 'b', 'c', 'd'];
  for (const name of names) database.place(name, 'one');
  const one = await start('one', names);
  const two = await start('two', names);
  for (let time = 0; time < 6; time += 1) {
    const [giver, taker] = time % 2 === 0 ? (['one', 'two'] as const) : (['two', 'one'] as const);
    for (const name of ['a', 'b']) database.place(name, taker);
    const labels = { labels: { time: String(time) }, region: `r${time}` };
    for (const [id, replica] of [
      ['one', one],
      ['two', two],
    ] as const)
      replica.write(configOf(id, names, labels));
    const answers = await Promise.all([one.agent.reload(), two.agent.reload()]);
    for (const answer of answers) expect(answer).toMatchObject({ changed: [expect.stringMatching('a changed')] });
    const expected = { [giver]: giver === 'one' ? ['c', 'd'] : [], [taker]: taker === 'one' ? names : ['a', 'b'] };
    await eventually(async () => expect(await shown(one, two)).toEqual([expected.one, expected.two]));
    // On a busy machine, leases of half a second may be renewed late. The replica then briefly shows no data.
    await eventually(async () => {
      const infos = (await Promise.all([one.scrape(), two.scrape()])).flatMap(({ samples }) =>
        samples('delivery_account_info', { time: String(time) }),
      );
      expect(infos.map(({ labels }) => labels.account).toSorted()).toEqual(names);
    });
  }
});

it('a replica saves all accounts at shutdown and then releases them', async () => {
  const { database, start, shown } = await setUp();
  const one = await start('one', ['a', 'b']);
  await eventually(async () => expect(await shown(one)).toEqual([['a', 'b']]));
  const two = await start('two', ['a', 'b']);
  const before = database.course.length;
  await one.agent.close();
  const course = database.course.slice(before).filter(step => step.startsWith('one'));
  const at = (step: string) => course.lastIndexOf(step);
  for (const name of ['a', 'b']) {
    expect(at(`one committed ${name}`)).toBeGreaterThanOrEqual(0);
    expect(at(`one committed ${name}`)).toBeLessThan(at(`one released ${name}`));
  }
  expect(course.slice(-2)).toEqual(['one left', 'one closed']);
  await eventually(async () => expect(await shown(two)).toEqual([['a', 'b']]));
});

it('a paused replica sends no request for an account that moved to another replica during the pause', async () => {
  const { database, time, calls, atNext, start, shown } = await setUp();
  for (const name of [NO_ACCOUNT, 'b']) database.place(name, 'one');
  let paused = 0;
  const clock = { ...systemClock, monotonic: () => systemClock.monotonic() + paused };
  const one = await start('one', ['a', 'b'], clock);
  await eventually(async () => expect(await shown(one)).toEqual([['a', 'b']]));
  // When a paused process continues, its monotonic clock has advanced, and the response of the database is still pending.
  let resume: (() => void) | undefined;
  let since = 0;
  await atNext('one a', () => {
    resume = database.hang('one');
    paused += 3 * LEASE;
    since = calls.length;
  });
  await time.advance(3 * LEASE);
  database.place('a', 'two');
  const two = await start('two', ['a', 'b']);
  await eventually(async () => expect(await shown(two)).toEqual([['a']]));
  resume?.();
  await eventually(async () => expect(await shown(one, two)).toEqual([['b'], ['a']]));
  await eventually(() => expect(calls.slice(since).filter(call => call === 'one b').length).toBeGreaterThan(5));
  expect(calls.slice(since)).not.toContain('one a');
  // The first replica commits nothing for the account after the second one has gained it.
  const gained = database.course.lastIndexOf('two gained a');
  expect(database.course.slice(gained)).not.toContain('one committed a');
});

it('a replica keeps its accounts and keeps polling during and after a database outage that is longer than a lease', async () => {
  const { database, calls, start, shown } = await setUp();
  const one = await start('one', ['a', 'b']);
  await eventually(async () => expect(await shown(one)).toEqual([['a', 'b']]));
  database.isUnavailable = true;
  const course = database.course.length;
  const until = systemClock.monotonic() + 2 * LEASE;
  await eventually(() => expect(systemClock.monotonic()).toBeGreaterThan(until));
  const since = calls.length;
  await eventually(() => expect(new Set(calls.slice(since))).toEqual(new Set(['one a', 'one b'])));
  // On a busy machine, data that is read every 20 ms may be stale for a moment.
  await eventually(async () => expect(await shown(one)).toEqual([['a', 'b']]));
  expect(database.course.slice(course)).toEqual([]);
  database.isUnavailable = false;
  const reads = () => calls.length;
  const before = reads();
  await eventually(() => expect(reads()).toBeGreaterThan(before + 10));
  expect(database.course.slice(course).filter(step => /gained|released/.test(step))).toEqual([]);
  await eventually(async () => expect(await shown(one)).toEqual([['a', 'b']]));
});

it('a replica runs all accounts except one with damaged rows, and releases that account', async () => {
  const { database, start, shown } = await setUp();
  await database.rows.commit('b', [{ key: 'budget/spent', value: 'no JSON' }]);
  const one = await start('one', ['a', 'b', 'c', 'd']);
  await eventually(async () => expect(await shown(one)).toEqual([['a', 'c', 'd']]));
  await eventually(() => expect(database.course).toContain('one released b'));
  expect(database.holders().has('b')).toBe(false);
});

it('a replica stops reporting an account that it failed to open once another replica has opened it', async () => {
  const { database, start, shown } = await setUp();
  const key = 'budget/spent';
  await database.rows.commit('b', [{ key, value: 'no JSON' }]);
  database.place('a', 'one');
  database.place('b', 'two');
  const one = await start('one', ['a', 'b']);
  await eventually(async () => expect(await shown(one)).toEqual([['a']]));
  const failures = () => {
    const rounds = one.agent.status().flatMap(({ collectors }) => collectors.flatMap(({ rounds }) => rounds));
    return rounds.flatMap(({ failure }) => failure?.reason ?? []);
  };
  database.place('b', 'one');
  await eventually(() => expect(failures()).toEqual(['store']));
  await database.rows.commit('b', [{ key, value: null }]);
  database.place('b', 'two');
  const two = await start('two', ['a', 'b']);
  await eventually(async () => expect(await shown(one, two)).toEqual([['a'], ['b']]));
  await eventually(() => expect(failures()).toEqual([]));
});
