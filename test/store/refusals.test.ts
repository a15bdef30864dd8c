import { createHash } from 'node:crypto';
import {
  chmodSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { beforeEach, describe, expect, it } from 'vitest';
import { StoreError } from '../../src/store/errors.ts';
import { openSqliteStore } from '../../src/store/sqlite.ts';
import { newFolder } from '../support/folder.ts';
import { makeStore, spoilPage } from './damage.ts';
import { startRemote, UNSHARED, whyNoMounts } from './remote.ts';

let folder: string;
let path: string;
beforeEach(() => {
  folder = newFolder();
  path = join(folder, 'rows.db');
});

/** Returns the name and hash of each file in the folder, except the lock file, the shared-memory file and an empty WAL. */
const contents = () =>
  readdirSync(folder)
    .filter(name => !/-(lock|shm)$/.test(name) && !(name.endsWith('-wal') && statSync(join(folder, name)).size === 0))
    .sort()
    .map(name => [
      name,
      createHash('sha256')
        .update(readFileSync(join(folder, name)))
        .digest('hex'),
    ]);

/** Expects that opening fails with this reason and message, that the error names the file, and that nothing changes. */
async function expectRefusal(reason: string, words: RegExp): Promise<void> {
  const before = contents();
  const error = await openSqliteStore({ path }).then(
    () => 'it opened',
    (cause: unknown) => cause,
  );
  expect(error).toBeInstanceOf(StoreError);
  expect(error).toMatchObject({ reason, message: expect.stringMatching(words) });
  expect((error as Error).message).toContain(path);
  expect(contents()).toEqual(before);
}

describe('refused files', () => {
  it('openSqliteStore refuses a file that does not contain a database, and leaves it unchanged', async () => {
    writeFileSync(path, 'these are not the rows you are looking for\n'.repeat(500));
    await expectRefusal('corrupt', /rows\.db is damaged or not a database \(SQLite 26.*restore a backup/);
  });

  it.each([1, 100, 511, 512, 1000, 4095, 4096])(
    'openSqliteStore refuses %i bytes that do not form a database, and leaves them unchanged',
    async length => {
      writeFileSync(path, 'x'.repeat(length));
      await expectRefusal('corrupt', /damaged or not a database/);
    },
  );

  it('openSqliteStore refuses a truncated file, and leaves it unchanged', async () => {
    await makeStore(path);
    truncateSync(path, Math.floor(statSync(path).size / 2));
    await expectRefusal('corrupt', /damaged or not a database/);
  });

  it.each([
    ['truncated', () => truncateSync(path, 8192)],
    ['damaged', () => spoilPage(path, 10)],
  ])('openSqliteStore refuses a %s file with rows in its WAL, and leaves it unchanged', async (_what, damage) => {
    await makeStore(path);
    const remote = startRemote();
    await remote.open(path);
    await remote.commit('a', [{ key: 'new', value: 'row' }]);
    await remote.kill();
    damage();
    await expectRefusal('corrupt', /damaged or not a database/);
    expect(statSync(`${path}-wal`).size).toBeGreaterThan(0);
  });

  it.each([2, 10])('openSqliteStore refuses a file whose page %i is damaged, and leaves it unchanged', async page => {
    await makeStore(path);
    spoilPage(path, page);
    await expectRefusal('corrupt', /damaged or not a database/);
  });

  it('openSqliteStore refuses a file with a damaged header, and leaves it unchanged', async () => {
    await makeStore(path);
    spoilPage(path, 1);
    await expectRefusal('corrupt', /damaged or not a database/);
  });

  it.each(['missing', 'empty'])(
    'openSqliteStore refuses a WAL whose database file is %s, and leaves the WAL unchanged',
    async what => {
      const remote = startRemote();
      await remote.open(path);
      await remote.commit('a', [{ key: 'k', value: 'v' }]);
      await remote.kill();
      if (what === 'empty') truncateSync(path, 0);
      else rmSync(path);
      await expectRefusal('corrupt', /it is empty or missing, but rows\.db-wal contains rows/);
    },
  );

  it('openSqliteStore refuses a file with a newer schema, and leaves it unchanged', async () => {
    await makeStore(path);
    const db = new DatabaseSync(path);
    db.exec('PRAGMA user_version = 1000');
    db.close();
    await expectRefusal('newer', /written by a newer version \(schema 1000, this version has \d+\): run that version/);
  });

  it('openSqliteStore refuses a file with an older schema, and leaves it unchanged', async () => {
    await makeStore(path);
    const db = new DatabaseSync(path);
    db.exec('PRAGMA user_version = 1');
    db.close();
    await expectRefusal(
      'older',
      /older version \(schema 1, this version has 2\): this version cannot read it: use a separate store/,
    );
  });

  it.each([
    ['with tables', 'CREATE TABLE theirs (id INTEGER)'],
    ['with a schema number', 'PRAGMA user_version = 1'],
  ])('openSqliteStore refuses another program’s database %s, and leaves it unchanged', async (_what, sql) => {
    const db = new DatabaseSync(path);
    db.exec(sql);
    db.close();
    await expectRefusal('foreign', /database of another program: set store\.path/);
  });

  it('openSqliteStore refuses its own database if the table is missing, and leaves it unchanged', async () => {
    await makeStore(path);
    const db = new DatabaseSync(path);
    db.exec('DROP TABLE rows');
    db.close();
    await expectRefusal('corrupt', /no such table/);
  });

  it('openSqliteStore refuses a path that names a folder', async () => {
    mkdirSync(path);
    await expect(openSqliteStore({ path })).rejects.toMatchObject({
      reason: 'path',
      message: expect.stringMatching(/rows\.db can't be opened \(not a regular file\): store\.path must name a file/),
    });
  });

  it('openSqliteStore refuses a path below a file', async () => {
    writeFileSync(join(folder, 'file'), '');
    for (const below of [join(folder, 'file', 'rows.db'), join(folder, 'file', 'more', 'rows.db')]) {
      await expect(openSqliteStore({ path: below })).rejects.toMatchObject({ name: 'StoreError', reason: 'path' });
    }
  });

  it('openSqliteStore refuses a file name that is too long, and a dangling symbolic link', async () => {
    await expect(openSqliteStore({ path: join(folder, 'x'.repeat(300)) })).rejects.toMatchObject({ reason: 'path' });
    symlinkSync(join(folder, 'nothing'), path);
    await expect(openSqliteStore({ path })).rejects.toMatchObject({ reason: 'path' });
  });

  it('openSqliteStore refuses a read-only folder and a read-only file', async ({ skip }) => {
    await makeStore(path);
    const remote = startRemote();
    for (const name of readdirSync(folder)) chmodSync(join(folder, name), 0o644);
    chmodSync(folder, 0o555);
    if (process.getuid?.() === 0) {
      const refused = await remote.becomeNobody().catch((error: Error) => error.message);
      if (refused) skip(`permissions do not hold for root, and it can't become another user: ${refused}`);
    }
    const readonly = {
      reason: 'readonly',
      message: expect.stringMatching(/can't be written.*permission for the file/),
    };
    await expect(remote.open(path)).rejects.toMatchObject(readonly);
    await expect(remote.open(join(folder, 'other.db'))).rejects.toMatchObject(readonly);
    await expect(remote.open(join(folder, 'below', 'rows.db'))).rejects.toMatchObject(readonly);
    // Leave only the database file read-only. This also allows the folder to be removed after the test.
    chmodSync(folder, 0o777);
    chmodSync(`${path}-lock`, 0o666);
    chmodSync(path, 0o444);
    await expect(remote.open(path)).rejects.toMatchObject(readonly);
  });

  it('openSqliteStore refuses a read-only file system', async ({ skip }) => {
    const why = whyNoMounts(folder);
    if (why) skip(why);
    await makeStore(path);
    const remote = startRemote(`mount --bind ${folder} ${folder} && mount -o remount,bind,ro ${folder}`, UNSHARED);
    await expect(remote.open(path)).rejects.toMatchObject({
      reason: 'readonly',
      message: expect.stringContaining('EROFS'),
    });
    const missing = join(folder, 'new', 'rows.db');
    await expect(remote.open(missing)).rejects.toMatchObject({ reason: 'readonly' });
  });
});
