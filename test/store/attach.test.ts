import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { attachStore } from '../../src/store/open.ts';
import { openSqliteStore } from '../../src/store/sqlite.ts';
import { newFolder } from '../support/folder.ts';
import { makeStore } from './damage.ts';
import { startRemote } from './remote.ts';

let path: string;
beforeEach(() => {
  path = join(newFolder(), 'rows.db');
});

const row = (key: string, value = 'v') => [{ key, value }];
const inode = (file: string) => statSync(file).ino;

async function openAttached() {
  const store = await attachStore({ kind: 'sqlite', path });
  onTestFinished(() => store.close());
  return store;
}

describe('attached stores next to a running agent', () => {
  it('an attached store and the agent read each other’s commits immediately', async () => {
    const agent = startRemote();
    await agent.open(path);
    await agent.commit('', row('theirs'));
    const attached = await openAttached();
    expect([...(await attached.scan('', ''))]).toEqual([['theirs', 'v']]);
    await attached.commit('', row('ours'));
    expect(await agent.scan('', 'ours')).toEqual([['ours', 'v']]);
    await agent.commit('', [{ key: 'ours', value: null }, ...row('answer')]);
    expect([...(await attached.scan('', '')).keys()].sort()).toEqual(['answer', 'theirs']);
  });

  it('an attached store neither checkpoints nor replaces the files of the agent when it is opened, written and closed repeatedly', async () => {
    const agent = startRemote();
    await agent.open(path);
    await agent.commit('a', row('k'));
    const before = [path, `${path}-wal`, `${path}-lock`].map(inode);
    const { mtimeMs, size } = statSync(path);
    for (let time = 0; time < 3; time += 1) {
      const attached = await attachStore({ kind: 'sqlite', path });
      // Exceeds the number of pages after which SQLite checkpoints the WAL automatically.
      await attached.commit('a', row(String(time), 'x'.repeat(5 * 2 ** 20)));
      await attached.close();
      expect(statSync(path)).toMatchObject({ mtimeMs, size });
    }
    expect([path, `${path}-wal`, `${path}-lock`].map(inode)).toEqual(before);
    await agent.commit('a', row('after'));
    expect((await agent.scan('a', '')).length).toBe(5);
  });

  it('an attached store takes no process lock, so an agent can start while it is open', async () => {
    await makeStore(path);
    const attached = await openAttached();
    const agent = startRemote();
    await agent.open(path);
    await attached.commit('', row('k'));
    expect(await agent.scan('', '')).toEqual([['k', 'v']]);
    await agent.commit('', row('l'));
    // The WAL outlives an agent that closes first, and the next agent reads all rows.
    await agent.close();
    await attached.commit('', row('m'));
    const next = startRemote();
    await next.open(path);
    expect((await next.scan('', '')).map(([key]) => key).sort()).toEqual(['k', 'l', 'm']);
  });

  it('an attached store waits longer for a write lock than the agent does', async () => {
    await makeStore(path);
    const [agent, attached] = [startRemote(), startRemote()];
    await attached.openAttached(path);
    await agent.lock(path);
    let done = false;
    const committed = attached.commit('', row('k')).then(() => {
      done = true;
    });
    // The agent's own lock timeout is 500 ms.
    await new Promise(resolve => setTimeout(resolve, 800));
    expect(done).toBe(false);
    await agent.unlock();
    await committed;
    expect(await attached.scan('', '')).toEqual([['k', 'v']]);
  });

  it('an attached store and the agent lose no commit when they write concurrently', async () => {
    const [agent, attached] = [startRemote(), startRemote()];
    await agent.open(path);
    await attached.openAttached(path);
    /** Commits with retries. Under load, a process may time out waiting for the lock; its commit then wrote nothing. */
    const commit = (remote: typeof agent, key: string): Promise<unknown> =>
      remote.commit('', row(key)).catch(error => {
        if (error.reason !== 'locked') throw error;
        return commit(remote, key);
      });
    const write = async (remote: typeof agent, name: string) => {
      for (let n = 0; n < 100; n += 1) await commit(remote, `${name}${n}`);
    };
    await Promise.all([write(agent, 'agent'), write(attached, 'attached')]);
    expect((await agent.scan('', '')).length).toBe(200);
  });

  it('an attached store rejects a commit after its file was replaced, because the agent would not find the row', async () => {
    await makeStore(path);
    const attached = await openAttached();
    const other = join(newFolder(), 'rows.db');
    await makeStore(other);
    writeFileSync(`${path}.new`, readFileSync(other));
    renameSync(`${path}.new`, path);
    await expect(attached.commit('', row('k'))).rejects.toMatchObject({ reason: 'replaced' });
  });
});

describe('processes killed with SIGKILL', () => {
  it('commits of an attached process that is killed are written completely or not at all, and the agent continues', async () => {
    const agent = startRemote();
    await agent.open(path);
    for (let round = 0; round < 5; round += 1) {
      const attached = startRemote();
      await attached.openAttached(path);
      await attached.commit('b', row(`${round}`));
      const cut = attached.commit('b', [...row(`${round} large`, 'x'.repeat(8 * 2 ** 20)), ...row(`${round} end`)]);
      const ended = cut.catch(() => undefined);
      const during = agent.commit('a', row(`${round}`));
      await new Promise(resolve => setTimeout(resolve, round * 10));
      await Promise.all([attached.kill(), ended, during]);
      await agent.commit('a', row(`${round} after`));
    }
    const keys = (await agent.scan('b', '')).map(([key]) => key);
    for (let round = 0; round < 5; round += 1) {
      expect(keys).toContain(`${round}`);
      expect(keys.includes(`${round} large`)).toBe(keys.includes(`${round} end`));
    }
    expect((await agent.scan('a', '')).length).toBe(10);
    await agent.close();
    expect((await (await openAttached()).scan('a', '')).size).toBe(10);
  });

  it('the store of an agent that is killed stays readable and writable for attached stores and the next agent', async () => {
    const agent = startRemote();
    await agent.open(path);
    await agent.commit('a', row('agent'));
    const living = await openAttached();
    await agent.kill();
    await living.commit('a', row('living'));
    await living.close();
    const later = await attachStore({ kind: 'sqlite', path });
    expect((await later.scan('a', '')).size).toBe(2);
    await later.commit('a', row('later'));
    await later.close();
    const next = startRemote();
    await next.open(path);
    expect((await next.scan('a', '')).map(([key]) => key).sort()).toEqual(['agent', 'later', 'living']);
  });
});

describe('refused attaching', () => {
  const contents = () => readdirSync(dirname(path)).map(name => [name, lstatSync(join(dirname(path), name)).size]);

  async function expectRefusal(reason: string, words: RegExp): Promise<void> {
    const before = contents();
    await expect(attachStore({ kind: 'sqlite', path })).rejects.toMatchObject({
      reason,
      message: expect.stringMatching(words),
    });
    // SQLite may leave the WAL and shared-memory files behind if it cannot write.
    expect(contents().filter(([name]) => !/-(wal|shm)$/.test(String(name)))).toEqual(before);
  }

  const execute = (sql: string) => {
    const db = new DatabaseSync(path);
    db.exec(sql);
    db.close();
  };

  it('attaching refuses an in-memory store', async () => {
    await expect(attachStore({ kind: 'memory', path })).rejects.toMatchObject({
      reason: 'unshared',
      message:
        'the store of kind memory is in the memory of the agent, which other processes cannot access: set store.kind to sqlite or postgres',
    });
  });

  it('attaching refuses a missing file and a missing folder without creating them', async () => {
    await expectRefusal('missing', /rows\.db does not exist: start the agent first/);
    path = join(dirname(path), 'new', 'rows.db');
    await expect(attachStore({ kind: 'sqlite', path })).rejects.toMatchObject({ reason: 'missing' });
    expect(existsSync(dirname(path))).toBe(false);
  });

  it('attaching refuses a dangling link, a folder and a text file, and leaves them unchanged', async () => {
    symlinkSync(join(dirname(path), 'nothing'), path);
    await expect(attachStore({ kind: 'sqlite', path })).rejects.toMatchObject({ reason: 'missing' });
    path = join(dirname(path), 'folder');
    mkdirSync(path);
    await expectRefusal('path', /not a regular file/);
    path = join(dirname(path), 'text');
    writeFileSync(path, 'these are not the rows you are looking for\n'.repeat(500));
    await expectRefusal('corrupt', /damaged or not a database/);
  });

  it("attaching refuses an empty file, another schema and another program's database, and leaves them unchanged", async () => {
    writeFileSync(path, '');
    await expectRefusal('missing', /does not exist \(the file is empty\): start the agent first/);
    await makeStore(path);
    execute('PRAGMA user_version = 1');
    await expectRefusal('older', /older version \(schema 1, this version has 2\)/);
    execute('PRAGMA user_version = 1000');
    await expectRefusal('newer', /schema 1000/);
    execute('PRAGMA application_id = 7');
    await expectRefusal('foreign', /another program/);
  });
});

it('an attached store opens the same file through a symbolic link', async () => {
  const agent = await openSqliteStore({ path });
  onTestFinished(() => agent.close());
  const link = `${path}-link`;
  symlinkSync(path, link);
  const attached = await attachStore({ kind: 'sqlite', path: link });
  onTestFinished(() => attached.close());
  await attached.commit('', row('k'));
  expect((await agent.scan('', '')).size).toBe(1);
  expect(existsSync(`${link}-wal`)).toBe(false);
  renameSync(`${path}-wal`, `${path}-away`);
  await expect(attached.commit('', row('l'))).rejects.toMatchObject({ reason: 'replaced' });
  renameSync(`${path}-away`, `${path}-wal`);
  await attached.commit('', row('l'));
});
