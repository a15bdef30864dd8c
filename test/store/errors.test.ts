import { renameSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { PROBLEMS, StoreError, type StoreReason, toStoreError } from '../../src/store/errors.ts';
import { openSqliteStore } from '../../src/store/sqlite.ts';
import { newFolder } from '../support/folder.ts';
import { makeStore, spoilPage } from './damage.ts';

let folder: string;
let path: string;
beforeEach(() => {
  folder = newFolder();
  path = join(folder, 'rows.db');
});

describe('open sqlite stores', () => {
  it.each(['rows.db', 'rows.db-wal', 'rows.db-lock'])(
    'an open SQLite store rejects commits that would be lost because %s was removed',
    async name => {
      const store = await openSqliteStore({ path });
      onTestFinished(() => store.close());
      await store.commit('a', [{ key: 'k', value: 'before' }]);
      renameSync(join(folder, name), join(folder, 'away'));
      await expect(store.commit('a', [{ key: 'k', value: 'after' }])).rejects.toMatchObject({
        reason: 'replaced',
        message: expect.stringMatching(new RegExp(`${name} was removed or replaced while in use.*restart the agent`)),
      });
      expect(await store.scan('a', '')).toEqual(new Map([['k', 'before']]));
      renameSync(join(folder, 'away'), join(folder, name));
      await store.commit('a', [{ key: 'k', value: 'after' }]);
    },
  );

  it('an open SQLite store reports a damaged page as corrupt when it is read', async () => {
    await makeStore(path);
    const store = await openSqliteStore({ path });
    onTestFinished(() => store.close());
    spoilPage(path, 2);
    const corrupt = { reason: 'corrupt', message: expect.stringContaining('it was left unchanged') };
    await expect(store.scan('a', '')).rejects.toMatchObject(corrupt);
    await expect(store.commit('a', [{ key: '7', value: null }])).rejects.toMatchObject(corrupt);
  });

  it('an open SQLite store does not wait long for a lock held by another program, and continues once the lock is released', async () => {
    const store = await openSqliteStore({ path });
    onTestFinished(() => store.close());
    const other = new DatabaseSync(path);
    other.exec('BEGIN IMMEDIATE');
    await expect(store.commit('a', [{ key: 'k', value: 'v' }])).rejects.toMatchObject({ reason: 'locked' });
    other.close();
    await store.commit('a', [{ key: 'k', value: 'v' }]);
    expect((await store.scan('a', '')).size).toBe(1);
  });
});

describe('messages of StoreError', () => {
  it.each(Object.keys(PROBLEMS) as StoreReason[])('StoreError names the problem and the remedy for %s', reason => {
    expect(new StoreError(reason, '/x/rows.db', 'why').message).toMatch(/^\/x\/rows\.db [^:]+.* \(why\): .{10,}$/);
  });

  it('toStoreError does not change errors that are bugs', () => {
    const bug = new TypeError('undefined is not a function');
    expect(toStoreError(bug, 'x')).toBe(bug);
    expect(toStoreError('text', 'x')).toBe('text');
  });
});
