import { Client } from 'pg';
import { Secret } from '../../src/kit/secret.ts';
import { createLeases } from '../../src/store/leases.ts';
import { openPostgresStore } from '../../src/store/postgres.ts';
import { createPostgresDatabase, type PostgresDatabase } from '../../src/store/postgres-database.ts';
import type { Replicas, Store } from '../../src/store/store.ts';
import { afterThisTest } from '../support/client.ts';
import { eventually } from '../support/eventually.ts';
import { createTestLog } from '../support/silent.ts';

/**
 * Lease time (ms). Tests skip it with `pass` instead of waiting. It is long, so that delays on a busy machine do not matter.
 */
export const LEASE = 600_000;
const SCHEMA = 'delivery_watch';

/** Failure injected into a lease statement. */
export type Mishap = 'never sent' | 'response lost' | 'executed later';

/** A replica that opens and closes accounts like an agent. */
export interface TestReplica {
  readonly name: string;
  readonly store: Store;
  readonly replicas: Replicas;
  readonly log: ReturnType<typeof createTestLog>;
  /** Failure to inject into a lease statement, after `after` other lease statements. */
  mishap: { kind: Mishap; after: number } | undefined;
  /** Accounts that were gained and not yet released. */
  readonly open: Set<string>;
  /** Renews like an agent: opens gained accounts, closes lost ones and, unless `slow`, excess ones. */
  renew(accounts: readonly string[], slow?: boolean): Promise<void>;
  epochOf(account: string): string | undefined;
  /** Time by which the clock of this process is ahead (ms). */
  ahead: number;
}

/** Replicas that share a database. `pass` advances their time. */
export interface TestReplicas {
  readonly database: PostgresDatabase;
  start(name: string, timeouts?: { connect: number; statement: number }): Promise<TestReplica>;
  /** Advances time: in each process on the monotonic clock, in the database by moving lease ends earlier. */
  pass(ms: number): Promise<void>;
  /** Executes the statements that the mishap `executed later` delayed. */
  executeLate(): Promise<void>;
  /** Returns the holders that the database lists, whether or not they renewed in time. */
  holders(): Promise<Map<string, { holder: string; epoch: bigint }>>;
  close(): Promise<void>;
}

export function createTestReplicas(url: string): TestReplicas {
  const settings = { url: { literal: new Secret(url) }, schema: SCHEMA };
  const database = createPostgresDatabase(settings, { env: {} });
  const started: TestReplica[] = [];
  let late: (() => Promise<unknown>)[] = [];
  let passed = 0;

  /** Wraps the database and injects failures into lease statements. */
  function fragile(replica: () => TestReplica, inner: PostgresDatabase): PostgresDatabase {
    return {
      ...inner,
      async query(use, sql, values) {
        const { mishap } = replica();
        const send = () => inner.query(use, sql, values);
        if (use !== 'lease' || !mishap) return send();
        if (mishap.after > 0) {
          mishap.after -= 1;
          return send();
        }
        replica().mishap = undefined;
        if (mishap.kind === 'response lost') await send();
        if (mishap.kind === 'executed later') late.push(() => database.query(use, sql, values));
        throw new Error(mishap.kind);
      },
    };
  }

  async function start(name: string, timeouts?: { connect: number; statement: number }): Promise<TestReplica> {
    const log = createTestLog();
    const clock = { monotonic: () => performance.now() + passed + replica.ahead };
    let epochOf: TestReplica['epochOf'] = () => undefined;
    const store = await openPostgresStore(settings, {
      env: {},
      ...(timeouts ? { timeouts } : {}),
      leasesOf(inner) {
        const leases = createLeases({
          database: fragile(() => replica, inner),
          url: `http://${name}`,
          leaseTime: LEASE,
          clock,
          log,
        });
        epochOf = leases.fence.epochOf;
        return leases;
      },
    });
    const { replicas } = store;
    if (!replicas) throw new Error('the store has no replicas');
    const open = new Set<string>();
    const replica: TestReplica = {
      name,
      store,
      replicas,
      log,
      mishap: undefined,
      open,
      ahead: 0,
      epochOf: account => epochOf(account),
      async renew(accounts, slow = false) {
        const { gained, lost, excess } = await replicas.renew(accounts);
        for (const account of gained) {
          if (open.has(account)) throw new Error(`${account} was gained before it was released`);
          open.add(account);
        }
        const closed = [...lost, ...(slow ? [] : excess)];
        if (closed.length === 0) return;
        await replicas.release(closed);
        for (const account of closed) open.delete(account);
      },
    };
    started.push(replica);
    return replica;
  }

  return {
    database,
    start,
    async pass(ms) {
      passed += ms;
      await database.query('write', `UPDATE ${database.schema}.replicas SET expires = expires - $1 * interval '1 ms'`, [
        ms,
      ]);
    },
    async executeLate() {
      const all = late;
      late = [];
      // A delayed statement may be outdated and fail.
      for (const send of all) await send().catch(() => undefined);
    },
    async holders() {
      const rows = await database.query(
        'read',
        `SELECT account, holder, epoch FROM ${database.schema}.leases JOIN ${database.schema}.replicas ON id = holder`,
      );
      return new Map(
        rows.map(({ account, holder, epoch }) => [
          String(account),
          { holder: String(holder), epoch: BigInt(String(epoch)) },
        ]),
      );
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
