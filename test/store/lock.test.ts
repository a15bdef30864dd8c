import { join } from 'node:path';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { openSqliteStore } from '../../src/store/sqlite.ts';
import { newFolder } from '../support/folder.ts';
import { startRemote } from './remote.ts';

const LOCKED = {
  reason: 'locked',
  message: expect.stringMatching(
    /rows\.db is in use by another process: stop that process, or give each process its own/,
  ),
};
const ROW = [{ key: 'k', value: 'v' }];

describe('lock on the SQLite file', () => {
  let path: string;
  beforeEach(() => {
    path = join(newFolder(), 'new', 'rows.db');
  });

  it('only one process can have the file open; another can open it after the first has closed it', async () => {
    const [first, second] = [startRemote(), startRemote()];
    await first.open(path);
    await expect(second.open(path)).rejects.toMatchObject(LOCKED);
    await first.commit('a', ROW);
    await first.close();
    await second.open(path);
    expect(await second.scan('a', '')).toEqual([['k', 'v']]);
    await expect(first.open(path)).rejects.toMatchObject(LOCKED);
  });

  it('exactly one of several processes that start concurrently opens the file', async () => {
    const remotes = Array.from({ length: 4 }, () => startRemote());
    const results = await Promise.allSettled(remotes.map(remote => remote.open(path)));
    expect(results.filter(({ status }) => status === 'fulfilled')).toHaveLength(1);
    const refused = results.filter(result => result.status === 'rejected').map(({ reason }) => reason);
    expect(refused.map(({ reason }) => reason)).toEqual(['locked', 'locked', 'locked']);
  });

  it('the file is unlocked when its process is killed', async () => {
    const first = startRemote();
    await first.open(path);
    await first.commit('a', ROW);
    await first.kill();
    const second = startRemote();
    await second.open(path);
    expect(await second.scan('a', '')).toEqual([['k', 'v']]);
  });

  it('a process that failed to open the file does not keep it locked', async () => {
    const [first, second] = [startRemote(), startRemote()];
    await first.open(path);
    await expect(second.open(path)).rejects.toMatchObject(LOCKED);
    await first.close();
    const store = await openSqliteStore({ path });
    await store.close();
  });

  it('another process can open the file for reading and reads the committed rows', async () => {
    const [writer, reader] = [startRemote(), startRemote()];
    await writer.open(path);
    await writer.commit('a', ROW);
    expect(await reader.count(path, 'a')).toBe(1);
    await writer.commit('a', [{ key: 'k2', value: 'v' }]);
    expect(await reader.count(path, 'a')).toBe(2);
    await writer.close();
    expect(await reader.count(path, 'a')).toBe(2);
  });

  it('the file can be opened only once per process, and a second attempt does not unlock it for others', async () => {
    const store = await openSqliteStore({ path });
    onTestFinished(() => store.close());
    await expect(openSqliteStore({ path })).rejects.toMatchObject(LOCKED);
    await expect(startRemote().open(path)).rejects.toMatchObject(LOCKED);
  });
});
