import { rmSync, writeFileSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import type { Change } from '../../src/model/change.ts';
import { attachStore } from '../../src/store/open.ts';
import { openSqliteStore } from '../../src/store/sqlite.ts';
import type { Store } from '../../src/store/store.ts';

/** What a test may ask of a process of its own. Everything goes over as JSON. */
export interface RemoteCalls {
  open(path: string): Promise<void>;
  openBeside(path: string): Promise<void>;
  scan(account: string, prefix: string): Promise<[key: string, value: string][]>;
  commit(account: string, changes: readonly Change[]): Promise<void>;
  /** Commits all at once, without waiting in between; gives each one's reason for failing, or `done`. */
  commitTogether(account: string, commits: readonly (readonly Change[])[]): Promise<string[]>;
  close(): Promise<void>;
  /** Takes the lock of writers, until `letGo`. */
  hold(path: string): Promise<void>;
  letGo(): Promise<void>;
  /** Rows of an account, counted through a connection that only reads. */
  count(path: string, account: string): Promise<number>;
  /** Writes zeros until the disk is full, or `bytes` of them. */
  fill(path: string, bytes: number): Promise<void>;
  remove(path: string): Promise<void>;
  /** Gives up being root. */
  becomeNobody(): Promise<void>;
}

export function createRemoteCalls(): RemoteCalls {
  let store: Store | undefined;
  let held: DatabaseSync | undefined;
  const opened = () => store as Store;
  return {
    async open(path) {
      store = await openSqliteStore({ path });
    },
    async openBeside(path) {
      store = await attachStore({ kind: 'sqlite', path });
    },
    scan: async (account, prefix) => [...(await opened().scan(account, prefix))],
    commit: (account, changes) => opened().commit(account, changes),
    async commitTogether(account, commits) {
      const results = await Promise.allSettled(commits.map(changes => opened().commit(account, changes)));
      return results.map(result => (result.status === 'fulfilled' ? 'done' : String(result.reason.reason)));
    },
    close: () => opened().close(),
    async hold(path) {
      held = new DatabaseSync(path);
      held.exec('BEGIN IMMEDIATE');
    },
    letGo: async () => held?.close(),
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
