import { expect, it } from 'vitest';
import { NO_ACCOUNT } from '../../src/store/store.ts';
import { eventually } from '../support/eventually.ts';
import { createSharedStore } from '../support/fake-replicas.ts';
import { createManualClock, settle } from '../support/manual-clock.ts';
import { accountNamed, configOf, type Opening, openSupervised } from '../support/supervised.ts';

const LEASE = 15_000;
const INTERVAL = LEASE / 5;
const MINUTE = 60_000;

interface Options {
  /** Interval of the flow-control rounds. */
  readonly every?: string;
}

/** Creates the supervisor of replica `one`. Opening `damaged` accounts fails. */
async function setUp(names: readonly string[], { every = '1s' }: Options = {}) {
  const clock = createManualClock();
  const database = createSharedStore(clock, LEASE);
  const damaged = new Set<string>();
  const held = new Map<string, Promise<void>>();
  const course: string[] = [];
  const openings: Opening[] = [];
  const inFlight = new Map<string, number>();
  const collect = { flowControl: { every }, dlq: { enabled: false }, events: { enabled: false } };
  const config = (accounts: readonly object[], more: object = {}) => configOf(accounts, { collect, ...more });
  const parts = await openSupervised({
    clock,
    store: database.join('one'),
    config: config(names.map(name => accountNamed(name))),
    intervals: { orders: MINUTE, retry: INTERVAL },
    async request({ settings: { name } }, send) {
      course.push(`request ${name}`);
      inFlight.set(name, (inFlight.get(name) ?? 0) + 1);
      await send().finally(() => inFlight.set(name, (inFlight.get(name) ?? 0) - 1));
    },
    async open(opening, open) {
      const { name } = opening.settings;
      openings.push(opening);
      course.push(`open ${name}`);
      await held.get(`open ${name}`);
      if (damaged.has(name)) throw new Error('damaged');
      const account = await open();
      return {
        ...account,
        async stop() {
          await account.stop();
          await held.get(`stop ${name}`);
          course.push(`stop ${name}`);
        },
      };
    },
  });
  const { supervisor, log } = parts;
  const rest = (...words: string[]) => course.filter(line => words.some(word => line.startsWith(word)));
  return {
    ...parts,
    clock,
    database,
    damaged,
    openings,
    inFlight,
    config,
    running: () => supervisor.state().running.map(({ name }) => name),
    /** Returns the `open` and `stop` lines of all accounts in order. */
    changes: () => rest('open', 'stop'),
    requests: (name: string) => course.filter(line => line === `request ${name}`).length,
    commits: (name: string) => database.course.filter(line => line === `one committed ${name}`).length,
    /** Delays a step (`open a`, `stop a`) until the returned function is called. */
    hold(what: string) {
      const { promise, resolve } = Promise.withResolvers<void>();
      held.set(what, promise);
      return () => {
        held.delete(what);
        resolve();
      };
    },
    handOvers: () =>
      log.lines
        .filter(({ message }) => message === 'accounts move between replicas')
        .map(({ level, fields }) => `${level} ${JSON.stringify(fields)}`),
    errors: () => log.lines.filter(({ level }) => level === 'error' || level === 'warn'),
  };
}

it('a replica runs the accounts it owns and logs gained and lost accounts in one line per change', async () => {
  const { clock, database, supervisor, changes, handOvers, running } = await setUp(['a', 'b', 'c']);
  for (const account of ['a', 'b']) database.place(account, 'one');
  database.place('c', 'two');
  expect(running()).toEqual([]);
  supervisor.start();
  await clock.advance(0);
  expect(running()).toEqual(['a', 'b']);
  database.place('b', 'two');
  await clock.advance(INTERVAL);
  expect(running()).toEqual(['a']);
  database.place('c', 'one');
  await clock.advance(INTERVAL);
  expect(running()).toEqual(['a', 'c']);
  expect(changes()).toEqual(['open a', 'open b', 'stop b', 'open c']);
  expect(handOvers()).toEqual([
    'info {"gained":"(shared: heartbeat), a, b","held":2}',
    'info {"lost":"b","held":1}',
    'info {"gained":"c","held":2}',
  ]);
  expect([...database.holders()]).toEqual([
    [NO_ACCOUNT, 'one'],
    ['a', 'one'],
    ['c', 'one'],
  ]);
});

it('saves an account before releasing its lease, and closes lost accounts before opening gained ones', async () => {
  const { clock, database, supervisor, changes, commits } = await setUp(['a', 'b']);
  database.place('b', 'two');
  supervisor.start();
  await clock.advance(1000);
  const before = commits('a');
  database.place('a', 'two');
  database.place('b', 'one');
  await clock.advance(INTERVAL);
  // Closing and opening take a varying number of turns of the event loop.
  await eventually(() => expect(changes()).toEqual(['open a', 'stop a', 'open b']));
  expect(commits('a')).toBeGreaterThan(before);
  const of = (account: string) => database.course.filter(line => line.endsWith(` ${account}`));
  expect(of('a').slice(-2)).toEqual(['one committed a', 'one released a']);
});

it('stops the requests and commits of a lost account immediately, even while another account is being opened', async () => {
  const scene = await setUp(['a', 'b', 'c']);
  const { clock, database, supervisor, openings, inFlight, hold, running, requests, commits, handOvers } = scene;
  for (const account of [NO_ACCOUNT, 'b']) database.place(account, 'one');
  database.place('c', 'two');
  supervisor.start();
  await clock.advance(0);
  const open = hold('open c');
  database.place('c', 'one');
  await clock.advance(INTERVAL);
  expect(openings.map(({ settings }) => settings.name)).toEqual(['a', 'b', 'c']);
  database.isUnavailable = true;
  await clock.advance(2 * LEASE);
  database.isUnavailable = false;
  database.place('a', 'two');
  await database.join('two').replicas.renew(['a']);
  await clock.advance(INTERVAL);
  // The supervisor removes `a` only after `c` is open, but `a` no longer sends requests or commits rows.
  expect(running()).toEqual(['a', 'b']);
  const [a] = openings;
  expect(inFlight.get('a')).toBe(0);
  const [sent, committed, others] = [requests('a'), commits('a'), requests('b')];
  await clock.advance(INTERVAL);
  expect([requests('a'), commits('a')]).toEqual([sent, committed]);
  expect(requests('b')).toBeGreaterThan(others);
  await expect(a?.deps.store.commit('a', [{ key: 'k', value: '1' }])).rejects.toMatchObject({ reason: 'not_held' });
  expect(await a?.deps.holding?.confirm('a')).toBe(false);
  open();
  await settle();
  expect(running()).toEqual(['b', 'c']);
  expect(handOvers().slice(-2)).toEqual(['info {"gained":"c","held":3}', 'info {"lost":"a","held":2}']);
  expect(commits('a')).toBe(committed);
  expect(scene.errors().filter(({ level }) => level === 'error')).toEqual([]);
});

it('closes an account before releasing its lease if the lease is lost while another account is being closed', async () => {
  const { clock, database, supervisor, hold, changes, requests } = await setUp(['a', 'b']);
  supervisor.start();
  await clock.advance(1000);
  const stop = hold('stop b');
  database.place('b', 'two');
  await clock.advance(INTERVAL);
  const rival = database.join('two').replicas;
  database.place('a', 'two');
  database.expire('a');
  await rival.renew(['a']);
  await clock.advance(INTERVAL);
  const stopA = hold('stop a');
  stop();
  await clock.advance(2 * INTERVAL);
  const released = () => database.course.filter(line => line.startsWith('one released'));
  expect(released()).toEqual(['one released b']);
  stopA();
  await clock.advance(INTERVAL);
  expect(released()).toEqual(['one released b', 'one released a']);
  database.place('a', 'one');
  await rival.release(['a']);
  const before = requests('a');
  await clock.advance(2 * INTERVAL);
  expect(
    changes()
      .filter(line => line.endsWith(' a'))
      .at(-1),
  ).toBe('open a');
  expect(requests('a')).toBeGreaterThan(before);
});

it('leaves the alerts of an account that is lost during a reload to the next holder, without resolving them', async () => {
  const { clock, database, supervisor, config, hold } = await setUp(['a', 'b']);
  const when = { above: { metric: 'delivery_flow_control_keys', value: 0 } };
  const alerts = { enabled: true, evaluateEvery: '1s', rules: [{ name: 'Keys', when }] };
  const [a, b] = [accountNamed('a'), accountNamed('b')];
  for (const account of [NO_ACCOUNT, 'b']) database.place(account, 'one');
  supervisor.start();
  await clock.advance(1000);
  await supervisor.reload(config([a, b], { alerts }), async () => undefined);
  await clock.advance(3000);
  const states = () => supervisor.alerting.alerts('a').map(({ state }) => state);
  expect(states()).toEqual(['firing']);
  const stop = hold('stop a');
  const changed = { ...a, region: 'x' };
  const reloaded = supervisor.reload(config([changed, b], { alerts }), async () => undefined);
  await settle();
  database.place('a', 'two');
  database.expire('a');
  await database.join('two').replicas.renew(['a']);
  await clock.advance(INTERVAL);
  stop();
  await reloaded;
  await clock.advance(INTERVAL);
  expect(states()).toEqual([]);
  expect(supervisor.alerting.evaluations).toHaveLength(1);
});

it('releases accounts that fail to open and retries them with increasing delays while the others keep running', async () => {
  const names = Array.from({ length: 8 }, (_, index) => `n${index}`);
  const { clock, damaged, database, supervisor, running, changes, log } = await setUp(names, { every: '1h' });
  for (const name of ['n2', 'n5']) damaged.add(name);
  supervisor.start();
  await clock.advance(0);
  expect(running()).toEqual(names.filter(name => !damaged.has(name)));
  // The supervisor tried to open each account once: a failure does not cause another attempt for other accounts.
  expect(changes()).toHaveLength(8);
  expect(database.holders().has('n2')).toBe(false);
  const failures = () => log.lines.filter(({ level }) => level === 'error').map(({ fields }) => fields);
  expect(failures()).toEqual([
    { account: 'n2', error: 'Error: damaged', seconds: 15 },
    { account: 'n5', error: 'Error: damaged', seconds: 15 },
  ]);
  // The accounts are shown as failed, because no other replica has opened them.
  expect(supervisor.state().running).toHaveLength(6);
  expect(supervisor.state().accounts).toHaveLength(8);
  await clock.advance(30 * MINUTE);
  expect(failures().length).toBeGreaterThan(10);
  expect(failures().length).toBeLessThan(24);
  damaged.clear();
  await clock.advance(10 * MINUTE);
  expect(running()).toEqual(names);
  expect(changes().filter(line => line.startsWith('stop'))).toEqual([]);
  expect(new Set(changes()).size).toBe(8);
});

it('keeps the leases of accounts that failed to open while the database was unavailable, and opens the accounts once it is available again', async () => {
  const { clock, database, damaged, supervisor, hold, running, errors } = await setUp(['a', 'b']);
  for (const name of ['a', 'b']) damaged.add(name);
  const open = ['open a', 'open b'].map(hold);
  supervisor.start();
  await clock.advance(0);
  database.isUnavailable = true;
  for (const go of open) go();
  await settle();
  expect(running()).toEqual([]);
  damaged.clear();
  database.isUnavailable = false;
  await clock.advance(INTERVAL);
  expect(running()).toEqual(['a', 'b']);
  expect(database.course.filter(line => line.includes('released'))).toEqual([]);
  expect(errors().filter(({ level }) => level === 'error')).toEqual([]);
});

it.each([
  ['fails', true],
  ['succeeds', false],
])('reports no failure for an account that is lost while it is being opened (opening %s)', async (_, fails) => {
  const { clock, database, damaged, supervisor, running, hold, requests, commits, errors } = await setUp(['a', 'b']);
  for (const account of [NO_ACCOUNT, 'b']) database.place(account, 'one');
  database.place('a', 'two');
  supervisor.start();
  await clock.advance(0);
  const open = hold('open a');
  database.place('a', 'one');
  await clock.advance(INTERVAL);
  if (fails) damaged.add('a');
  database.place('a', 'two');
  database.expire('a');
  await database.join('two').replicas.renew(['a']);
  await clock.advance(INTERVAL);
  const released = () => database.course.filter(line => line === 'one released a');
  // The account is still being opened.
  expect(released()).toEqual([]);
  open();
  await settle();
  expect(running()).toEqual(['b']);
  await clock.advance(2 * INTERVAL);
  expect(released()).toHaveLength(1);
  expect([requests('a'), commits('a')]).toEqual([0, 0]);
  expect(errors()).toEqual([]);
});

it('a handover waits for a running reload, and a reload waits for a running handover', async () => {
  const { clock, database, supervisor, config, hold, running, changes } = await setUp(['a', 'b']);
  database.place('b', 'two');
  const port = Promise.withResolvers<void>();
  const names = ['a', 'b'].map(name => accountNamed(name));
  const reloading = supervisor.reload(config(names, { log: { level: 'warn' } }), () => port.promise);
  supervisor.start();
  await clock.advance(0);
  expect(changes()).toEqual([]);
  port.resolve();
  await reloading;
  await settle();
  expect(running()).toEqual(['a']);
  const open = hold('open b');
  database.place('b', 'one');
  await clock.advance(INTERVAL);
  expect(changes()).toEqual(['open a', 'open b']);
  let isCommitted = false;
  const next = supervisor.reload(config([accountNamed('a', { region: 'x' }), names[1] ?? {}]), async () => {
    isCommitted = true;
  });
  await settle();
  expect([isCommitted, changes().length]).toEqual([false, 2]);
  open();
  await next;
  expect(changes().slice(2)).toEqual(['stop a', 'open a']);
  expect(running()).toEqual(['a', 'b']);
});

it('opens no further account once stopped, and waits for the account that is being opened', async () => {
  const { clock, database, supervisor, hold, changes, requests } = await setUp(['a', 'b']);
  database.place('b', 'two');
  const open = hold('open a');
  supervisor.start();
  await clock.advance(0);
  let isStopped = false;
  const stopped = supervisor.stop().then(() => {
    isStopped = true;
  });
  database.place('b', 'one');
  await clock.advance(2 * INTERVAL);
  expect(isStopped).toBe(false);
  open();
  await stopped;
  await clock.advance(2 * INTERVAL);
  expect(changes()).toEqual(['open a']);
  expect([requests('a'), requests('b')]).toEqual([0, 0]);
});
