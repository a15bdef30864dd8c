import { setTimeout as sleep } from 'node:timers/promises';
import { beforeEach, describe, expect, it } from 'vitest';
import { heldSql, leaseStatements } from '../../src/store/lease-sql.ts';
import { NO_ACCOUNT } from '../../src/store/store.ts';
import { afterThisTest } from '../support/client.ts';
import { pgbouncerTo } from '../support/pgbouncer.ts';
import { postgresForTests, postgresIsThere } from '../support/postgres.ts';
import { requireProgram } from '../support/prometheus.ts';
import {
  createTestProcesses,
  LEASE,
  leaveOpenAt,
  type TestProcess,
  type TestProcesses,
  untilOneWaits,
} from './lease-processes.ts';

const SCHEMA = '"delivery_watch"';
/** Time between two renewals (ms). */
const INTERVAL = LEASE / 3;

const isBouncerThere = requireProgram('pgbouncer');

describe.skipIf(!postgresIsThere()).each([
  { name: 'the lease in PostgreSQL', isSkipped: false, through: async (url: string) => url },
  { name: 'the lease behind PgBouncer in transaction mode', isSkipped: !isBouncerThere, through: pgbouncerTo },
])('$name', ({ isSkipped, through }) => {
  const postgres = postgresForTests({ settings: { max_connections: '150' } });
  let url: string;
  let group: TestProcesses;
  beforeEach(async context => {
    if (isSkipped) return context.skip();
    url = await postgres().createDatabase();
    group = createTestProcesses(await through(url));
    afterThisTest(() => group.close());
  });

  const put = (process: TestProcess, value: string, account = 'a') =>
    process.store.commit(account, [{ key: 'k', value }]);
  const written = async (account = 'a') =>
    (await group.database.query('read', `SELECT value FROM ${SCHEMA}.rows WHERE account = $1`, [account]))[0]?.value;

  /** Starts processes. The first one leads. */
  async function startAll(...names: string[]): Promise<[TestProcess, TestProcess]> {
    const processes: TestProcess[] = [];
    for (const name of names) {
      const process = await group.start(name);
      await process.lease.renew();
      processes.push(process);
    }
    return processes as [TestProcess, TestProcess];
  }

  /** Lets more than a lease time pass in which only `process` renews. */
  async function outlast(process: TestProcess): Promise<string[]> {
    const results: string[] = [];
    for (let n = 0; n < 4; n += 1) {
      await group.pass(INTERVAL);
      results.push(await process.lease.renew());
    }
    return results;
  }

  it('the first process leads, and every process reports the leader and the age of its renewal', async () => {
    const [one, two] = await startAll('one', 'two');
    expect([await one.lease.renew(), await two.lease.renew()]).toEqual(['leader', 'standby']);
    await group.pass(5000);
    await two.lease.renew();
    const leader = two.lease.leader();
    expect(leader).toMatchObject({ id: one.lease.self.id, url: 'http://one' });
    expect(leader?.age).toBeGreaterThanOrEqual(5000);
    expect(leader?.age).toBeLessThan(INTERVAL);
    expect(one.lease.leader()).toMatchObject({ id: one.lease.self.id });
    expect([one.lease.remaining() > LEASE / 2, two.lease.remaining()]).toEqual([true, 0]);
    expect(await two.store.agents?.()).toEqual(['http://one']);
  });

  it('a standby whose lease row is missing reports it, and the leader ends', async () => {
    const [one, two] = await startAll('one', 'two');
    await group.database.query('write', `DELETE FROM ${SCHEMA}.lease`);
    expect(await one.lease.renew()).toBe('lost');
    const renewed = two.lease.renew();
    await expect(renewed).rejects.toMatchObject({ reason: 'row', message: expect.stringContaining('the lease in') });
  });

  it('only the leader commits, agent-wide rows included, and every process writes commands', async () => {
    const [one, two] = await startAll('one', 'two');
    for (const account of ['a', NO_ACCOUNT]) {
      await put(one, 'of the leader', account);
      await expect(put(two, 'of the standby', account)).rejects.toMatchObject({ reason: 'not_held' });
      expect(await written(account)).toBe('of the leader');
    }
    await one.store.command([{ key: 'k', value: '1' }]);
    await two.store.command([{ key: 'k', value: '2' }], { account: NO_ACCOUNT, key: 'k', value: '1' });
    expect(await written(NO_ACCOUNT)).toBe('2');
    const outdated = two.store.command([{ key: 'k', value: '3' }], { account: NO_ACCOUNT, key: 'k', value: '1' });
    await expect(outdated).rejects.toMatchObject({ reason: 'guard_failed' });
    expect(await one.store.valuesOf('k')).toEqual(
      new Map([
        [NO_ACCOUNT, '2'],
        ['a', 'of the leader'],
      ]),
    );
  });

  it('a standby takes over within the lease time plus one attempt after the leader died', async () => {
    const [, two] = await startAll('dies', 'two');
    expect(await outlast(two)).toEqual(['standby', 'standby', 'leader', 'leader']);
    expect(two.epoch()).toBe('2');
  });

  it('a standby leads at its next attempt after the lease was released', async () => {
    const [ends, two] = await startAll('ends', 'two');
    await ends.lease.release();
    expect(ends.lease.remaining()).toBe(0);
    await expect(put(ends, 'after the release')).rejects.toMatchObject({ reason: 'not_held' });
    expect(await two.lease.renew()).toBe('leader');
    expect(await ends.lease.renew()).toBe('lost');
  });

  it('a release with an unknown outcome ends the lease for this process, even if it is executed later', async () => {
    const [one, two] = await startAll('one', 'two');
    one.mishap = { kind: 'executed later', after: 0 };
    await expect(one.lease.release()).rejects.toThrow('executed later');
    expect([one.lease.remaining(), one.epoch()]).toEqual([0, undefined]);
    await outlast(two);
    await group.executeLate();
    expect(await two.lease.renew()).toBe('leader');
  });

  it('a takeover with a lost response is repeated in the next epoch', async () => {
    const one = await group.start('one');
    one.mishap = { kind: 'response lost', after: 1 };
    await expect(one.lease.renew()).rejects.toThrow('response lost');
    expect(await group.row()).toEqual({ holder: one.lease.self.id, epoch: 1n });
    expect(await one.lease.renew()).toBe('leader');
    expect(one.epoch()).toBe('2');
  });

  it('a delayed takeover has no effect after a newer one', async () => {
    const one = await group.start('one');
    one.mishap = { kind: 'executed later', after: 1 };
    await expect(one.lease.renew()).rejects.toThrow('executed later');
    await one.lease.renew();
    await group.executeLate();
    expect(await one.lease.renew()).toBe('leader');
  });

  describe('paused leaders', () => {
    it('a paused leader cannot commit before it renews an expired lease, and keeps it if no other process leads', async () => {
      const [one] = await startAll('one');
      const before = one.epoch();
      await group.pass(LEASE + 1);
      expect(one.lease.remaining()).toBe(0);
      await expect(put(one, 'after the end')).rejects.toMatchObject({ reason: 'not_held' });
      expect(await one.lease.renew()).toBe('leader');
      await put(one, 'after the renewal');
      expect(one.epoch()).toBe(before);
    });

    it('a paused leader cannot commit after a takeover, detects the other epoch and never leads again', async () => {
      const [one, two] = await startAll('paused', 'two');
      await put(one, 'before');
      await outlast(two);
      await put(two, 'of two');
      expect(one.epoch()).toBeDefined();
      for (const account of ['a', NO_ACCOUNT])
        await expect(put(one, 'of one', account)).rejects.toMatchObject({ reason: 'not_held' });
      expect(await written()).toBe('of two');
      expect(await one.lease.renew()).toBe('lost');
      expect([one.epoch(), one.lease.remaining()]).toEqual([undefined, 0]);
      await two.lease.release();
      expect(await one.lease.renew()).toBe('lost');
    });
  });

  it('a standby does not take over right after a database outage longer than the lease', async () => {
    const [one, two] = await startAll('one', 'two');
    await group.pass(10 * LEASE);
    expect([await two.lease.renew(), await one.lease.renew(), await two.lease.renew()]).toEqual([
      'standby',
      'leader',
      'standby',
    ]);
  });

  it('a standby takes over half a lease time after a database outage if the leader does not return', async () => {
    const [, two] = await startAll('dies', 'two');
    await group.pass(10 * LEASE);
    expect(await two.lease.renew()).toBe('standby');
    expect(await outlast(two)).toContain('leader');
  });

  describe('concurrent commits, renewals and takeovers', () => {
    const statements = leaseStatements(SCHEMA);

    it('a commit waits for a takeover in flight, and then fails', async () => {
      const [one] = await startAll('one');
      await put(one, 'before');
      // A holder may take its own lease, which has not expired, so the commit finds a valid lease.
      const commitTakeover = await leaveOpenAt(url, statements.take, [
        one.lease.self.id,
        'http://one',
        one.epoch(),
        LEASE,
      ]);
      const outcome = expect(put(one, 'too late')).rejects.toMatchObject({ reason: 'not_held' });
      await untilOneWaits(group.database);
      await commitTakeover();
      await outcome;
      expect(await written()).toBe('before');
    });

    it('a takeover skips the lease while a commit is in flight, and a renewal does not wait for the commit', async () => {
      const [one, two] = await startAll('one', 'two');
      const end = await leaveOpenAt(url, heldSql(SCHEMA, one.lease.self.id, String(one.epoch())));
      expect(await one.lease.renew()).toBe('leader');
      expect((await outlast(two)).at(-1)).toBe('standby');
      await end();
      expect(await two.lease.renew()).toBe('leader');
    });

    it('a takeover has no effect in another epoch', async () => {
      const [one] = await startAll('one');
      const epoch = BigInt(one.epoch() ?? 0);
      await one.lease.release();
      const taken = (seen: bigint) =>
        group.database.query('write', statements.take, ['another', 'http://another', seen, LEASE]);
      expect(await taken(epoch - 1n)).toEqual([]);
      expect(await taken(epoch)).toEqual([{ epoch: String(epoch + 1n) }]);
    });

    it('neither renewals nor a takeover are delayed by a leader that commits every millisecond', async () => {
      const [one, two] = await startAll('one', 'two');
      const outcomes = { written: 0, refused: 0 };
      let [isOver, takenOver] = [false, false];
      let writtenAfterTakeover = 0;
      const committing = Array.from({ length: 8 }, async (_, lane) => {
        while (!isOver) {
          const wasTaken = takenOver;
          await put(one, String(outcomes.written), `account-${lane}`).then(
            () => {
              outcomes.written += 1;
              if (wasTaken) writtenAfterTakeover += 1;
            },
            () => {
              outcomes.refused += 1;
            },
          );
          await sleep(1);
        }
      });
      for (let n = 0; n < 20; n += 1) {
        const start = performance.now();
        expect(await one.lease.renew()).toBe('leader');
        expect(performance.now() - start).toBeLessThan(5000);
        await sleep(10);
      }
      expect(outcomes.refused).toBe(0);
      // The leader keeps committing, but renews no more.
      const results = await outlast(two);
      for (let n = 0; n < 10 && results.at(-1) !== 'leader'; n += 1) results.push(await two.lease.renew());
      expect(results.at(-1)).toBe('leader');
      takenOver = true;
      await sleep(100);
      isOver = true;
      await Promise.all(committing);
      expect(outcomes.written).toBeGreaterThan(50);
      expect(outcomes.refused).toBeGreaterThan(0);
      expect(writtenAfterTakeover).toBe(0);
    });
  });

  describe('slow database', () => {
    const lock = `SELECT FROM ${SCHEMA}.lease FOR UPDATE`;

    it('a renewal times out if the database is slow, and the lease stays valid until it expires', async () => {
      const one = await group.start('one', { connect: 5000, statement: 300 });
      await one.lease.renew();
      const end = await leaveOpenAt(url, lock);
      one.ahead += INTERVAL;
      await expect(one.lease.renew()).rejects.toMatchObject({ reason: 'slow' });
      expect(one.lease.remaining()).toBeGreaterThan(0);
      expect(one.lease.remaining()).toBeLessThanOrEqual(LEASE - INTERVAL);
      await end();
      expect(await one.lease.renew()).toBe('leader');
    });

    it('a renewal that took longer than the lease time does not extend the lease', async () => {
      const [one] = await startAll('one');
      const end = await leaveOpenAt(url, lock);
      const renewal = one.lease.renew();
      await untilOneWaits(group.database);
      one.ahead += LEASE + 1;
      await end();
      await renewal;
      expect(one.lease.remaining()).toBe(0);
      await one.lease.renew();
      expect(one.lease.remaining()).toBeGreaterThan(0);
    });
  });

  it('at most one process leads after an older database is restored', async () => {
    const [one, two] = await startAll('one', 'two');
    const query = (sql: string) => group.database.query('write', sql);
    await query(`CREATE TABLE saved AS SELECT * FROM ${SCHEMA}.lease`);
    await outlast(two);
    await query(`DELETE FROM ${SCHEMA}.lease`);
    await query(`INSERT INTO ${SCHEMA}.lease SELECT * FROM saved`);
    expect([await two.lease.renew(), await one.lease.renew()]).toEqual(['lost', 'leader']);
  });
});
