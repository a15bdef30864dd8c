import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import fc from 'fast-check';
import { afterEach, describe, expect, it } from 'vitest';
import { openDatabase } from '../../src/store/database.ts';
import { openSqliteStore, SCAN } from '../../src/store/sqlite.ts';
import type { Store } from '../../src/store/store.ts';
import { newFolder } from '../support/folder.ts';
import { runs } from '../support/runs.ts';

const stores: Store[] = [];
afterEach(async () => {
  for (const store of stores.splice(0)) await store.close();
});

async function open(path: string): Promise<Store> {
  const store = await openSqliteStore({ path });
  stores.push(store);
  return store;
}

const modeOf = (path: string) => (statSync(path).mode & 0o777).toString(8);

/** Copies a file in another process: closing the file here would release this process's locks on it. */
const copy = (from: string, to: string) => execFileSync('cp', [from, to]);

describe('sqlite file', () => {
  it('the file and its folder are created with access for their owner only; existing folders stay unchanged', async () => {
    const folder = newFolder();
    chmodSync(folder, 0o755);
    const path = join(folder, 'one', 'two', 'rows.db');
    const store = await open(path);
    await store.commit('a', [{ key: 'k', value: 'v' }]);
    expect(modeOf(folder)).toBe('755');
    expect([modeOf(join(folder, 'one')), modeOf(join(folder, 'one', 'two'))]).toEqual(['700', '700']);
    const files = readdirSync(join(folder, 'one', 'two')).sort();
    expect(files).toEqual(['rows.db', 'rows.db-lock', 'rows.db-shm', 'rows.db-wal']);
    expect(files.map(file => modeOf(join(folder, 'one', 'two', file)))).toEqual(['600', '600', '600', '600']);
  });

  it('the file is complete without its WAL after the store is closed', async () => {
    const path = join(newFolder(), 'rows.db');
    const store = await open(path);
    await store.commit('a', [{ key: 'k', value: 'v' }]);
    await store.close();
    expect(existsSync(`${path}-wal`)).toBe(false);
    expect(statSync(`${path}-lock`).size).toBe(0);
    const db = new DatabaseSync(path, { readOnly: true });
    expect({ ...db.prepare('SELECT * FROM rows').get() }).toEqual({ account: 'a', key: 'k', value: 'v' });
    db.close();
  });

  it('the file is complete after the store is closed, even while another connection reads it', async () => {
    const folder = newFolder();
    const path = join(folder, 'rows.db');
    const store = await open(path);
    await store.commit('a', [{ key: 'k', value: 'v' }]);
    const reader = new DatabaseSync(path, { readOnly: true });
    expect(reader.prepare('SELECT count(*) AS rows FROM rows').get()?.rows).toBe(1);
    await store.close();
    copy(path, join(folder, 'alone.db'));
    reader.close();
    expect(await (await open(join(folder, 'alone.db'))).scan('a', '')).toEqual(new Map([['k', 'v']]));
  });

  it('the file is synced at every commit', () => {
    const { db, close } = openDatabase(join(newFolder(), 'rows.db'));
    expect(db.prepare('PRAGMA journal_mode').get()?.journal_mode).toBe('wal');
    expect(db.prepare('PRAGMA synchronous').get()?.synchronous).toBe(2);
    close();
  });

  it('the WAL of the file does not grow without bound', async () => {
    const path = join(newFolder(), 'rows.db');
    const store = await open(path);
    for (let n = 0; n < 60; n += 1) {
      await store.commit('a', [{ key: String(n % 3), value: String(n).padStart(500_000, '.') }]);
    }
    expect(statSync(`${path}-wal`).size).toBeLessThan(8 * 2 ** 20);
    await store.commit('a', [{ key: 'huge', value: 'x'.repeat(40 * 2 ** 20) }]);
    for (let n = 0; n < 3; n += 1) await store.commit('a', [{ key: 'small', value: String(n) }]);
    expect(statSync(`${path}-wal`).size).toBeLessThan(17 * 2 ** 20);
  });

  it('a scan uses the primary key', async () => {
    const path = join(newFolder(), 'rows.db');
    await open(path);
    const db = new DatabaseSync(path, { readOnly: true });
    const plan = (sql: string, ...values: string[]) => db.prepare(`EXPLAIN QUERY PLAN ${sql}`).get(...values)?.detail;
    expect(plan(SCAN, 'a', 'b', 'c')).toBe('SEARCH rows USING PRIMARY KEY (account=? AND key>? AND key<?)');
    db.close();
  });

  it.each([
    ['an empty file', ''],
    ['only a header', 'PRAGMA journal_mode = WAL'],
    ['no settings', 'PRAGMA application_id = 0; VACUUM'],
  ])('the next start completes a file whose creation was interrupted: %s', async (_what, sql) => {
    const path = join(newFolder(), 'rows.db');
    writeFileSync(path, '');
    const db = new DatabaseSync(path);
    db.exec(sql);
    db.close();
    const store = await open(path);
    await store.commit('a', [{ key: 'k', value: 'v' }]);
    expect(await store.scan('a', '')).toEqual(new Map([['k', 'v']]));
  });

  it('the file can be opened through a symbolic link', async () => {
    const folder = newFolder();
    mkdirSync(join(folder, 'real'));
    symlinkSync(join(folder, 'real'), join(folder, 'linked'));
    symlinkSync(join(folder, 'real', 'rows.db'), join(folder, 'link.db'));
    const store = await open(join(folder, 'linked', 'rows.db'));
    await store.commit('a', [{ key: 'k', value: 'v' }]);
    for (const path of [join(folder, 'link.db'), join(folder, 'real', 'rows.db')]) {
      await expect(open(path)).rejects.toMatchObject({ reason: 'locked' });
    }
    await store.close();
    expect(await (await open(join(folder, 'link.db'))).scan('a', '')).toEqual(new Map([['k', 'v']]));
  });

  it('a file with a truncated WAL contains only the oldest commits, each complete', async () => {
    const folder = newFolder();
    const path = join(folder, 'rows.db');
    const store = await open(path);
    const commits = 12;
    for (let n = 1; n <= commits; n += 1) {
      // Vary the size of values, so that some take one page and others take many.
      const value = `${n} ${'x'.repeat((n * 7919) % 30_000)}`;
      const keys = ['left', 'right', `own ${n}`];
      await store.commit(
        'a',
        keys.map(key => ({ key, value })),
      );
    }
    const size = statSync(`${path}-wal`).size;
    const cut = join(folder, 'cut.db');
    await fc.assert(
      fc.asyncProperty(fc.nat(size), async length => {
        copy(path, cut);
        copy(`${path}-wal`, `${cut}-wal`);
        truncateSync(`${cut}-wal`, length);
        const opened = await openSqliteStore({ path: cut });
        const rows = await opened.scan('a', '').finally(() => opened.close());
        const last = Number(rows.get('left')?.split(' ')[0] ?? 0);
        expect(rows.get('right')).toBe(rows.get('left'));
        expect(rows.size).toBe(last === 0 ? 0 : last + 2);
        if (length === size) expect(last).toBe(commits);
      }),
      { numRuns: runs(40), examples: [[0], [size], [size - 1]] },
    );
  });

  it('a large commit is written in slices, yields between them, and shows its rows only when complete', async () => {
    const path = join(newFolder(), 'rows.db');
    const store = await open(path);
    await store.commit('a', [{ key: 'total', value: '1' }]);
    const rows = Array.from({ length: 20_000 }, (_, index) => ({ key: `row/${index}`, value: 'x'.repeat(100) }));
    let isDone = false;
    let turns = 0;
    const large = store.commit('a', [{ key: 'total', value: '2' }, ...rows]).then(() => {
      isDone = true;
    });
    const small = store.commit('b', [{ key: 'k', value: 'v' }]).then(() => isDone);
    const other = new DatabaseSync(path, { readOnly: true });
    const outside = other.prepare("SELECT count(*) AS rows, max(value) AS total FROM rows WHERE account = 'a'");
    const seen = new Set<string>();
    while (!isDone) {
      const counted = outside.get() as { rows: number; total: string };
      seen.add(`${counted.rows} ${counted.total.slice(0, 1)}`);
      turns += 1;
      await new Promise(resolve => setImmediate(resolve));
    }
    expect(turns).toBeGreaterThan(5);
    expect([...seen].filter(state => state !== '1 1' && state !== '20001 x')).toEqual([]);
    other.close();
    await large;
    expect(await small).toBe(true);
  });

  it('a partly written commit is never visible, and a failed one leaves no trace', async () => {
    const folder = newFolder();
    const path = join(folder, 'rows.db');
    const store = await open(path);
    await store.commit('a', [{ key: 'total', value: '1' }]);
    const rows = Array.from({ length: 20_000 }, (_, index) => ({ key: `row/${index}`, value: 'x'.repeat(100) }));
    const large = store.commit('a', rows);
    await new Promise(resolve => setImmediate(resolve));
    await new Promise(resolve => setImmediate(resolve));
    const scanned = store.scan('a', '');
    const [counted] = await Promise.all([scanned.then(found => found.size), large]);
    expect(counted).toBe(20_001);
    const failing = store.commit('a', [{ key: 'total', value: '2' }, ...rows.map(({ key }) => ({ key, value: null }))]);
    renameSync(path, `${path}-moved`);
    await expect(failing).rejects.toMatchObject({ reason: 'replaced' });
    renameSync(`${path}-moved`, path);
    expect((await store.scan('a', '')).size).toBe(20_001);
    expect((await store.scan('a', 'total')).get('total')).toBe('1');
  });
});
