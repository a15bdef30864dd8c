import type { Change } from '../model/change.ts';

export { isGuardFailed, isNotHeld, isUndone } from './errors.ts';

/** Rows of text, by account and key. Methods reject only with StoreErrors, with a `reason` from a closed list. */
export interface Store {
  /** Returns the account's rows with this key prefix, in no particular order. Includes every commit that has returned. */
  scan(account: string, prefix: string): Promise<ReadonlyMap<string, string>>;
  /** Returns the sizes of the values that `scan` would return (bytes), without reading the values. As current as `scan`. */
  sizes(account: string, prefix: string): Promise<ReadonlyMap<string, number>>;
  /** Returns the value of a key for every account that has a row with this key. */
  valuesOf(key: string): Promise<ReadonlyMap<string, string>>;
  /**
   * Writes all changes or none, durably; the last change of a key wins. Commits of an account are applied in order. A failed
   * commit does not affect others. The transaction itself checks lease and guard: rejects with `not_held` unless this process has
   * the lease, and with `guard_failed` if the value of the guard's row differs.
   */
  commit(account: string, changes: readonly Change[], guard?: Guard): Promise<void>;
  /** Writes agent-wide rows with operators' commands, which any process may write. Otherwise like `commit`. */
  command(changes: readonly Change[], guard?: Guard): Promise<void>;
  /** Writes an agent-wide row unless the key exists. Any process may create it. */
  create(key: string, value: string): Promise<void>;
  /** Returns the URL of the leader, if it renewed its lease in time. Undefined if the store belongs to one agent. */
  agents?(): Promise<readonly string[]>;
  /** Completes accepted commits and refuses new ones. Closing again does nothing. */
  close(): Promise<void>;
  /** The lease of the group's leader; undefined if the store belongs to this process alone. */
  readonly lease?: LeaderLease;
}

/** A row, and the value it must have when a commit is written. */
export interface Guard {
  readonly account: string;
  readonly key: string;
  readonly value: string;
}

/** The account of agent-wide rows. */
export const NO_ACCOUNT = '';

/** The process that runs everything in a group of processes with the same store. Times are by the database's clock. */
export interface Leader {
  /** Identifies this run of the process. */
  readonly id: string;
  /** URL at which standbys and Prometheus reach the leader. */
  readonly url: string;
  /** Time at which it acquired the lease (ms since the Unix epoch). */
  readonly since: number;
}

/**
 * The lease on a store. At most one process owns it, for the lease time after its last renewal. The database counts this time
 * from the renewal, the process from its earlier request for the renewal. `Store.commit` checks the lease's epoch.
 */
export interface LeaderLease {
  readonly self: { readonly id: string; readonly url: string };
  readonly leaseTime: number;
  /**
   * Renews the lease if this process owns it, otherwise acquires it if it is free. `lost`: another process may have it, or it was
   * released; both are final. Calls are serialized. Rejects with StoreError.
   */
  renew(): Promise<'leader' | 'standby' | 'lost'>;
  /** Releases the lease after the last commit. Rejects with StoreError. */
  release(): Promise<void>;
  /** Returns the remaining lease time by this process's clock (ms); 0 if the lease may have expired. */
  remaining(): number;
  /** Returns the leader as of the last renewal, with the time since the leader's own renewal (ms). */
  leader(): (Leader & { readonly age: number }) | undefined;
}
