import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { systemClock } from '../../src/kit/clock.ts';
import { attachStore, openStore } from '../../src/store/open.ts';
import { openSqliteStore } from '../../src/store/sqlite.ts';
import { NO_ACCOUNT } from '../../src/store/store.ts';
import { runCli } from '../support/cli.ts';
import { newFolder } from '../support/folder.ts';
import { postgresForTests, postgresIsThere } from '../support/postgres.ts';

const ACCOUNTS = ['a', 'b', 'c'];
const NOT_EMPTY = 'the target store is not empty: choose another store or schema\n';
const large = 'x'.repeat(2 ** 20);
const ROWS: Record<string, readonly (readonly [string, string])[]> = {
  [NO_ACCOUNT]: [['heartbeat', '1']],
  a: [
    ['events/checkpoint', '{"floor":1}'],
    ['long/1', large],
    ['long/2', large],
    ['odd', 'é\u0000"\n'],
  ],
  b: [['events/checkpoint', '{}']],
};

describe.skipIf(!postgresIsThere())('copies between stores', () => {
  const postgres = postgresForTests();

  async function scene() {
    const folder = newFolder();
    mkdirSync(join(folder, 'data'));
    const path = join(folder, 'data', 'store.db');
    const from = join(folder, 'from.yaml');
    const to = join(folder, 'to.yaml');
    const accounts = ACCOUNTS.map(name => ({ name, baseUrl: 'http://127.0.0.1:1', token: { env: 'TOKEN' } }));
    writeFileSync(from, JSON.stringify({ accounts, store: { path } }));
    const store = { kind: 'postgres' as const, url: { env: 'DATABASE_URL' }, lease: '5s' };
    writeFileSync(to, JSON.stringify({ accounts, store }));
    const env = { DATABASE_URL: await postgres().createDatabase() };
    const options = { kind: 'postgres' as const, path: '', url: store.url, schema: 'delivery_watch', lease: 5000 };
    const copy = (one: string, other: string) =>
      runCli(['store', 'copy', '--from-config', one, '--to-config', other], env);
    async function read(store: Awaited<ReturnType<typeof openStore>>) {
      const found = Object.fromEntries(
        await Promise.all(
          [NO_ACCOUNT, ...ACCOUNTS].map(async name => [name, [...(await store.scan(name, ''))].sort()]),
        ),
      );
      await store.close();
      return found;
    }
    return {
      path,
      from,
      to,
      env,
      copy,
      open: () => openStore(options, { env, candidate: { url: 'http://agent.invalid', clock: systemClock } }),
      inSqlite: async () => read(await openSqliteStore({ path })),
      inPostgres: async () => read(await attachStore(options, { env })),
    };
  }

  async function fill(path: string): Promise<void> {
    const store = await openSqliteStore({ path });
    for (const [account, rows] of Object.entries(ROWS)) {
      await store.commit(
        account,
        rows.map(([key, value]) => ({ key, value })),
      );
    }
    await store.close();
  }

  it('store copy copies every row from SQLite to PostgreSQL and back, and refuses a destination that is not empty', async () => {
    const { path, from, to, copy, inSqlite, inPostgres } = await scene();
    expect(await copy(from, to)).toMatchObject({ code: 1, stderr: expect.stringContaining('store.db') });
    await fill(path);
    const before = await inSqlite();
    expect(await copy(from, to)).toEqual({ code: 0, stdout: 'copied 6 rows of 3 accounts\n', stderr: '' });
    expect(await inPostgres()).toEqual(before);
    const refused = await copy(from, to);
    expect(refused).toMatchObject({ code: 1, stdout: '', stderr: NOT_EMPTY });
    expect(await copy(to, from)).toMatchObject({ code: 1, stderr: NOT_EMPTY });
    const other = from.replace('from.yaml', 'other.yaml');
    writeFileSync(other, JSON.stringify({ accounts: [], store: { path: `${path}-2` } }));
    expect(await copy(to, other)).toMatchObject({ code: 0, stdout: 'copied 6 rows of 3 accounts\n' });
    const back = await openSqliteStore({ path: `${path}-2` });
    expect([...(await back.scan('a', ''))].sort()).toEqual(before.a);
    await back.close();
  });

  it('store copy refuses to run while an agent uses the source store, and creates nothing in the destination', async () => {
    const { path, from, to, copy, inPostgres } = await scene();
    await fill(path);
    const agent = await openSqliteStore({ path });
    const refused = await copy(from, to);
    expect(refused.code).toBe(1);
    expect(refused.stderr).toMatch(/in use|another/);
    await agent.close();
    await expect(inPostgres()).rejects.toThrow('schema');
  });

  it('store copy refuses to run while a leader uses the target store, and leaves no lease behind', async () => {
    const { path, from, to, copy, open } = await scene();
    await fill(path);
    const agent = await open();
    expect(await agent.lease?.renew()).toBe('leader');
    const renewals = new AbortController();
    const renewing = (async () => {
      while (!renewals.signal.aborted) {
        expect(await agent.lease?.renew()).toBe('leader');
        await sleep(200);
      }
    })();
    const refused = await copy(from, to);
    renewals.abort();
    await renewing;
    const stderr = 'an agent uses the target store: stop it first\n';
    expect(refused).toEqual({ code: 1, stdout: '', stderr });
    await agent.lease?.release();
    await agent.close();
    const next = await open();
    expect(await next.lease?.renew()).toBe('leader');
    await next.close();
  });
});
