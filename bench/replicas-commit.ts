import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { systemClock } from '../src/kit/clock.ts';
import { openStore } from '../src/store/open.ts';
import type { Store } from '../src/store/store.ts';
import type { Postgres } from '../test/support/postgres-server.ts';
import { table } from './measure.ts';
import { postgresUse } from './processes.ts';

const COMMITS = 1000;
/** Numbers of accounts that commit concurrently, as when rounds of several accounts end at the same time. */
const TOGETHER = [1, 10] as const;
/** Returns rows as committed after reading new events: the checkpoint and a few counters. */
const changes = (number: number) => [
  { key: 'events/checkpoint', value: JSON.stringify({ newest: number, readTo: number, padding: 'x'.repeat(200) }) },
  ...Array.from({ length: 8 }, (_, index) => ({ key: `events/total/${index}`, value: String(number + index) })),
];

interface Cost {
  /** Processor time per commit (µs), of this process and of the database. */
  readonly own: number;
  readonly database: number;
  /** Bytes of write-ahead log per commit; undefined for SQLite. */
  readonly wal: number | undefined;
}

async function measure(store: Store, together: number, postgres?: Postgres): Promise<Cost> {
  const accounts = Array.from({ length: together }, (_, index) => `account-${index}`);
  await store.lease?.renew();
  const commitAll = async (rounds: number) => {
    for (let round = 0; round < rounds; round += 1) {
      await Promise.all(accounts.map(account => store.commit(account, changes(round))));
      if (round % 100 === 0) await store.lease?.renew();
    }
  };
  await commitAll(100 / together);
  const before = postgres && (await postgresUse(postgres));
  const start = process.cpuUsage();
  await commitAll(COMMITS / together);
  const { user, system } = process.cpuUsage(start);
  const after = postgres && (await postgresUse(postgres));
  await store.lease?.release();
  await store.close();
  return {
    own: (user + system) / COMMITS,
    database: before && after ? ((after.processor - before.processor) * 1000) / COMMITS : 0,
    wal: before && after ? (after.wal - before.wal) / COMMITS : undefined,
  };
}

/** Compares the costs of commits from this process to SQLite and to PostgreSQL. */
export async function commitCosts(postgres: Postgres): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'delivery-watch-bench-'));
  const rows: string[][] = [];
  try {
    for (const together of TOGETHER) {
      const file = join(folder, `${together}.db`);
      const sqlite = await measure(await openStore({ kind: 'sqlite', path: file }), together);
      const url = { env: 'DATABASE_URL' };
      const shared = await openStore(
        { kind: 'postgres', path: '', url, lease: 60_000 },
        {
          env: { DATABASE_URL: await postgres.createDatabase() },
          candidate: { url: 'http://bench.invalid', clock: systemClock },
        },
      );
      const cost = await measure(shared, together, postgres);
      const row = (what: string, { own, database, wal }: Cost) => [
        `${what}, ${together} concurrent`,
        own.toFixed(0),
        database.toFixed(0),
        wal?.toFixed(0) ?? '–',
        `${((own + database) / sqlite.own).toFixed(1)}×`,
      ];
      rows.push(row('SQLite', sqlite), row('PostgreSQL', cost));
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
  const head = ['a commit of 9 rows', 'agent, µs', 'PostgreSQL, µs', 'bytes of WAL', 'of SQLite'];
  return `Processor time of ${COMMITS} commits, with \`fsync\`.\n\n${table(head, rows)}`;
}
