import { rmSync, writeFileSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import type { Change } from '../../src/model/change.ts';
import { attachStore } from '../../src/store/open.ts';
import { openSqliteStore } from '../../src/store/sqlite.ts';
import type { Store } from '../../src/store/store.ts';

/** Calls that a test can make in a separate process. Arguments and results are sent as JSON. */
export interface RemoteCalls {
  open(path: string): Promise<void>;
  openAttached(path: string): Promise<void>;
  scan(account: string, prefix: string): Promise<[key: string, value: string][]>;
  commit(account: string, changes: readonly Change[]): Promise<void>;
  /** Runs the commits concurrently. Returns, for each commit, `done` or the reason for its failure. */
  commitTogether(account: string, commits: readonly (readonly Change[])[]): Promise<string[]>;
  close(): Promise<void>;
  /** Holds the write lock until `unlock`. */
  lock(path: string): Promise<void>;
  unlock(): Promise<void>;
  count(path: string, account: string): Promise<number>;
  /** Writes zeros until the disk is full or `bytes` bytes have been written. */
  fill(path: string, bytes: number): Promise<void>;
  remove(path: string): Promise<void>;
  becomeNobody(): Promise<void>;
}

export function createRemoteCalls(): RemoteCalls {
  let store: Store | undefined;
  let locked: DatabaseSync | undefined;
  const opened = () => store as Store;
  return {
    async open(path) {
      store = await openSqliteStore({ path });
    },
    async openAttached(path) {
      store = await attachStore({ kind: 'sqlite', path });
    },
    scan: async (account, prefix) => [...(await opened().scan(account, prefix))],
    commit: (account, changes) => opened().commit(account, changes),
    async commitTogether(account, commits) {
      const results = await Promise.allSettled(commits.map(changes => opened().commit(account, changes)));
      return results.map(result => (result.status === 'fulfilled' ? 'done' : String(result.reason.reason)));
    },
    close: () => opened().close(),
    async lock(path) {
      locked = new DatabaseSync(path);
      locked.exec('BEGIN IMMEDIATE');
    },
    unlock: async () => locked?.close(),
    async count(path, account) {
      const db = new DatabaseSync(path, { readOnly: true });
      try {
        return Number(db.prepare('SELECT count(*) AS rows FROM rows WHERE account = ?').get(account)?.rows);
      } finally {
        db.close();
      }
    },
    async fill(path, bytes) {
      const piece = Buffer.alloc(4096);
      try {
        for (let written = 0; written < bytes; written += piece.length) writeFileSync(path, piece, { flag: 'a' });
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
      }
    },
    remove: async path => rmSync(path),
    async becomeNobody() {
      process.setgroups?.([]);
      process.setgid?.(65534);
      process.setuid?.(65534);
    },
  };
}
