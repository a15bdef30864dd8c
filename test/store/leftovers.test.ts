import { createHash, randomBytes } from 'node:crypto';
import {
  copyFileSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { beforeEach, describe, expect, it } from 'vitest';
import { backupDatabase } from '../../src/store/database.ts';
import { attachSqliteStore, openSqliteStore } from '../../src/store/sqlite.ts';
import { newFolder } from '../support/folder.ts';
import { makeStore } from './damage.ts';
import { type Remote, startRemote, UNSHARED, whyNoMounts } from './remote.ts';

let path: string;
let backup: string;
beforeEach(() => {
  path = join(newFolder(), 'rows.db');
  backup = join(newFolder(), 'backup.db');
});

/** Returns the hashes of all files next to the store, except the lock and the shared memory, which contain no rows. */
const contents = () =>
  readdirSync(dirname(path))
    .filter(name => !/-(lock|shm)$/.test(name))
    .map(name => [
      name,
      createHash('sha256')
        .update(readFileSync(join(dirname(path), name)))
        .digest('hex'),
    ]);

const commit = (remote: Remote, value: string) => remote.commit('a', [{ key: 'k', value }]);

/** Commits until SQLite has restarted the WAL. */
async function restartWal(remote: Remote): Promise<void> {
  const value = randomBytes(2 ** 20).toString('hex');
  // SQLite does not write pages with unchanged content.
  for (let n = 0; n < 4; n += 1) await remote.commit('a', [{ key: `large ${n}`, value: n + value }]);
}

async function valueIn(store = openSqliteStore({ path })): Promise<string | undefined> {
  const opened = await store;
  const value = (await opened.scan('a', 'k')).get('k');
  await opened.close();
  return value;
}

describe('files that belong together', () => {
  it('a restored backup opens after its first agent was killed, even repeatedly', async () => {
    const first = startRemote();
    await first.open(path);
    await commit(first, '0');
    backupDatabase(path, backup);
    await first.close();
    copyFileSync(backup, path);
    for (let n = 1; n < 4; n += 1) {
      const remote = startRemote();
      await remote.open(path);
      await commit(remote, String(n));
      if (n === 2) await restartWal(remote);
      await remote.kill();
      expect(await valueIn(attachSqliteStore({ path }))).toBe(String(n));
    }
    expect(await valueIn()).toBe('3');
  });

  it('a file opens with a WAL of more than 2 GiB, which grows while another program reads', async () => {
    const remote = startRemote();
    await remote.open(path);
    await commit(remote, 'latest');
    await remote.kill();
    // The rest is a hole, which SQLite does not apply.
    truncateSync(`${path}-wal`, 2 ** 31 + 2 ** 20);
    expect(await valueIn(attachSqliteStore({ path }))).toBe('latest');
    expect(await valueIn()).toBe('latest');
  });

  it('a file opens after another program vacuumed it while its agent was running, and the agent was killed', async () => {
    const remote = startRemote();
    await remote.open(path);
    await commit(remote, '1');
    const db = new DatabaseSync(path);
    db.exec('VACUUM');
    await commit(remote, '2');
    await remote.kill();
    db.close();
    expect(await valueIn()).toBe('2');
  });

  it('the shared memory of another file is ignored', async () => {
    await makeStore(path);
    const other = join(newFolder(), 'rows.db');
    const remote = startRemote();
    await remote.open(other);
    await commit(remote, 'other');
    copyFileSync(`${other}-shm`, `${path}-shm`);
    expect(await valueIn()).toBeUndefined();
    expect(await (await attachSqliteStore({ path })).scan('a', '1')).toHaveProperty('size', 111);
  });
});

it('a store next to the rollback journal of another file is refused and left unchanged', async () => {
  await makeStore(backup);
  const db = new DatabaseSync(backup);
  db.exec("PRAGMA journal_mode = DELETE; PRAGMA cache_size = 1; BEGIN; UPDATE rows SET value = 'lost'");
  await makeStore(path);
  copyFileSync(`${backup}-journal`, `${path}-journal`);
  db.close();
  const before = contents();
  const message = `${path} cannot be used with a file next to it that belongs to another store (rows.db-journal): nothing was changed; if a backup was restored, move the named file away`;
  for (const open of [attachSqliteStore, openSqliteStore])
    await expect(open({ path })).rejects.toMatchObject({ name: 'StoreError', reason: 'leftover', message });
  expect(contents()).toEqual(before);
  rmSync(`${path}-journal`);
  expect(await valueIn()).toBeUndefined();
});

describe('a store with several paths', () => {
  it('a store is refused at a second hard link, even while an agent uses the first one', async () => {
    const remote = startRemote();
    await remote.open(path);
    const other = join(newFolder(), 'other.db');
    linkSync(path, other);
    for (const open of [openSqliteStore, attachSqliteStore]) {
      await expect(open({ path: other })).rejects.toMatchObject({
        reason: 'linked',
        message: `${other} has more than one path, and each path has a separate lock and -wal: remove the other hard links, and mount its folder instead of the file`,
      });
    }
    expect(readdirSync(dirname(other)).filter(name => /wal|shm/.test(name))).toEqual([]);
    rmSync(other);
    await commit(remote, 'kept');
  });

  it('a store is locked for every symbolic link to its file or folder', async () => {
    const remote = startRemote();
    await remote.open(path);
    const folder = join(newFolder(), 'linked');
    symlinkSync(dirname(path), folder);
    const link = join(newFolder(), 'link.db');
    symlinkSync(path, link);
    for (const other of [join(folder, 'rows.db'), link, join(dirname(path), '.', 'x', '..', 'rows.db')]) {
      await expect(openSqliteStore({ path: other })).rejects.toMatchObject({ reason: 'locked' });
    }
  });

  it.for([
    ['file', 'linked'],
    ['folder', 'locked'],
  ] as const)('a store is refused at another mount of its %s', async ([what, reason], { skip }) => {
    const mountPoint = join(newFolder(), 'mount point');
    mkdirSync(mountPoint);
    const why = whyNoMounts(mountPoint);
    if (why) skip(why);
    const remote = startRemote();
    await remote.open(path);
    const other = join(mountPoint, 'rows.db');
    const [from, to] = what === 'file' ? [path, other] : [dirname(path), mountPoint];
    const second = startRemote(`touch '${other}' && mount --bind '${from}' '${to}'`, UNSHARED);
    await expect(second.open(other)).rejects.toMatchObject({ reason });
  });
});
