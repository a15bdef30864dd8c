import { describe, expect, it } from 'vitest';
import type { Random } from '../../src/emulator/random.ts';
import { isNotHeld, StoreError } from '../../src/store/errors.ts';
import { NO_ACCOUNT } from '../../src/store/store.ts';
import { createChance } from '../support/chance.ts';
import { type Postgres, postgresForTests, postgresIsThere } from '../support/postgres.ts';
import { createTestProcesses, LEASE, type Mishap, type TestProcess, type TestProcesses } from './lease-processes.ts';

const ACCOUNTS = [NO_ACCOUNT, 'a', 'b', 'c'];
const STEPS = 250;
const MISHAPS: readonly Mishap[] = ['never sent', 'response lost', 'executed later'];
/** Maximum number of server restarts per run. Each takes a second. */
const RESTARTS = 2;

/** Performs random events on processes. `check` verifies the invariants after each step. */
class Course {
  private alive: TestProcess[] = [];
  private started = 0;
  private commits = 0;
  private epoch = 0n;
  private readonly written = new Map<string, string>();
  readonly seen = { refused: 0, written: 0, failed: 0, lost: 0, restarts: 0 };
  private readonly group: TestProcesses;
  private readonly postgres: Postgres;
  private readonly chance: Random;

  constructor(group: TestProcesses, postgres: Postgres, chance: Random) {
    this.group = group;
    this.postgres = postgres;
    this.chance = chance;
  }

  async step(): Promise<void> {
    const { chance } = this;
    const draw = chance.between(0, 99);
    if (draw < 30) await this.renewSome();
    else if (draw < 65) await this.commit();
    else if (draw < 80) await this.group.pass(chance.between(1, LEASE / 3));
    else if (draw < 81) await this.group.pass(2 * LEASE);
    else if (draw < 85) await this.group.executeLate();
    else if (draw < 89) await this.start();
    else if (draw < 93) await this.takeOver();
    else if (draw < 96) this.crash();
    else if (draw < 99) await this.end();
    else if (this.seen.restarts < RESTARTS) await this.restart();
  }

  /** Pauses one process for longer than a lease while the others continue. */
  async takeOver(): Promise<void> {
    if (this.alive.length === 0) return;
    const paused = this.alive.find(process => process.epoch() !== undefined) ?? this.chance.pick(this.alive);
    for (let n = 0; n < 5; n += 1) {
      await this.group.pass(LEASE / 3);
      for (const process of this.alive) if (process !== paused) await this.attempt(process);
    }
    for (const account of ACCOUNTS) await this.commitAs(paused, account);
  }

  async start(): Promise<void> {
    if (this.alive.length >= 5) return;
    this.started += 1;
    this.alive.push(await this.group.start(`process-${this.started}`));
  }

  /** Renews. A process that has lost the lease ends. */
  private async attempt(process: TestProcess): Promise<void> {
    const result = await process.lease.renew().catch(() => 'failed');
    if (result === 'failed') this.seen.failed += 1;
    if (result !== 'lost') return;
    this.seen.lost += 1;
    this.alive = this.alive.filter(each => each !== process);
  }

  /** Simulates a crash: stops using a process without releasing its lease. */
  private crash(): void {
    if (this.alive.length > 0) this.alive.splice(this.chance.between(0, this.alive.length - 1), 1);
  }

  private async end(): Promise<void> {
    if (this.alive.length < 2) return;
    const [process] = this.alive.splice(this.chance.between(0, this.alive.length - 1), 1);
    await process?.lease.release().catch(() => undefined);
  }

  private async restart(): Promise<void> {
    this.seen.restarts += 1;
    await this.postgres.restart('immediate');
  }

  /** Lets up to three processes renew concurrently. Some renewals fail midway. */
  private async renewSome(): Promise<void> {
    const { chance } = this;
    const some = this.alive.filter(() => chance.chance(0.5)).slice(0, 3);
    for (const process of some) {
      if (chance.chance(0.2)) process.mishap = { kind: chance.pick(MISHAPS), after: chance.between(0, 1) };
    }
    await Promise.all(some.map(process => this.attempt(process)));
  }

  private async commit(): Promise<void> {
    if (this.alive.length > 0) await this.commitAs(this.chance.pick(this.alive), this.chance.pick(ACCOUNTS));
  }

  /** Commits through a process, whether or not it still has the lease. */
  private async commitAs(process: TestProcess, account: string): Promise<void> {
    const { holder, epoch } = await this.group.row();
    const leads = holder === process.lease.self.id && String(epoch) === process.epoch();
    this.commits += 1;
    const value = String(this.commits);
    const outcome = await process.store.commit(account, [{ key: 'k', value }]).catch(error => error);
    if (outcome === undefined) {
      this.seen.written += 1;
      this.written.set(account, value);
      expect(leads).toBe(true);
    } else if (isNotHeld(outcome)) this.seen.refused += 1;
    else {
      expect(outcome).toBeInstanceOf(StoreError);
      // If the connection broke, the row may or may not have been written.
      this.written.delete(account);
    }
  }

  async check(): Promise<void> {
    const { holder, epoch } = await this.group.row();
    const sure = this.alive.filter(({ lease }) => lease.remaining() > 0);
    expect(sure.length, 'number of leaders').toBeLessThan(2);
    for (const process of sure) expect([holder, String(epoch)]).toEqual([process.lease.self.id, process.epoch()]);
    expect(epoch >= this.epoch).toBe(true);
    this.epoch = epoch;
    const { database } = this.group;
    const rows = await database.query('read', `SELECT account, value FROM ${database.schema}.rows`);
    const found = new Map(rows.map(({ account, value }) => [String(account), String(value)]));
    for (const [account, value] of this.written) expect(found.get(account)).toBe(value);
  }

  /** Stops injecting failures. Checks that exactly one process then leads and commits. */
  async finish(): Promise<void> {
    await this.start();
    for (const process of this.alive) process.mishap = undefined;
    await this.group.executeLate();
    for (let n = 0; n < 8; n += 1) {
      await this.group.pass(LEASE / 3);
      for (const process of [...this.alive]) await this.attempt(process);
    }
    const leaders = this.alive.filter(({ lease }) => lease.remaining() > 0);
    expect(leaders).toHaveLength(1);
    for (const account of ACCOUNTS) await leaders[0]?.store.commit(account, [{ key: 'k', value: 'end' }]);
  }
}

describe.skipIf(!postgresIsThere())('the lease after random sequences of events', () => {
  const postgres = postgresForTests({ settings: { max_connections: '250' } });

  it('at most one process has the lease at any time, and exactly one in the end', async () => {
    const group = createTestProcesses(await postgres().createDatabase());
    const course = new Course(group, postgres(), createChance());
    try {
      for (let n = 0; n < 3; n += 1) await course.start();
      await course.takeOver();
      for (let n = 0; n < STEPS; n += 1) {
        await course.step();
        await course.check();
      }
      await course.finish();
      process.stdout.write(`${JSON.stringify(course.seen)}\n`);
      expect(course.seen.written).toBeGreaterThan(0);
      expect(course.seen.refused).toBeGreaterThan(0);
    } finally {
      await group.close();
    }
  });
});
