import { expect, it } from 'vitest';
import { Leadership } from '../../src/replicas/leadership.ts';
import { createSession, createStoreHandle } from '../../src/replicas/session.ts';
import { StoreError } from '../../src/store/errors.ts';
import { afterThisTest } from '../support/client.ts';
import { createSharedStore } from '../support/fake-group.ts';
import { createManualClock } from '../support/manual-clock.ts';
import { createTestLog } from '../support/silent.ts';

const LEASE = 15_000;
const SECOND = 1000;

/** Creates processes that share a database. */
function setUp() {
  const clock = createManualClock();
  const shared = createSharedStore(clock, LEASE);
  async function start(id: string) {
    const store = shared.join(id);
    const log = createTestLog();
    let renewals = 0;
    const lease = {
      ...store.lease,
      renew() {
        renewals += 1;
        return store.lease.renew();
      },
    };
    const leadership = new Leadership({ lease, clock, random: () => 0, log });
    afterThisTest(async () => {
      const closing = leadership.close();
      await clock.advance(10 * SECOND);
      await closing;
    });
    const events: string[] = [];
    leadership.start({ won: () => void events.push('won'), lost: () => void events.push('lost') });
    await clock.advance(0);
    return { store, leadership, log, events, renewals: () => renewals };
  }
  return { clock, shared, start };
}

it('a standby takes over within the lease time plus a second after the leader died, and within a second of a release', async () => {
  const { clock, shared, start } = setUp();
  const one = await start('one');
  const two = await start('two');
  expect([one.events, two.events]).toEqual([['won'], []]);
  expect(two.leadership.leader()?.id).toBe('one');
  await clock.advance(60 * SECOND);
  expect(shared.leader()).toBe('one');
  const closing = one.leadership.close();
  await clock.advance(SECOND);
  await closing;
  expect([shared.leader(), two.events]).toEqual(['two', ['won']]);
  // The leader dies: it renews no more.
  shared.hang('two');
  const three = await start('three');
  await clock.advance(LEASE - 3 * SECOND);
  expect(three.events).toEqual([]);
  await clock.advance(4 * SECOND);
  expect(three.events).toEqual(['won']);
});

it('a leader renews its lease five times per lease time, and a standby tries to acquire the lease fifteen times', async () => {
  const { clock, start } = setUp();
  const [one, two] = [await start('one'), await start('two')];
  const before = [one.renewals(), two.renewals()];
  await clock.advance(60 * SECOND);
  const [leader = 0, standby = 0] = [one, two].map(({ renewals }, index) => renewals() - (before[index] ?? 0));
  expect(leader).toBeGreaterThanOrEqual(20);
  expect(leader).toBeLessThanOrEqual(23);
  expect(standby).toBeGreaterThanOrEqual(59);
  expect(standby).toBeLessThanOrEqual(67);
});

it('a leader that detects another epoch reports the loss once and never leads again', async () => {
  const { clock, shared, start } = setUp();
  const { leadership, events, renewals } = await start('one');
  shared.next = 'two';
  shared.expire();
  const two = await start('two');
  expect(two.events).toEqual(['won']);
  await clock.advance(10 * SECOND);
  expect(events).toEqual(['won', 'lost']);
  expect([leadership.isLeading(), leadership.remaining(), leadership.isCurrent()]).toEqual([false, 0, false]);
  expect(await leadership.confirm()).toBe(false);
  const before = renewals();
  shared.next = 'one';
  shared.expire();
  await clock.advance(60 * SECOND);
  expect([events, renewals()]).toEqual([['won', 'lost'], before]);
});

it('a leader continues during a database outage, logs its start and its end once each, and keeps the lease', async () => {
  const { clock, shared, start } = setUp();
  const { leadership, log, events } = await start('one');
  shared.isUnavailable = true;
  await clock.advance(60 * SECOND);
  expect([leadership.isUnavailable(), leadership.isCurrent(), leadership.remaining()]).toEqual([true, true, 0]);
  expect(await leadership.confirm()).toBe(true);
  shared.isUnavailable = false;
  await clock.advance(10 * SECOND);
  expect([leadership.isUnavailable(), events]).toEqual([false, ['won']]);
  expect(log.lines.map(({ message }) => message)).toEqual([
    'this process leads now',
    'database unavailable: polling continues, counters are frozen, auto-cancel is suspended',
    'database available again',
  ]);
});

it('a standby logs a database outage without claiming that it polls', async () => {
  const { clock, shared, start } = setUp();
  await start('one');
  const { log } = await start('two');
  shared.isUnavailable = true;
  await clock.advance(10 * SECOND);
  expect(log.lines.map(({ message }) => message)).toEqual(['database unavailable: this standby cannot take over']);
});

it('confirm tries to renew an expired lease, but does not retry while the database is known to be unavailable', async () => {
  const { clock, shared, start } = setUp();
  const { leadership, renewals } = await start('one');
  const before = renewals();
  expect([await leadership.confirm(), renewals()]).toEqual([true, before]);
  shared.isUnavailable = true;
  await clock.advance(2 * LEASE);
  const during = renewals();
  await Promise.all(Array.from({ length: 9 }, () => leadership.confirm()));
  expect(renewals()).toBe(during);
});

it('a store handle renews after a refused commit, and asks the caller to repeat it if this process still leads', async () => {
  const { clock, shared, start } = setUp();
  const { leadership, store } = await start('one');
  const checked = createStoreHandle(store, leadership);
  const commit = () =>
    checked.commit('a', [{ key: 'k', value: 'v' }]).then(
      () => 'written',
      error => error.reason,
    );
  shared.expire();
  expect(await commit()).toBe('lease_expired');
  expect(await commit()).toBe('written');
  shared.next = 'two';
  shared.expire();
  await start('two');
  expect(await commit()).toBe('not_held');
  expect(leadership.isLeading()).toBe(false);
  await clock.advance(0);
});

it('a commit of a revoked session is refused with its own reason, and the other handles still commit', async () => {
  const { start } = setUp();
  const { leadership, store } = await start('one');
  const session = createSession('a', isRevoked => createStoreHandle(store, leadership, isRevoked), leadership);
  const change = [{ key: 'k', value: 'v' }];
  await session.store.commit('a', change);
  session.revoke();
  await expect(session.store.commit('a', change)).rejects.toMatchObject({ reason: 'revoked' });
  await createStoreHandle(store, leadership).commit('a', change);
});

it('while the database is unavailable, only lease requests are sent to it', async () => {
  const { clock, shared, start } = setUp();
  const { leadership, store } = await start('one');
  const scan = () => expect.fail('a request was sent');
  const checked = createStoreHandle({ ...store, scan }, leadership);
  shared.isUnavailable = true;
  await clock.advance(4 * SECOND);
  const before = shared.course.length;
  await expect(checked.scan('a', '')).rejects.toThrow(StoreError);
  await expect(checked.command([])).rejects.toThrow(StoreError);
  expect(shared.course).toHaveLength(before);
});

it('a process waits only a few seconds for an unresponsive database at shutdown, and logs that the lease was not released', async () => {
  const { clock, shared, start } = setUp();
  const { leadership, log } = await start('one');
  const release = shared.hang('one');
  void leadership.renew();
  leadership.drain();
  await clock.advance(4 * SECOND);
  expect(leadership.shutdownSignal.aborted).toBe(true);
  const closing = leadership.close();
  await clock.advance(3 * SECOND);
  await closing;
  expect(log.lines.at(-1)?.message).toBe('failed to release the lease: a standby acquires it when it expires');
  release();
});
