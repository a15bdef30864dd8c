import { describe, expect, it } from 'vitest';
import type { Random } from '../../src/emulator/random.ts';
import { isNotHeld, StoreError } from '../../src/store/errors.ts';
import { NO_ACCOUNT } from '../../src/store/store.ts';
import { createChance } from '../support/chance.ts';
import { afterThisTest } from '../support/client.ts';
import { type Postgres, postgresForTests, postgresIsThere } from '../support/postgres.ts';
import { createTestReplicas, LEASE, type Mishap, type TestReplica, type TestReplicas } from './lease-replicas.ts';

const POOL = [NO_ACCOUNT, ...Array.from({ length: 11 }, (_, n) => `account-${n}`)];
const STEPS = 250;
const MISHAPS: readonly Mishap[] = ['never sent', 'response lost', 'executed later'];
/** Maximum number of server restarts per run. Each takes a second. */
const RESTARTS = 2;

/** Performs random events on replicas. `check` verifies the invariants after each step. */
class Course {
  private readonly alive: TestReplica[] = [];
  private accounts: readonly string[] = POOL;
  private started = 0;
  private commits = 0;
  private readonly epochs = new Map<string, bigint>();
  private readonly written = new Map<string, string>();
  readonly seen = { refused: 0, written: 0, failed: 0, restarts: 0 };
  private readonly cluster: TestReplicas;
  private readonly postgres: Postgres;
  private readonly chance: Random;

  constructor(cluster: TestReplicas, postgres: Postgres, chance: Random) {
    this.cluster = cluster;
    this.postgres = postgres;
    this.chance = chance;
  }

  async step(): Promise<void> {
    const { chance } = this;
    const draw = chance.between(0, 99);
    if (draw < 30) await this.renewSome();
    else if (draw < 65) await this.commit();
    else if (draw < 80) await this.cluster.pass(chance.between(1, LEASE / 3));
    else if (draw < 81) await this.cluster.pass(2 * LEASE);
    else if (draw < 85) await this.cluster.executeLate();
    else if (draw < 89) await this.start();
    else if (draw < 92) await this.takeOver();
    else if (draw < 94) this.crash();
    else if (draw < 96) await this.end();
    else if (draw < 99) this.accounts = POOL.filter(() => chance.chance(0.8));
    else if (this.seen.restarts < RESTARTS) await this.restart();
  }

  /** Pauses one replica for longer than a lease while the others continue. */
  async takeOver(): Promise<void> {
    if (this.alive.length === 0) return;
    const paused = this.chance.pick(this.alive);
    for (let n = 0; n < 5; n += 1) {
      await this.cluster.pass(LEASE / 3);
      for (const replica of this.alive) if (replica !== paused) await this.attempt(replica);
    }
    for (const account of paused.open) if (account !== NO_ACCOUNT) await this.commitAs(paused, account);
  }

  async renewAll(): Promise<void> {
    for (const replica of this.alive) await replica.renew(POOL);
  }

  private async attempt(replica: TestReplica): Promise<void> {
    try {
      await replica.renew(this.accounts, this.chance.chance(0.3));
    } catch (error) {
      this.seen.failed += 1;
      if (String(error).includes('before it was released')) throw error;
    }
  }

  async start(): Promise<void> {
    if (this.alive.length >= 5) return;
    this.started += 1;
    this.alive.push(await this.cluster.start(`replica-${this.started}`));
  }

  /** Simulates a crash: stops using a replica without releasing its accounts. */
  private crash(): void {
    if (this.alive.length > 0) this.alive.splice(this.chance.between(0, this.alive.length - 1), 1);
  }

  private async end(): Promise<void> {
    if (this.alive.length < 2) return;
    const [replica] = this.alive.splice(this.chance.between(0, this.alive.length - 1), 1);
    replica?.renew([]).catch(() => undefined);
    await replica?.replicas.leave();
  }

  private async restart(): Promise<void> {
    this.seen.restarts += 1;
    await this.postgres.restart('immediate');
  }

  /** Lets up to three replicas renew their leases concurrently. Some renewals fail midway. */
  private async renewSome(): Promise<void> {
    const { chance } = this;
    const some = this.alive.filter(() => chance.chance(0.5)).slice(0, 3);
    for (const replica of some) {
      if (chance.chance(0.2)) replica.mishap = { kind: chance.pick(MISHAPS), after: chance.between(0, 5) };
    }
    await Promise.all(some.map(replica => this.attempt(replica)));
  }

  /** Commits through a replica that has the account open, whether or not it still holds the lease. */
  private async commit(): Promise<void> {
    const { chance, alive } = this;
    if (alive.length === 0) return;
    const replica = chance.pick(alive);
    const accounts = [...replica.open].filter(Boolean);
    if (accounts.length > 0) await this.commitAs(replica, chance.pick(accounts));
  }

  private async commitAs(replica: TestReplica, account: string): Promise<void> {
    const own = [replica.replicas.self.id, replica.epochOf(account)];
    this.commits += 1;
    const value = `${own.join(' ')} ${this.commits}`;
    const before = await this.leaseOf(account);
    const outcome = await replica.store.commit(account, [{ key: 'k', value }]).catch(error => error);
    if (outcome === undefined) {
      this.seen.written += 1;
      this.written.set(account, value);
      expect(before).toEqual(own);
    } else if (isNotHeld(outcome)) {
      this.seen.refused += 1;
      expect(before).not.toEqual(own);
    } else {
      expect(outcome).toBeInstanceOf(StoreError);
      // If the connection broke, the row may or may not have been written.
      this.written.delete(account);
    }
  }

  private async leaseOf(account: string) {
    const { database } = this.cluster;
    const sql = `SELECT holder, epoch FROM ${database.schema}.leases WHERE account = $1`;
    const [row] = await database.query('read', sql, [account]);
    return [row?.holder, row?.epoch];
  }

  async check(): Promise<void> {
    const holders = await this.cluster.holders();
    for (const account of POOL) {
      const sure = this.alive.filter(({ replicas }) => replicas.remaining(account) > 0);
      expect(sure.length, `number of holders of ${account}`).toBeLessThan(2);
      for (const replica of sure) {
        expect(holders.get(account)?.holder, `holder of ${account}`).toBe(replica.replicas.self.id);
        expect(String(holders.get(account)?.epoch)).toBe(replica.epochOf(account));
      }
    }
    const { schema } = this.cluster.database;
    for (const { account, epoch } of await this.cluster.database.query(
      'read',
      `SELECT account, epoch FROM ${schema}.leases`,
    )) {
      const now = BigInt(String(epoch));
      expect(now >= (this.epochs.get(String(account)) ?? 0n)).toBe(true);
      this.epochs.set(String(account), now);
    }
    const rows = await this.cluster.database.query('read', `SELECT account, value FROM ${schema}.rows`);
    const found = new Map(rows.map(({ account, value }) => [String(account), String(value)]));
    for (const [account, value] of this.written) expect(found.get(account)).toBe(value);
  }

  /** Stops injecting failures. Checks that every account is then held and writable, and that accounts are shared evenly. */
  async finish(): Promise<void> {
    await this.start();
    this.accounts = POOL;
    for (const replica of this.alive) replica.mishap = undefined;
    await this.cluster.executeLate();
    for (let n = 0; n < 14; n += 1) {
      await this.cluster.pass(LEASE / 3);
      await this.renewAll();
    }
    const loads = this.alive.map(({ open }) => open.size);
    expect(loads.reduce((sum, load) => sum + load)).toBe(POOL.length);
    expect(Math.max(...loads) - Math.min(...loads)).toBeLessThan(2);
    for (const replica of this.alive) {
      for (const account of replica.open) await replica.store.commit(account, [{ key: 'k', value: 'end' }]);
    }
  }
}

describe.skipIf(!postgresIsThere())('leases after random sequences of events', () => {
  const postgres = postgresForTests({ settings: { max_connections: '250' } });

  it('each lease is held by at most one replica at any time, and by exactly one in the end', async () => {
    const cluster = createTestReplicas(await postgres().createDatabase());
    const first = await cluster.start('makes the tables');
    await first.replicas.leave();
    const course = new Course(cluster, postgres(), createChance());
    try {
      for (let n = 0; n < 3; n += 1) await course.start();
      for (let n = 0; n < 3; n += 1) await course.renewAll();
      await course.takeOver();
      expect(course.seen.refused).toBeGreaterThan(0);
      for (let n = 0; n < STEPS; n += 1) {
        await course.step();
        await course.check();
      }
      await course.finish();
      process.stdout.write(`${JSON.stringify(course.seen)}\n`);
      expect(course.seen.written).toBeGreaterThan(0);
    } finally {
      await cluster.close();
    }
  });

  it('leases do not depend on the wall clock', async () => {
    const cluster = createTestReplicas(await postgres().createDatabase());
    afterThisTest(() => cluster.close());
    const now = Date.now;
    afterThisTest(async () => {
      Date.now = now;
    });
    const one = await cluster.start('one');
    await one.renew(POOL);
    Date.now = () => now() + 3_600_000;
    const two = await cluster.start('an hour ahead');
    for (let round = 0; round < 4; round += 1) for (const replica of [one, two]) await replica.renew(POOL);
    expect([one.open.size, two.open.size]).toEqual([6, 6]);
    expect(one.log.lines).toEqual([]);
    expect(one.replicas.remaining([...one.open][0] ?? '?')).toBeGreaterThan(LEASE / 2);
  });

  it('leases are shared evenly when fifty replicas renew at the same moment', async () => {
    const cluster = createTestReplicas(await postgres().createDatabase());
    afterThisTest(() => cluster.close());
    const accounts = Array.from({ length: 200 }, (_, n) => `account-${n}`);
    const replicas = await Promise.all(Array.from({ length: 50 }, (_, n) => cluster.start(`replica-${n}`)));
    for (let round = 0; round < 4; round += 1) await Promise.all(replicas.map(replica => replica.renew(accounts)));
    expect(replicas.map(({ open }) => open.size)).toEqual(replicas.map(() => 4));
    expect(new Set(replicas.flatMap(({ open }) => [...open])).size).toBe(200);
  });
});
