import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { openSqliteStore } from '../../src/store/sqlite.ts';
import { newFolder } from '../support/folder.ts';
import { startRemote, UNSHARED, whyNoMounts } from './remote.ts';

const row = (key: string, length: number) => [
  { key: `${key}/left`, value: 'x'.repeat(length) },
  { key: `${key}/right`, value: 'x'.repeat(length) },
];
const MB = 2 ** 20;

describe('full disks', () => {
  let folder: string;
  let path: string;
  beforeEach(() => {
    folder = newFolder();
    path = join(folder, 'rows.db');
  });

  it('a full disk rejects only the commit that does not fit; the next one that fits succeeds', async () => {
    // Limit each file of the remote process to 4096 blocks: 2 or 4 MB, depending on the shell's block size.
    const remote = startRemote('ulimit -S -f 4096');
    await remote.open(path);
    await remote.commit('a', row('before', 1000));
    const results = await remote.commitTogether('a', [row('1', 1000), row('2', 8 * MB), row('3', 1000)]);
    expect(results).toEqual(['done', 'io', 'done']);
    await expect(remote.commit('a', row('4', 8 * MB))).rejects.toMatchObject({
      reason: 'io',
      message: expect.stringMatching(/rows\.db can't be read or written \(SQLite 778.*check the disk and its quota/),
    });
    await remote.commit('a', row('5', 1000));
    const keys = ['1', '3', '5', 'before'].flatMap(key => [`${key}/left`, `${key}/right`]);
    expect((await remote.scan('a', '')).map(([key]) => key)).toEqual(keys);
    await remote.kill();
    const store = await openSqliteStore({ path });
    expect([...(await store.scan('a', '')).keys()]).toEqual(keys);
    await store.commit('a', row('2', 8 * MB));
    await store.close();
  });

  it('a store that filled the disk continues with all acknowledged rows once there is space again', async ({
    skip,
  }) => {
    const why = whyNoMounts(folder);
    if (why) skip(why);
    const remote = startRemote(`mount -t tmpfs -o size=6m tmpfs ${folder}`, UNSHARED);
    await remote.open(path);
    const filler = join(folder, 'filler');
    // Leave about two megabytes for the WAL. Removing the filler later frees enough space to copy them into the database file.
    await remote.fill(filler, 4 * MB);
    const keys: string[] = [];
    let refusal: unknown;
    for (let n = 10; refusal === undefined; n += 1) {
      await remote.commit('a', row(String(n), 50_000)).then(
        () => keys.push(`${n}/left`, `${n}/right`),
        (error: unknown) => {
          refusal = error;
        },
      );
    }
    expect(refusal).toMatchObject({
      reason: 'full',
      message: expect.stringMatching(
        /rows\.db can't be written: the disk is full .*: free disk space; a running agent then recovers/,
      ),
    });
    expect(keys.length).toBeGreaterThan(4);
    expect((await remote.scan('a', '')).map(([key]) => key)).toEqual(keys);
    await expect(remote.commit('a', row('99', 4 * MB))).rejects.toMatchObject({ reason: 'full' });

    await remote.remove(filler);
    await remote.commit('a', row('99', 50_000));
    keys.push('99/left', '99/right');
    expect((await remote.scan('a', '')).map(([key]) => key)).toEqual(keys);
    await remote.close();
    await remote.open(path);
    expect((await remote.scan('a', '')).map(([key]) => key)).toEqual(keys);
  });

  it('a store does not open on a full disk, and opens once there is space', async ({ skip }) => {
    const why = whyNoMounts(folder);
    if (why) skip(why);
    const remote = startRemote(`mount -t tmpfs -o size=1m tmpfs ${folder}`, UNSHARED);
    const filler = join(folder, 'filler');
    await remote.fill(filler, 2 * MB);
    await expect(remote.open(path)).rejects.toMatchObject({ name: 'Error', reason: 'full' });
    await remote.remove(filler);
    await remote.open(path);
    await remote.commit('a', row('k', 1000));
    await remote.close();
    await remote.fill(filler, 2 * MB);
    await expect(remote.open(path)).rejects.toMatchObject({ reason: 'full' });
    await remote.remove(filler);
    await remote.open(path);
    expect((await remote.scan('a', '')).map(([key]) => key)).toEqual(['k/left', 'k/right']);
  });
});
