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

async function openBeside() {
  const store = await attachStore({ kind: 'sqlite', path });
  onTestFinished(() => store.close());
  return store;
}

describe('a store beside the running agent', () => {
  it('sees at once what the agent committed, and the agent what it did', async () => {
    const agent = startRemote();
    await agent.open(path);
    await agent.commit('', row('theirs'));
    const beside = await openBeside();
    expect([...(await beside.scan('', ''))]).toEqual([['theirs', 'v']]);
    await beside.commit('', row('ours'));
    expect(await agent.scan('', 'ours')).toEqual([['ours', 'v']]);
    await agent.commit('', [{ key: 'ours', value: null }, ...row('answer')]);
    expect([...(await beside.scan('', '')).keys()].sort()).toEqual(['answer', 'theirs']);
  });

  it('leaves the agent its files, however often it comes and goes', async () => {
    const agent = startRemote();
    await agent.open(path);
    await agent.commit('a', row('k'));
    const before = [path, `${path}-wal`, `${path}-lock`].map(inode);
    const { mtimeMs, size } = statSync(path);
    for (let time = 0; time < 3; time += 1) {
      const beside = await attachStore({ kind: 'sqlite', path });
      // More than the pages after which SQLite would copy the WAL by itself.
      await beside.commit('a', row(String(time), 'x'.repeat(5 * 2 ** 20)));
      await beside.close();
      expect(statSync(path)).toMatchObject({ mtimeMs, size });
    }
    expect([path, `${path}-wal`, `${path}-lock`].map(inode)).toEqual(before);
    await agent.commit('a', row('after'));
    expect((await agent.scan('a', '')).length).toBe(5);
  });

  it('takes no lock of the process: an agent starts while it is open', async () => {
    await makeStore(path);
    const beside = await openBeside();
    const agent = startRemote();
    await agent.open(path);
    await beside.commit('', row('k'));
    expect(await agent.scan('', '')).toEqual([['k', 'v']]);
    await agent.commit('', row('l'));
    // The WAL outlives an agent that ends first, and the next finds everything.
    await agent.close();
    await beside.commit('', row('m'));
    const next = startRemote();
    await next.open(path);
    expect((await next.scan('', '')).map(([key]) => key).sort()).toEqual(['k', 'l', 'm']);
  });

  it('waits while the agent writes, longer than the agent would', async () => {
    await makeStore(path);
    const [agent, beside] = [startRemote(), startRemote()];
    await beside.openBeside(path);
    await agent.hold(path);
    let done = false;
    const committed = beside.commit('', row('k')).then(() => {
      done = true;
    });
    // The agent's own patience is 500 ms.
    await new Promise(resolve => setTimeout(resolve, 800));
    expect(done).toBe(false);
    await agent.letGo();
    await committed;
    expect(await beside.scan('', '')).toEqual([['k', 'v']]);
  });

  it('loses nothing where both write at the same time', async () => {
    const [agent, beside] = [startRemote(), startRemote()];
    await agent.open(path);
    await beside.openBeside(path);
    /** On a busy machine one may wait too long for the other: then nothing was written. */
    const commit = (remote: typeof agent, key: string): Promise<unknown> =>
      remote.commit('', row(key)).catch(error => {
        if (error.reason !== 'locked') throw error;
        return commit(remote, key);
      });
    const write = async (remote: typeof agent, name: string) => {
      for (let n = 0; n < 100; n += 1) await commit(remote, `${name}${n}`);
    };
    await Promise.all([write(agent, 'agent'), write(beside, 'beside')]);
    expect((await agent.scan('', '')).length).toBe(200);
  });

  it('refuses to write what the agent would not find, because the file was replaced', async () => {
    await makeStore(path);
    const beside = await openBeside();
    const other = join(newFolder(), 'rows.db');
    await makeStore(other);
    writeFileSync(`${path}.new`, readFileSync(other));
    renameSync(`${path}.new`, path);
    await expect(beside.commit('', row('k'))).rejects.toMatchObject({ reason: 'replaced' });
  });
});

describe('killed with SIGKILL', () => {
  it('beside: what it committed is there, and the agent goes on', async () => {
    const agent = startRemote();
    await agent.open(path);
    for (let round = 0; round < 5; round += 1) {
      const beside = startRemote();
      await beside.openBeside(path);
      await beside.commit('b', row(`${round}`));
      const cut = beside.commit('b', [...row(`${round} large`, 'x'.repeat(8 * 2 ** 20)), ...row(`${round} end`)]);
      const ended = cut.catch(() => undefined);
      const during = agent.commit('a', row(`${round}`));
      await new Promise(resolve => setTimeout(resolve, round * 10));
      await Promise.all([beside.kill(), ended, during]);
      await agent.commit('a', row(`${round} after`));
    }
    const keys = (await agent.scan('b', '')).map(([key]) => key);
    for (let round = 0; round < 5; round += 1) {
      expect(keys).toContain(`${round}`);
      expect(keys.includes(`${round} large`)).toBe(keys.includes(`${round} end`));
    }
    expect((await agent.scan('a', '')).length).toBe(10);
    await agent.close();
    expect((await (await openBeside()).scan('a', '')).size).toBe(10);
  });

  it('the agent: what it committed is read, more is written, and the next agent finds all', async () => {
    const agent = startRemote();
    await agent.open(path);
    await agent.commit('a', row('agent'));
    const living = await openBeside();
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

describe('beside, these are refused and left as they are:', () => {
  const contents = () => readdirSync(dirname(path)).map(name => [name, lstatSync(join(dirname(path), name)).size]);

  async function expectRefusal(reason: string, words: RegExp): Promise<void> {
    const before = contents();
    await expect(attachStore({ kind: 'sqlite', path })).rejects.toMatchObject({
      reason,
      message: expect.stringMatching(words),
    });
    // SQLite leaves these two where it may not write.
    expect(contents().filter(([name]) => !/-(wal|shm)$/.test(String(name)))).toEqual(before);
  }

  const execute = (sql: string) => {
    const db = new DatabaseSync(path);
    db.exec(sql);
    db.close();
  };

  it('memory', async () => {
    await expect(attachStore({ kind: 'memory', path })).rejects.toMatchObject({
      reason: 'unshared',
      message:
        'the store of kind memory is in the memory of the agent, where no other process can reach it: set store.kind to sqlite or postgres',
    });
  });

  it('a file that is not there, and a folder that is not', async () => {
    await expectRefusal('missing', /rows\.db does not exist: start the agent with it first/);
    path = join(dirname(path), 'new', 'rows.db');
    await expect(attachStore({ kind: 'sqlite', path })).rejects.toMatchObject({ reason: 'missing' });
    expect(existsSync(dirname(path))).toBe(false);
  });

  it('a link to nothing, a folder, a text', async () => {
    symlinkSync(join(dirname(path), 'nothing'), path);
    await expect(attachStore({ kind: 'sqlite', path })).rejects.toMatchObject({ reason: 'missing' });
    path = join(dirname(path), 'folder');
    mkdirSync(path);
    await expectRefusal('path', /not a regular file/);
    path = join(dirname(path), 'text');
    writeFileSync(path, 'these are not the rows you are looking for\n'.repeat(500));
    await expectRefusal('corrupt', /damaged or not a database/);
  });

  it('an empty file, an older and a newer schema, and the database of another program', async () => {
    writeFileSync(path, '');
    await expectRefusal('missing', /does not exist \(the file is empty\): start the agent with it first/);
    await makeStore(path);
    execute('PRAGMA user_version = 1');
    await expectRefusal('older', /older version \(schema 1, this version has 2\)/);
    execute('PRAGMA user_version = 1000');
    await expectRefusal('newer', /schema 1000/);
    execute('PRAGMA application_id = 7');
    await expectRefusal('foreign', /another program/);
  });
});

it('is the same file by a link', async () => {
  const agent = await openSqliteStore({ path });
  onTestFinished(() => agent.close());
  const link = `${path}-link`;
  symlinkSync(path, link);
  const beside = await attachStore({ kind: 'sqlite', path: link });
  onTestFinished(() => beside.close());
  await beside.commit('', row('k'));
  expect((await agent.scan('', '')).size).toBe(1);
  expect(existsSync(`${link}-wal`)).toBe(false);
  renameSync(`${path}-wal`, `${path}-away`);
  await expect(beside.commit('', row('l'))).rejects.toMatchObject({ reason: 'replaced' });
  renameSync(`${path}-away`, `${path}-wal`);
  await beside.commit('', row('l'));
});
