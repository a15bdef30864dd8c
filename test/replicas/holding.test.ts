import { expect, it } from 'vitest';
import type { Clock } from '../../src/kit/clock.ts';
import { createLeaseHolder, type LeaseEvents, withLeaseCheck } from '../../src/replicas/holding.ts';
import { NO_ACCOUNT } from '../../src/store/store.ts';
import { createSharedStore } from '../support/fake-replicas.ts';
import { createManualClock } from '../support/manual-clock.ts';
import { createTestLog } from '../support/silent.ts';

const LEASE = 15_000;
/** Time in which each replica renews at least once, regardless of the jitter (ms). */
const INTERVAL = LEASE / 5;

/** Creates a database and replicas that share these accounts. */
function setUp(...accounts: string[]) {
  const clock = createManualClock();
  const database = createSharedStore(clock, LEASE);
  function join(id: string, events: Partial<LeaseEvents> = {}) {
    const store = database.join(id);
    const log = createTestLog();
    const holding = createLeaseHolder({ replicas: store.replicas, accounts, clock, random: () => 0, log });
    holding.start({ lost: () => undefined, renewed: () => undefined, ...events });
    const held = () => [NO_ACCOUNT, ...accounts].filter(holding.held);
    return { store, log, holding, held };
  }
  return { clock, database, join };
}

/** Returns the clock of a process, and a function that simulates a pause of twice the lease time. */
function pausable(clock: Pick<Clock, 'monotonic'>) {
  let paused = 0;
  return {
    clock: { monotonic: () => clock.monotonic() + paused },
    pause() {
      paused += 2 * LEASE;
    },
  };
}

it('a replica acquires its share, reports accounts above its share as excess, and reports lost accounts', async () => {
  const { clock, database, join } = setUp('a', 'b', 'c');
  const lost: string[] = [];
  const one = join('one', { lost: names => void lost.push(...names) });
  await clock.advance(0);
  expect(one.held()).toEqual([NO_ACCOUNT, 'a', 'b', 'c']);

  const two = join('two');
  await clock.advance(INTERVAL);
  expect(one.held()).toEqual([NO_ACCOUNT, 'a']);
  expect(Object.fromEntries(one.holding.leaving())).toEqual({ b: 'excess', c: 'excess' });
  expect(two.held()).toEqual([]);
  await one.holding.release(['b', 'c']);
  await clock.advance(INTERVAL);
  expect(two.held()).toEqual(['b', 'c']);
  expect([...(two.holding.sharing()?.holders ?? [])].toSorted()).toEqual([
    [NO_ACCOUNT, 'one'],
    ['a', 'one'],
    ['b', 'two'],
    ['c', 'two'],
  ]);

  // Another replica acquires all leases while this one cannot renew.
  database.isUnavailable = true;
  await clock.advance(2 * LEASE);
  database.isUnavailable = false;
  database.place('a', 'two');
  await two.holding.renew();
  await one.holding.renew();
  expect(lost).toEqual([NO_ACCOUNT, 'a']);
  expect(Object.fromEntries(one.holding.leaving())).toEqual({ [NO_ACCOUNT]: 'lost', a: 'lost' });
});

it('a replica logs the start and the end of a database outage once each, and keeps the accounts', async () => {
  const { clock, database, join } = setUp('a');
  const { log, holding, held } = join('one');
  await clock.advance(0);
  const since = clock.now();
  database.isUnavailable = true;
  await clock.advance(2 * LEASE);
  expect(held()).toEqual([NO_ACCOUNT, 'a']);
  expect(holding.remaining('a')).toBe(0);
  expect([holding.isUnavailable(), holding.unavailableSince()]).toEqual([true, since + INTERVAL]);
  database.isUnavailable = false;
  await clock.advance(INTERVAL);
  expect([holding.isUnavailable(), holding.unavailableSince()]).toEqual([false, undefined]);
  expect(held()).toEqual([NO_ACCOUNT, 'a']);
  expect(log.lines.map(({ level, message }) => `${level}: ${message}`)).toEqual([
    'warn: database unavailable: polling continues, counters are frozen, auto-cancel is suspended',
    'info: database available again',
  ]);
});

it('confirm checks the holder after a lease has expired, but does not repeat the check while the database is unavailable', async () => {
  const clock = createManualClock();
  const database = createSharedStore(clock, LEASE);
  const own = pausable(clock);
  const { replicas } = database.join('one', own.clock);
  let asked = 0;
  function renew(accounts: readonly string[]) {
    asked += 1;
    return replicas.renew(accounts);
  }
  const deps = { accounts: ['a', 'b'], clock: { ...clock, ...own.clock }, random: () => 0, log: createTestLog() };
  const holding = createLeaseHolder({ ...deps, replicas: { ...replicas, renew } });
  await holding.renew();

  own.pause();
  expect(holding.remaining('a')).toBe(0);
  expect(await Promise.all([holding.confirm('a'), holding.confirm('b')])).toEqual([true, true]);
  expect([asked, holding.remaining('a') > 0]).toEqual([2, true]);

  own.pause();
  database.isUnavailable = true;
  for (let time = 0; time < 3; time += 1) expect(await holding.confirm('a')).toBe(true);
  expect(asked).toBe(3);

  database.isUnavailable = false;
  await clock.advance(2 * LEASE);
  own.pause();
  database.place('a', 'two');
  await database.join('two').replicas.renew(['a']);
  expect(await Promise.all([holding.confirm('a'), holding.confirm('b')])).toEqual([false, true]);
  expect(holding.held('a')).toBe(false);
});

it('isCurrent treats a lease as valid until it expires, and also while the database is unavailable, but not after a pause of the process', async () => {
  const clock = createManualClock();
  const database = createSharedStore(clock, LEASE);
  const own = pausable(clock);
  const { replicas } = database.join('one', own.clock);
  let isStopped = false;
  async function renew(accounts: readonly string[]) {
    if (isStopped) own.pause();
    return replicas.renew(accounts);
  }
  const deps = { accounts: ['a'], clock: { ...clock, ...own.clock }, random: () => 0, log: createTestLog() };
  const holding = createLeaseHolder({ ...deps, replicas: { ...replicas, renew } });
  await holding.renew();
  expect(holding.isCurrent('a')).toBe(true);
  own.pause();
  expect(holding.isCurrent('a')).toBe(false);
  await holding.renew();
  expect(holding.isCurrent('a')).toBe(true);

  // The process is paused during a renewal, and the connection breaks during the pause.
  [isStopped, database.isUnavailable] = [true, true];
  await holding.renew();
  expect([holding.isCurrent('a'), holding.isUnavailable()]).toEqual([false, false]);
  isStopped = false;
  await holding.renew();
  expect([holding.isCurrent('a'), holding.isUnavailable()]).toEqual([true, true]);
});

it.each([
  ['has taken over', false],
  ['has not taken over', true],
])(
  'confirm renews again if the renewal in flight started before the process was paused: another replica %s',
  async (_, isOurs) => {
    const clock = createManualClock();
    const database = createSharedStore(clock, LEASE);
    const own = pausable(clock);
    const { replicas } = database.join('one', own.clock);
    const arrival = Promise.withResolvers<void>();
    let answers: Promise<void> = Promise.resolve();
    async function renew(accounts: readonly string[]) {
      const turn = await replicas.renew(accounts);
      await answers;
      return turn;
    }
    const deps = { accounts: ['a'], clock: { ...clock, ...own.clock }, random: () => 0, log: createTestLog() };
    const holding = createLeaseHolder({ ...deps, replicas: { ...replicas, renew } });
    await holding.renew();
    answers = arrival.promise;
    const underWay = holding.renew();
    await clock.advance(2 * LEASE);
    own.pause();
    if (!isOurs) {
      database.place('a', 'two');
      await database.join('two').replicas.renew(['a']);
    }
    const confirmed = holding.confirm('a');
    arrival.resolve();
    await underWay;
    expect(holding.held('a')).toBe(true);
    expect(await confirmed).toBe(isOurs);
  },
);

it('a replica that failed to open an account waits before reacquiring it, so that other replicas can acquire it', async () => {
  const { clock, join } = setUp('a', 'b');
  const { holding, held } = join('one');
  await clock.advance(0);
  await holding.refuse('a', 2 * INTERVAL);
  await clock.advance(INTERVAL);
  expect(held()).toEqual([NO_ACCOUNT, 'b']);
  await clock.advance(2 * INTERVAL);
  expect(held()).toEqual([NO_ACCOUNT, 'a', 'b']);
});

it('a replica retries a release that failed while the database was unavailable', async () => {
  const { clock, database, join } = setUp('a');
  const one = join('one');
  await clock.advance(0);
  database.place('a', 'two');
  await one.holding.renew();
  database.isUnavailable = true;
  await one.holding.release(['a']);
  expect(database.holders().get('a')).toBe('one');
  database.isUnavailable = false;
  await clock.advance(INTERVAL);
  expect(database.holders().has('a')).toBe(false);
});

it('closing releases all leases, so that another replica acquires them at its next renewal; a failed release is logged', async () => {
  const { clock, database, join } = setUp('a', 'b');
  const one = join('one');
  const two = join('two');
  await clock.advance(INTERVAL);
  one.holding.drain();
  // Leases are still renewed while accounts are being closed.
  await clock.advance(2 * LEASE);
  expect(database.holders().get('a')).toBe('one');
  await one.holding.close();
  expect([...database.holders().values()]).not.toContain('one');
  await two.holding.renew();
  expect(two.held()).toEqual([NO_ACCOUNT, 'a', 'b']);
  expect(two.holding.sharing()?.replicas.map(({ id }) => id)).toEqual(['two']);
  database.isUnavailable = true;
  await two.holding.close();
  expect(two.log.lines.at(-1)).toMatchObject({
    level: 'warn',
    message: 'failed to release accounts: other replicas acquire them when the leases expire',
  });
  expect(clock.sleepers).toBe(0);
});

it('withLeaseCheck rejects a commit for a lost account and reports the account as lost', async () => {
  const { clock, database, join } = setUp('a');
  const lost: string[] = [];
  const one = join('one', { lost: names => void lost.push(...names) });
  const store = withLeaseCheck(one.store, one.holding);
  await clock.advance(0);
  await store.commit('a', [{ key: 'k', value: '1' }]);
  database.place('a', 'two');
  await clock.advance(INTERVAL);
  await one.holding.renew();
  database.expire('a');
  await database.join('two').replicas.renew(['a']);
  await expect(store.commit('a', [{ key: 'k', value: '2' }])).rejects.toMatchObject({ reason: 'not_held' });
  expect(lost).toContain('a');
  expect((await database.rows.scan('a', 'k')).get('k')).toBe('1');
});

it('while the database is unavailable, a replica sends it only renewals', async () => {
  const { clock, database, join } = setUp('a');
  const one = join('one');
  const store = withLeaseCheck(one.store, one.holding);
  await clock.advance(0);
  database.isUnavailable = true;
  await expect(store.commit('a', [{ key: 'k', value: '1' }])).rejects.toMatchObject({ reason: 'io' });
  expect(one.holding.isUnavailable()).toBe(true);
  database.isUnavailable = false;
  const changes = [{ key: 'k', value: '1' }];
  for (const ask of [() => store.commit('a', changes), () => store.scan('a', 'k'), () => store.sizes('a', 'k')]) {
    await expect(ask()).rejects.toMatchObject({ reason: 'io' });
  }
  await clock.advance(INTERVAL);
  await store.commit('a', changes);
  expect([...(await store.scan('a', 'k'))]).toEqual([['k', '1']]);
});

it('a replica waits only a few seconds for a hanging database at shutdown', async () => {
  const { clock, join } = setUp('a');
  const one = join('one');
  await clock.advance(0);
  const { promise: never } = Promise.withResolvers<never>();
  const store = withLeaseCheck({ ...one.store, commit: () => never, scan: () => never }, one.holding);
  const given = [store.commit('a', [{ key: 'k', value: '1' }]), store.scan('a', 'k')].map(each =>
    expect(each).rejects.toMatchObject({ reason: 'slow' }),
  );
  one.holding.drain();
  await clock.advance(4000);
  await Promise.all(given);
  await expect(store.sizes('a', 'k')).rejects.toMatchObject({ reason: 'slow' });
  Object.assign(one.store.replicas, { release: () => never });
  const closed = one.holding.close();
  await clock.advance(2000);
  await closed;
  expect(one.log.lines.at(-1)?.message).toMatch('failed to release accounts');
  expect(clock.sleepers).toBe(0);
});
