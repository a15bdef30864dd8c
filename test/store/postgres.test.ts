import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { systemClock } from '../../src/kit/clock.ts';
import { createLease } from '../../src/store/lease.ts';
import { attachPostgresStore, openPostgresStore } from '../../src/store/postgres.ts';
import type { Store } from '../../src/store/store.ts';
import { atThisLoad, eventually } from '../support/eventually.ts';
import { postgresForTests, postgresIsThere } from '../support/postgres.ts';
import { openHeld, settingsOf } from './postgres-held.ts';

const row = (key: string, value = 'v') => [{ key, value }];
const reasonOf = (work: Promise<unknown>) =>
  work.then(
    () => 'done',
    error => {
      expect(error).toHaveProperty('name', 'StoreError');
      return error.reason;
    },
  );

describe.skipIf(!postgresIsThere())('stores in PostgreSQL', () => {
  const postgres = postgresForTests();

  async function open() {
    const url = await postgres().createDatabase();
    const store = await openHeld(url);
    onTestFinished(() => store.close());
    return { url, name: new URL(url).pathname.slice(1), store };
  }

  /** Opens a store with timeouts of `ms`, scaled by the load of the machine. */
  async function openWithTimeouts(ms: number) {
    const url = await postgres().createDatabase();
    const timeouts = { connect: atThisLoad(ms), statement: atThisLoad(ms) };
    const candidate = { url: 'http://process.example', leaseTime: 60_000, clock: systemClock };
    const store = await openPostgresStore(settingsOf(url), {
      env: {},
      timeouts,
      leaseOf: database => createLease({ ...candidate, database }),
    });
    onTestFinished(() => store.close());
    await store.lease?.renew();
    return { url, store, ms: timeouts.statement };
  }

  const backends = async (name: string) =>
    (
      await postgres().query(
        `SELECT pid FROM pg_stat_activity WHERE datname = '${name}' AND application_name = 'delivery-watch'`,
      )
    ).map(({ pid }) => Number(pid));

  it('a PostgreSQL store writes concurrent commits of many accounts in few statements', async () => {
    const accounts = Array.from({ length: 1000 }, (_, n) => `account-${n}`);
    const { store, name } = await open();
    const before = await postgres().query('SELECT sum(sequence) AS n FROM delivery_watch.lanes', name);
    await Promise.all(accounts.map(account => store.commit(account, row('k', account))));
    const after = await postgres().query('SELECT sum(sequence) AS n FROM delivery_watch.lanes', name);
    expect(Number(after[0]?.n) - Number(before[0]?.n)).toBeLessThan(10);
    expect(await store.scan('account-7', '')).toEqual(new Map([['k', 'account-7']]));
  });

  it('a PostgreSQL store stores a value of 16 megabytes', async () => {
    const { store } = await open();
    const value = '"é\\'.repeat(4 * 2 ** 20);
    await store.commit('a', [{ key: 'k', value }]);
    expect((await store.scan('a', 'k')).get('k') === value).toBe(true);
    expect(await store.sizes('a', '')).toEqual(new Map([['k', 16 * 2 ** 20]]));
  });

  it.each(['fast', 'immediate', 'kill'] as const)(
    'a PostgreSQL store loses no committed row when the server stops (%s), and continues after it starts again',
    async mode => {
      const { store } = await open();
      let written = -1;
      let failures = 0;
      let stopping = false;
      const writing = (async () => {
        for (let n = 0; !stopping || failures === 0; n += 1) {
          const reason = await reasonOf(store.commit('a', [...row('one', String(n)), ...row('two', String(n))]));
          if (reason === 'done') written = n;
          else {
            expect(['away', 'slow']).toContain(reason);
            failures += 1;
            await sleep(20);
          }
        }
      })();
      await eventually(() => expect(written).toBeGreaterThan(10));
      await postgres().stop(mode);
      expect(await reasonOf(store.scan('a', ''))).toBe('away');
      await postgres().start();
      stopping = true;
      await writing;
      const rows = await eventually(() => store.scan('a', ''));
      expect(rows.get('one')).toBe(rows.get('two'));
      expect(Number(rows.get('one'))).toBeGreaterThanOrEqual(written);
      await eventually(() => store.commit('a', row('one', 'after')));
      expect((await store.scan('a', 'one')).get('one')).toBe('after');
    },
  );

  it('queries fail in bounded time when the server does not respond, even with a thousand callers', async () => {
    const { store } = await openWithTimeouts(500);
    await store.commit('a', row('k'));
    postgres().pause();
    try {
      const scans = Array.from({ length: 1000 }, () => reasonOf(store.scan('a', '')));
      const reasons = await Promise.all([
        ...scans,
        reasonOf(store.commit('a', row('k'))),
        reasonOf(store.commit('', row('k'))),
      ]);
      for (const reason of reasons) expect(['slow', 'away']).toContain(reason);
    } finally {
      postgres().resume();
    }
    await eventually(() => store.commit('a', row('k', 'after')));
    expect(await store.scan('a', '')).toEqual(new Map([['k', 'after']]));
  });

  it('a commit that timed out is never executed later', async () => {
    const { store, url } = await openWithTimeouts(500);
    const name = new URL(url).pathname.slice(1);
    // Commit concurrently, so that each commit uses its own connection.
    await Promise.all([store.commit('a', row('k', '1')), store.commit('', row('k', '1'))]);
    const paused = await backends(name);
    expect(paused.length).toBeGreaterThan(0);
    for (const pid of paused) process.kill(pid, 'SIGSTOP');
    const late = await Promise.all([store.commit('a', row('k', '2')), store.commit('', row('k', '2'))].map(reasonOf));
    expect(late).toEqual(['slow', 'slow']);
    // The next commits use new connections.
    await eventually(() => store.commit('a', row('k', '3')));
    await eventually(() => store.commit('', row('k', '3')));
    for (const pid of paused) process.kill(pid, 'SIGCONT');
    await eventually(async () => expect((await backends(name)).filter(pid => paused.includes(pid))).toEqual([]));
    expect((await store.scan('a', '')).get('k')).toBe('3');
    expect((await store.scan('', '')).get('k')).toBe('3');
    await store.commit('a', row('k', '4'));
  });

  it('a commit that timed out is not written after a later scan has returned', async () => {
    const { store, url } = await openWithTimeouts(500);
    const name = new URL(url).pathname.slice(1);
    await Promise.all([store.commit('a', row('k', '1')), store.commit('', row('k', '1'))]);
    const paused = await backends(name);
    for (const pid of paused) process.kill(pid, 'SIGSTOP');
    const late = await Promise.all([store.commit('a', row('k', '2')), store.commit('', row('k', '2'))].map(reasonOf));
    expect(late).toEqual(['slow', 'slow']);
    const scanAll = () => Promise.all(['a', ''].map(account => store.scan(account, '')));
    // The next commits use new connections.
    const before = await eventually(scanAll);
    for (const pid of paused) process.kill(pid, 'SIGCONT');
    await eventually(async () => expect((await backends(name)).filter(pid => paused.includes(pid))).toEqual([]));
    expect(await scanAll()).toEqual(before);
    expect(before[0]?.get('k')).toBe('1');
  });

  it('an account commits in a new lane after its lane was removed', async () => {
    const { store, name } = await open();
    await store.commit('a', row('k', '1'));
    await postgres().query('DELETE FROM delivery_watch.lanes', name);
    await Promise.all([store.commit('a', row('k', '2')), store.commit('', row('k', '2'))]);
    expect((await store.scan('a', '')).get('k')).toBe('2');
    expect((await store.scan('', '')).get('k')).toBe('2');
    expect(await postgres().query('SELECT sequence::int FROM delivery_watch.lanes', name)).toEqual([
      { sequence: 1 },
      { sequence: 1 },
    ]);
  });

  it('no row is written in another epoch, agent-wide rows included', async () => {
    const { store, url } = await open();
    const other = await openHeld(url);
    onTestFinished(() => other.close());
    await store.commit('a', row('k', 'ours'));
    expect(await reasonOf(other.commit('a', row('k', 'theirs')))).toBe('not_held');
    // Increase the epoch, as a takeover does. This process has not yet detected the loss of its lease.
    await postgres().query('UPDATE delivery_watch.lease SET epoch = epoch + 1', new URL(url).pathname.slice(1));
    const [ofAccount, agentWide] = await Promise.all([
      reasonOf(store.commit('a', row('k', 'late'))),
      reasonOf(store.commit('', row('k'))),
    ]);
    expect([ofAccount, agentWide]).toEqual(['not_held', 'not_held']);
    expect(await other.scan('a', '')).toEqual(new Map([['k', 'ours']]));
  });

  it('an attached process writes only commands', async () => {
    const { store, url } = await open();
    const attached = await attachPostgresStore(settingsOf(url), { env: {} });
    onTestFinished(() => attached.close());
    await store.commit('a', row('k'));
    expect(await attached.scan('a', '')).toEqual(new Map([['k', 'v']]));
    expect(await reasonOf(attached.commit('a', row('k', 'other')))).toBe('not_held');
    expect(await reasonOf(attached.commit('', row('k')))).toBe('not_held');
    await attached.command(row('command'));
    expect((await store.scan('', '')).size).toBe(1);
    expect(attached.lease).toBeUndefined();
  });

  it('ten processes can open the store concurrently', async () => {
    const url = await postgres().createDatabase();
    const opened = await Promise.allSettled(Array.from({ length: 10 }, () => openHeld(url)));
    const stores = opened.flatMap(each => (each.status === 'fulfilled' ? [each.value] : []));
    onTestFinished(async () => void (await Promise.all(stores.map((store: Store) => store.close()))));
    expect(opened.filter(each => each.status === 'rejected')).toEqual([]);
    const versions = await postgres().query(
      'SELECT version FROM delivery_watch.schema_version',
      new URL(url).pathname.slice(1),
    );
    expect(versions.length).toBeGreaterThan(0);
    expect(new Set(versions.map(({ version }) => version)).size).toBe(versions.length);
  });
});
