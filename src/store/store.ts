/** The door of this room: what survives a restart. */

/** One keyed row to write; `null` deletes it. Keys are at most 512 characters. */
export interface Change {
  readonly key: string;
  readonly value: string | null;
}

export interface Store {
  /** Every row of the account whose key starts with `prefix`, by key. */
  scan(account: string, prefix: string): Promise<ReadonlyMap<string, string>>;
  /** Writes all changes or none. When it returns, they are as durable as this store is. */
  commit(account: string, changes: readonly Change[]): Promise<void>;
  close(): Promise<void>;
}
