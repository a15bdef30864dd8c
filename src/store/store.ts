import type { Change } from '../model/change.ts';

/** The door of this room: what survives a restart. */

/** Rows of text, by account and key. Every method rejects with StoreError; its `reason` is from a closed list. */
export interface Store {
  /** Every row of the account whose key starts with `prefix`, by key, in no set order. Sees every commit that has returned. */
  scan(account: string, prefix: string): Promise<ReadonlyMap<string, string>>;
  /** Bytes of the values of these rows, by key: costs little, however large they are. Sees what `scan` sees. */
  sizes(account: string, prefix: string): Promise<ReadonlyMap<string, number>>;
  /**
   * Writes all changes or none; of two changes of one key the last counts. When it returns, they are as durable as this
   * store is. Commits are applied in the order in which they were asked for. One that fails leaves the store usable.
   */
  commit(account: string, changes: readonly Change[]): Promise<void>;
  /** Ends what was accepted, then refuses everything else. Closing again does nothing. */
  close(): Promise<void>;
}
