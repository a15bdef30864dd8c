import { Client } from 'pg';
import { Secret } from '../../src/kit/secret.ts';
import { createLease } from '../../src/store/lease.ts';
import { openPostgresStore } from '../../src/store/postgres.ts';
import { createPostgresDatabase, type PostgresDatabase } from '../../src/store/postgres-database.ts';
import type { LeaderLease, Store } from '../../src/store/store.ts';
import { afterThisTest } from '../support/client.ts';
import { eventually } from '../support/eventually.ts';

/**
 * Lease time (ms). Tests skip it with `pass` instead of waiting. It is long, so that delays on a busy machine do not matter.
 */
export const LEASE = 600_000;
const SCHEMA = 'delivery_watch';

/** Failure injected into a lease statement. */
export type Mishap = 'never sent' | 'response lost' | 'executed later';

/** A process with a store in the shared database. */
export interface TestProcess {
  readonly name: string;
  readonly store: Store;
  readonly lease: LeaderLease;
  /** Failure to inject into a lease statement, after `after` other lease statements. */
  mishap: { kind: Mishap; after: number } | undefined;
  /** Returns the epoch in which this process believes that it has the lease. */
  epoch(): string | undefined;
  /** Time by which the clock of this process is ahead (ms). */
  ahead: number;
}

/** Processes that share a database. `pass` advances their time. */
export interface TestProcesses {
  readonly database: PostgresDatabase;
  start(name: string, timeouts?: { connect: number; statement: number }): Promise<TestProcess>;
  /** Advances time: in each process on the monotonic clock, in the database by moving the end of the lease earlier. */
  pass(ms: number): Promise<void>;
  /** Executes the statements that the mishap `executed later` delayed. */
  executeLate(): Promise<void>;
  /** Returns the row of the lease. */
  row(): Promise<{ holder: string | null; epoch: bigint }>;
  close(): Promise<void>;
}

export function createTestProcesses(url: string): TestProcesses {
  const settings = { url: { literal: new Secret(url) }, schema: SCHEMA };
  const database = createPostgresDatabase(settings, { env: {} });
  const started: TestProcess[] = [];
  let late: (() => Promise<unknown>)[] = [];
  let passed = 0;

  /** Wraps the database and injects failures into lease statements. */
  function fragile(of: () => TestProcess, inner: PostgresDatabase): PostgresDatabase {
    return {
      ...inner,
      async query(use, sql, values) {
        const { mishap } = of();
        const send = () => inner.query(use, sql, values);
        if (use !== 'lease' || !mishap) return send();
        if (mishap.after > 0) {
          mishap.after -= 1;
          return send();
        }
        of().mishap = undefined;
        if (mishap.kind === 'response lost') await send();
        if (mishap.kind === 'executed later') late.push(() => database.query(use, sql, values));
        throw new Error(mishap.kind);
      },
    };
  }

  async function start(name: string, timeouts?: { connect: number; statement: number }): Promise<TestProcess> {
    const clock = { monotonic: () => performance.now() + passed + own.ahead };
    let epoch: TestProcess['epoch'] = () => undefined;
    const store = await openPostgresStore(settings, {
      env: {},
      ...(timeouts ? { timeouts } : {}),
      leaseOf(inner) {
        const parts = createLease({
          database: fragile(() => own, inner),
          url: `http://${name}`,
          leaseTime: LEASE,
          clock,
        });
        epoch = parts.fence.epoch;
        return parts;
      },
    });
    const { lease } = store;
    if (!lease) throw new Error('the store has no lease');
    const own: TestProcess = { name, store, lease, mishap: undefined, ahead: 0, epoch: () => epoch() };
    started.push(own);
    return own;
  }

  return {
    database,
    start,
    async pass(ms) {
      passed += ms;
      const sql = `UPDATE ${database.schema}.lease SET expires = expires - $1 * interval '1 ms', renewed = renewed - $1 * interval '1 ms'`;
      await database.query('write', sql, [ms]);
    },
    async executeLate() {
      const all = late;
      late = [];
      // A delayed statement may be outdated and fail.
      for (const send of all) await send().catch(() => undefined);
    },
    async row() {
      const [row] = await database.query('read', `SELECT holder, epoch FROM ${database.schema}.lease`);
      return { holder: (row?.holder ?? null) as string | null, epoch: BigInt(String(row?.epoch)) };
    },
    async close() {
      await Promise.all(started.map(({ store }) => store.close()));
      await database.close();
    },
  };
}

export async function untilOneWaits(database: PostgresDatabase): Promise<void> {
  await eventually(async () => {
    const [row] = await database.query(
      'read',
      "SELECT count(*)::int AS n FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()",
    );
    if (Number(row?.n) === 0) throw new Error('nothing waits for a lock');
  });
}

/** Runs a statement in a transaction that stays open until the returned function is called or the test ends. */
export async function leaveOpenAt(url: string, sql: string, values: unknown[] = []): Promise<() => Promise<void>> {
  const client = new Client({ connectionString: url });
  client.on('error', () => undefined);
  await client.connect();
  await client.query('BEGIN');
  await client.query(sql, values);
  let ended = false;
  const end = async () => {
    if (ended) return;
    ended = true;
    await client.query('COMMIT').catch(() => undefined);
    await client.end();
  };
  afterThisTest(end);
  return end;
}
