import type { Change } from '../model/change.ts';

export { isGuardFailed, isNotHeld, isUndone } from './errors.ts';

/** Rows of text, by account and key. Methods reject only with StoreErrors, whose `reason` is from a closed list. */
export interface Store {
  /** Returns the account's rows with this key prefix, in no particular order. Includes every commit that has returned. */
  scan(account: string, prefix: string): Promise<ReadonlyMap<string, string>>;
  /** Returns the sizes of the values that `scan` would return (bytes), without reading the values. As current as `scan`. */
  sizes(account: string, prefix: string): Promise<ReadonlyMap<string, number>>;
  /** Returns the value of a key for every account that has a row with this key. */
  valuesOf(key: string): Promise<ReadonlyMap<string, string>>;
  /**
   * Writes all changes or none, durably; the last change of a key wins. Commits of an account are applied in order. A failed commit
   * does not affect others. The transaction itself checks lease and guard: rejects with `not_held` if another replica holds the
   * account, and with `guard_failed` if the guard's row has another value.
   */
  commit(account: string, changes: readonly Change[], guard?: Guard): Promise<void>;
  /** Writes an agent-wide row unless the key exists. */
  create(key: string, value: string): Promise<void>;
  /** Returns the URLs of the replicas that renewed in time. Undefined if the store belongs to one agent. */
  agents?(): Promise<readonly string[]>;
  /** Completes accepted commits and refuses new ones. Closing again does nothing. */
  close(): Promise<void>;
  /** Leases on accounts; undefined if the store belongs to this process alone, which then holds every account. */
  readonly replicas?: Replicas;
}

/** A row, and the value it must have when a commit is written. */
export interface Guard {
  readonly account: string;
  readonly key: string;
  readonly value: string;
}

/** The account of agent-wide rows. It has no lease: every process may write them. */
export const NO_ACCOUNT = '';

export interface Replica {
  /** Identifies this run of the process. */
  readonly id: string;
  /** URL at which other replicas and Prometheus reach this replica. */
  readonly url: string;
  /** Start of the replica by the database's clock (ms since the Unix epoch); 0 for `self` before the first renewal. */
  readonly since: number;
}

/** Replicas and holders as of the last renewal. Times are in ms since the Unix epoch by the database's clock. */
export interface Sharing {
  readonly at: number;
  /** Replicas that renewed within the lease time, including this one, ordered by id. */
  readonly replicas: readonly Replica[];
  /** Holder of each account. Accounts of expired replicas are absent. */
  readonly holders: ReadonlyMap<string, string>;
}

/**
 * Unlisted accounts are unchanged. Lost and excess accounts are listed at each renewal until released. Excess accounts are
 * missing if a slow or failing database cut the renewal short.
 */
export interface RenewalResult {
  /** Accounts that this replica now holds and may open. */
  readonly gained: readonly string[];
  /** Accounts that another replica may hold already: commits fail, so close them immediately. */
  readonly lost: readonly string[];
  /** Accounts to close and `release`: above the fair share or no longer configured. */
  readonly excess: readonly string[];
}

/**
 * Leases on accounts. At most one replica holds an account, for the lease time after its last renewal: the database counts from
 * the renewal, the replica from its request. `Store.commit` checks the lease's epoch.
 */
export interface Replicas {
  readonly self: Replica;
  readonly leaseTime: number;
  /**
   * Renews leases and acquires free accounts up to a fair share of `accounts`. Calls are serialized. An account is gained again
   * only after it was released. Rejects with StoreError while the database is unavailable, unless accounts were newly lost.
   */
  renew(accounts: readonly string[]): Promise<RenewalResult>;
  /** Releases closed accounts and drops lost ones. If it rejects with StoreError, the closed accounts count as lost. */
  release(accounts: readonly string[]): Promise<void>;
  /** Removes this replica at shutdown, after all accounts were released. Rejects with StoreError. */
  leave(): Promise<void>;
  /** Returns the remaining lease time by this process's clock (ms); 0 if the lease may have expired. */
  remaining(account: string): number;
  sharing(): Sharing | undefined;
}
