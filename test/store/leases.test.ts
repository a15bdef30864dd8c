import { beforeEach, describe, expect, it } from 'vitest';
import { heldSql, leaseStatements } from '../../src/store/leases-sql.ts';
import { NO_ACCOUNT } from '../../src/store/store.ts';
import { afterThisTest } from '../support/client.ts';
import { postgresForTests, postgresIsThere } from '../support/postgres.ts';
import {
  createTestReplicas,
  LEASE,
  leaveOpenAt,
  type TestReplica,
  type TestReplicas,
  untilOneWaits,
} from './lease-replicas.ts';

const SCHEMA = '"delivery_watch"';
/** Time between two renewals (ms). */
const INTERVAL = LEASE / 3;
const ALL = [NO_ACCOUNT, 'a', 'b', 'c', 'd', 'e'];

describe.skipIf(!postgresIsThere())('leases in PostgreSQL', () => {
  const postgres = postgresForTests({ settings: { max_connections: '150' } });
  let url: string;
  let cluster: TestReplicas;
  beforeEach(async () => {
    url = await postgres().createDatabase();
    cluster = createTestReplicas(url);
    afterThisTest(() => cluster.close());
  });

  const put = (replica: TestReplica, account: string, value: string) =>
    replica.store.commit(account, [{ key: 'k', value }]);
  const written = async (account: string) =>
    (await cluster.database.query('read', `SELECT value FROM ${SCHEMA}.rows WHERE account = $1`, [account]))[0]?.value;

  /** Renews all replicas four times, after which no account moves any more. */
  async function settle(replicas: readonly TestReplica[], accounts = ALL): Promise<void> {
    for (let round = 0; round < 4; round += 1) for (const replica of replicas) await replica.renew(accounts);
  }

  async function startAll(...names: string[]): Promise<TestReplica[]> {
    const replicas = await Promise.all(names.map(name => cluster.start(name)));
    await settle(replicas);
    return replicas;
  }

  const leaveOpen = (sql: string, values?: unknown[]) => leaveOpenAt(url, sql, values);

  it('leases are shared among running replicas, which report the holders', async () => {
    const [one, two] = (await startAll('one', 'two')) as [TestReplica, TestReplica];
    expect([one.open.size, two.open.size]).toEqual([3, 3]);
    expect([...one.open, ...two.open].sort()).toEqual(ALL);
    const sharing = two.replicas.sharing();
    expect(sharing?.replicas.map(({ url }) => url).sort()).toEqual(['http://one', 'http://two']);
    expect(sharing?.replicas.every(({ since }) => Math.abs(since - (sharing?.at ?? 0)) < 3_600_000)).toBe(true);
    expect(sharing?.holders).toEqual(
      new Map(ALL.map(account => [account, (one.open.has(account) ? one : two).replicas.self.id])),
    );
    expect(one.replicas.remaining([...one.open][0] ?? '?')).toBeGreaterThan(LEASE / 2);
    expect(one.replicas.remaining([...two.open][0] ?? '?')).toBe(0);
  });

  it('only the holder can write account rows, and every process can write agent-wide rows', async () => {
    const [one, two] = (await startAll('one', 'two')) as [TestReplica, TestReplica];
    for (const account of ALL.slice(1)) {
      const [holder, other] = one.open.has(account) ? [one, two] : [two, one];
      await put(holder, account, 'of the holder');
      await expect(put(other, account, 'of the other')).rejects.toMatchObject({ reason: 'not_held' });
      expect(await written(account)).toBe('of the holder');
    }
    await put(one, NO_ACCOUNT, '1');
    await put(two, NO_ACCOUNT, '2');
    expect(await written(NO_ACCOUNT)).toBe('2');
    expect(await one.store.valuesOf('k')).toEqual(
      new Map([[NO_ACCOUNT, '2'], ...ALL.slice(1).map(a => [a, 'of the holder'] as const)]),
    );
  });

  it('a lease is taken over within the lease time plus one renewal interval after its holder died', async () => {
    const [, two] = await startAll('dies', 'two');
    await cluster.pass(INTERVAL);
    await two?.renew(ALL);
    await cluster.pass(INTERVAL);
    await two?.renew(ALL);
    expect(two?.open.size).toBe(3);
    await cluster.pass(INTERVAL);
    await two?.renew(ALL);
    expect([...(two?.open ?? [])].sort()).toEqual(ALL);
    expect(two?.replicas.sharing()?.replicas).toHaveLength(1);
  });

  it('a lease is acquired at the next renewal after its release', async () => {
    const [ends, two] = (await startAll('ends', 'two')) as [TestReplica, TestReplica];
    // The replica requests no accounts, so that no share is reserved for it.
    await ends.renew([]);
    expect(ends.open.size).toBe(0);
    await two.renew(ALL);
    expect(two.open.size).toBe(ALL.length);
    await ends.replicas.leave();
    await two.renew(ALL);
    expect(two.replicas.sharing()?.replicas.map(({ url }) => url)).toEqual(['http://two']);
  });

  it('a lease is free immediately if its holder left without releasing it', async () => {
    const [ends, two] = (await startAll('ends', 'two')) as [TestReplica, TestReplica];
    await ends.replicas.leave();
    expect(ends.replicas.remaining([...ends.open][0] ?? '?')).toBe(0);
    await two.renew(ALL);
    expect(two.open.size).toBe(ALL.length);
  });

  it('a lease counts as lost if the outcome of its release is unknown', async () => {
    const [one, two] = (await startAll('one', 'two')) as [TestReplica, TestReplica];
    const [account = ''] = [...one.open].filter(Boolean);
    one.mishap = { kind: 'executed later', after: 0 };
    await expect(one.replicas.release([account])).rejects.toThrow('executed later');
    expect([one.replicas.remaining(account), one.epochOf(account)]).toEqual([0, undefined]);
    await expect(put(one, account, 'after the release')).rejects.toMatchObject({ reason: 'not_held' });
    await cluster.executeLate();
    await one.renew(ALL);
    await settle([two, one]);
    expect([...one.open, ...two.open].sort()).toEqual(ALL);
  });

  it('an account moves only after its holder has closed it, and its holder can write until then', async () => {
    const one = await cluster.start('one');
    await one.renew(ALL);
    const two = await cluster.start('two');
    await two.renew(ALL);
    await one.renew(ALL, true);
    const { excess } = await one.replicas.renew(ALL);
    expect(excess).toHaveLength(3);
    await two.renew(ALL);
    expect(two.open.size).toBe(0);
    for (const account of excess) await put(one, account || 'a', 'last');
    await one.replicas.release(excess);
    await two.renew(ALL);
    expect([...two.open].sort()).toEqual([...excess].sort());
  });

  it('an account is released when it is no longer configured, and acquired by a replica that has it configured', async () => {
    const [one, two] = (await startAll('one', 'two')) as [TestReplica, TestReplica];
    const fewer = ALL.slice(0, 2);
    for (let round = 0; round < 4; round += 1) {
      await one.renew(fewer);
      await two.renew(ALL);
    }
    expect([...one.open].every(account => fewer.includes(account))).toBe(true);
    expect([...one.open, ...two.open].sort()).toEqual(ALL);
    for (let round = 0; round < 3; round += 1) {
      await one.renew(fewer);
      await two.renew(fewer);
    }
    expect([one.open.size, two.open.size]).toEqual([1, 1]);
  });

  describe('paused replicas', () => {
    it('a paused replica holds nothing according to its own clock, and keeps accounts that no other replica acquired', async () => {
      const [one] = await startAll('one');
      const [account = ''] = [...(one?.open ?? [])].filter(Boolean);
      await cluster.pass(LEASE + 1);
      expect(one?.replicas.remaining(account)).toBe(0);
      // No other replica acquired the account, so its epoch is still valid.
      await put(one as TestReplica, account, 'after the end');
      const before = one?.epochOf(account);
      await one?.renew(ALL);
      expect(one?.epochOf(account)).toBe(before);
      expect(one?.replicas.remaining(account)).toBeGreaterThan(0);
    });

    it('a paused replica cannot write to accounts that another replica acquired, and detects that it lost all accounts', async () => {
      const [one, two] = (await startAll('paused', 'two')) as [TestReplica, TestReplica];
      const [account = ''] = [...one.open].filter(Boolean);
      await put(one, account, 'before');
      for (let n = 0; n < 4; n += 1) {
        await cluster.pass(INTERVAL);
        await two.renew(ALL);
      }
      expect(two.open.has(account)).toBe(true);
      await put(two, account, 'of two');
      expect(one.epochOf(account)).toBeDefined();
      await expect(put(one, account, 'of one')).rejects.toMatchObject({ reason: 'not_held' });
      expect(await written(account)).toBe('of two');
      const had = [...one.open].sort();
      expect([...(await one.replicas.renew(ALL)).lost].sort()).toEqual(had);
      expect(one.epochOf(account)).toBeUndefined();
      expect(one.log.lines.map(({ message }) => message).join()).toContain('ended before they were renewed');
    });

    it('a paused replica detects that it lost all accounts even if it cannot join again immediately', async () => {
      const [one] = (await startAll('one', 'two')) as [TestReplica, TestReplica];
      const had = [...one.open].sort();
      await cluster.database.query('write', `DELETE FROM ${SCHEMA}.replicas WHERE id = $1`, [one.replicas.self.id]);
      // The statement that finds the replica missing from the table succeeds; the next statement fails.
      one.mishap = { kind: 'never sent', after: 1 };
      const { gained, lost } = await one.replicas.renew(ALL);
      expect([[...lost].sort(), gained]).toEqual([had, []]);
      one.mishap = { kind: 'never sent', after: 0 };
      await expect(one.replicas.renew(ALL)).rejects.toThrow('never sent');
      await one.replicas.release(lost);
    });

    it('a paused replica does not regain an account until it has closed that account', async () => {
      const [one, two] = (await startAll('paused', 'two')) as [TestReplica, TestReplica];
      for (let n = 0; n < 4; n += 1) {
        await cluster.pass(INTERVAL);
        await two.renew(ALL);
      }
      const had = [...one.open].sort();
      await two.replicas.leave();
      for (let n = 0; n < 3; n += 1) {
        const { gained, lost } = await one.replicas.renew(ALL);
        expect(gained.filter(account => had.includes(account))).toEqual([]);
        expect([...lost].sort()).toEqual(had);
      }
      await one.replicas.release(had);
      const { gained } = await one.replicas.renew(ALL);
      expect([...gained].sort()).toEqual(had);
    });
  });

  it('a lease is not taken over right after a database outage longer than the lease', async () => {
    const [one, two] = (await startAll('one', 'two')) as [TestReplica, TestReplica];
    const before = [...one.open].sort();
    await cluster.pass(10 * LEASE);
    await two.renew(ALL);
    await one.renew(ALL);
    expect([...one.open].sort()).toEqual(before);
    expect(one.log.lines).toEqual([]);
  });

  it('a lease ends if its holder does not return after a database outage', async () => {
    const [, two] = await startAll('dies', 'two');
    await cluster.pass(10 * LEASE);
    for (let n = 0; n < 3; n += 1) {
      await two?.renew(ALL);
      await cluster.pass(INTERVAL);
    }
    expect(two?.open.size).toBe(ALL.length);
  });

  describe('concurrent commits and takeovers', () => {
    const take = leaseStatements(SCHEMA).take;

    it('a commit waits for a takeover in flight, and then fails', async () => {
      const [one] = (await startAll('one')) as [TestReplica];
      await put(one, 'a', 'before');
      await cluster.database.query('write', `DELETE FROM ${SCHEMA}.replicas`);
      const end = await leaveOpen(take, ['another', ['a'], [one.epochOf('a')]]);
      const commit = put(one, 'a', 'too late');
      const outcome = expect(commit).rejects.toMatchObject({ reason: 'not_held' });
      await untilOneWaits(cluster.database);
      await end();
      await outcome;
      expect(await written('a')).toBe('before');
    });

    it('a takeover skips an account while a commit for it is in flight', async () => {
      const [one] = (await startAll('one')) as [TestReplica];
      const { id } = one.replicas.self;
      const end = await leaveOpen(
        `WITH given AS (SELECT 'a' AS account, ${one.epochOf('a')}::bigint AS epoch) ${heldSql(SCHEMA, id)}`,
      );
      // Neither call waits for the commit, which keeps the account held.
      await one.replicas.release(['a']);
      await one.replicas.leave();
      const two = await cluster.start('two');
      await two.renew(ALL);
      expect([...two.open].sort()).toEqual(ALL.filter(account => account !== 'a'));
      await end();
      await two.renew(ALL);
      expect(two.open.has('a')).toBe(true);
    });

    it('a takeover skips an account whose epoch changed after it was read', async () => {
      const [one] = (await startAll('one')) as [TestReplica];
      const epoch = BigInt(one.epochOf('a') ?? 0);
      await one.replicas.leave();
      const taken = (seen: bigint) => cluster.database.query('write', take, ['another', ['a'], [seen]]);
      expect(await taken(epoch - 1n)).toEqual([]);
      expect(await taken(epoch)).toEqual([{ account: 'a', epoch: String(epoch + 1n) }]);
    });

    it('commits distinguish two consecutive leases of the same replica', async () => {
      const [one] = (await startAll('one')) as [TestReplica];
      const held = (epoch: string | undefined) =>
        cluster.database.query(
          'read',
          `WITH given AS (SELECT 'a' AS account, ${epoch}::bigint AS epoch) ${heldSql(SCHEMA, one.replicas.self.id)}`,
        );
      const first = one.epochOf('a');
      await one.replicas.release(['a']);
      expect(one.epochOf('a')).toBeUndefined();
      // A delayed commit must not write to an account without a holder either.
      expect(await held(first)).toEqual([]);
      one.open.delete('a');
      await one.renew(ALL);
      const second = one.epochOf('a');
      expect(BigInt(second ?? 0)).toBe(BigInt(first ?? 0) + 1n);
      expect(await held(first)).toEqual([]);
      expect(await held(second)).toEqual([{ account: 'a', epoch: second }]);
    });
  });

  describe('slow database', () => {
    const lock = `SELECT FROM ${SCHEMA}.replicas FOR UPDATE`;

    it('a renewal times out if the database is slow, and changes no lease', async () => {
      const one = await cluster.start('one', { connect: 5000, statement: 300 });
      await one.renew(ALL);
      const before = one.epochOf('a');
      const end = await leaveOpen(lock);
      one.ahead += INTERVAL;
      await expect(one.renew(ALL)).rejects.toMatchObject({ reason: 'slow' });
      expect(one.replicas.remaining('a')).toBeGreaterThan(0);
      expect(one.replicas.remaining('a')).toBeLessThanOrEqual(LEASE - INTERVAL);
      await put(one, 'a', 'commits wait for no renewal');
      await end();
      await one.renew(ALL);
      expect(one.epochOf('a')).toBe(before);
    });

    it('a renewal that took longer than the lease time does not extend leases', async () => {
      const [one] = (await startAll('one')) as [TestReplica];
      const end = await leaveOpen(lock);
      const renewal = one.renew(ALL);
      await untilOneWaits(cluster.database);
      one.ahead += LEASE + 1;
      await end();
      await renewal;
      expect(one.replicas.remaining('a')).toBe(0);
      await one.renew(ALL);
      expect(one.replicas.remaining('a')).toBeGreaterThan(0);
    });

    it('if the database is slow, a replica renews its own leases before it takes over accounts', async () => {
      const [one, two] = (await startAll('one', 'two')) as [TestReplica, TestReplica];
      await two.replicas.leave();
      const end = await leaveOpen(lock);
      const renewal = one.renew(ALL);
      await untilOneWaits(cluster.database);
      one.ahead += INTERVAL;
      await end();
      await renewal;
      expect(one.open.size).toBe(3);
      expect(one.replicas.remaining([...one.open][0] ?? '?')).toBeGreaterThan(0);
      await one.renew(ALL);
      expect(one.open.size).toBe(ALL.length);
    });

    it('a replica takes over no accounts if it could not renew its own leases', async () => {
      const [one, two] = (await startAll('one', 'two')) as [TestReplica, TestReplica];
      const had = [...one.open].sort();
      // By the database's clock, the lease of `one` has expired. The last renewal of `two` is just as old.
      await cluster.pass(LEASE + 1);
      await two.renew(ALL);
      await cluster.pass(INTERVAL);
      await two.renew(ALL);
      expect([...two.open].filter(account => had.includes(account))).toEqual([]);
      await one.renew(ALL);
      expect([...one.open].sort()).toEqual(had);
    });
  });

  it('each account is assigned to one replica after an older database is restored', async () => {
    const [one, two] = (await startAll('one', 'two')) as [TestReplica, TestReplica];
    const copy = (from: string, to: string) => `CREATE TABLE ${to} AS SELECT * FROM ${from}`;
    const query = (sql: string) => cluster.database.query('write', sql);
    await query(copy(`${SCHEMA}.leases`, 'saved_leases'));
    await query(copy(`${SCHEMA}.replicas`, 'saved_replicas'));
    const [account = ''] = [...one.open].filter(Boolean);
    // Move the account to the other replica and back. The saved tables predate these moves.
    await one.replicas.release([account]);
    one.open.delete(account);
    await settle([one, two]);
    for (const table of ['leases', 'replicas']) {
      await query(`DELETE FROM ${SCHEMA}.${table}`);
      await query(`INSERT INTO ${SCHEMA}.${table} SELECT * FROM saved_${table}`);
    }
    await settle([one, two]);
    expect([...one.open, ...two.open].sort()).toEqual(ALL);
  });
});
