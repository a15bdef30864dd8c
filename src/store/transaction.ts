import type { DatabaseSync } from 'node:sqlite';

/** Runs `work` in one transaction: when it returns, all is committed; when it throws, nothing was written. */
export function transaction(db: DatabaseSync, work: () => void): void {
  db.exec('BEGIN IMMEDIATE');
  try {
    work();
    db.exec('COMMIT');
  } catch (error) {
    // A full disk or a failed read makes SQLite roll back by itself.
    if (db.isTransaction) db.exec('ROLLBACK');
    throw error;
  }
}
