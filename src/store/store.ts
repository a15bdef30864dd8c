import type { Change } from '../model/change.ts';

export { isGuardFailed, isNotHeld, isUndone } from './errors.ts';

/** Rows of text, by account and key. Every method rejects with StoreError; its `reason` is from a closed list. */
export interface Store {
  /** Every row of the account whose key starts with `prefix`, by key, in no set order. Sees every commit that has returned. */
  scan(account: string, prefix: string): Promise<ReadonlyMap<string, string>>;
  /** Bytes of the values of these rows, by key: costs little, however large they are. Sees what `scan` sees. */
  sizes(account: string, prefix: string): Promise<ReadonlyMap<string, number>>;
  /** The value of one key of every account that has it, by account. */
  valuesOf(key: string): Promise<ReadonlyMap<string, string>>;
  /**
   * Writes all changes or none, durably; of two changes of one key the last counts. Commits of an account are applied in
   * order. A failed one leaves the store usable. Rejects with `not_held` if another replica holds the account, as the
   * transaction itself checks, and with `guard_failed` unless the guard's row has its value in that transaction; other
   * commits are not affected.
   */
  commit(account: string, changes: readonly Change[], guard?: Guard): Promise<void>;
  /** Writes an agent-wide row unless there is one with this key: an existing row stays unchanged. */
  create(key: string, value: string): Promise<void>;
  /** URLs of the replicas that renewed in time; undefined if the store belongs to one agent. */
  agents?(): Promise<readonly string[]>;
  /** Ends what was accepted, then refuses everything else. Closing again does nothing. */
  close(): Promise<void>;
  /** How replicas share it; undefined where the store belongs to this process alone, and every account is its own. */
  readonly replicas?: Replicas;
}

/** A row of any account, and the value that it must have when a commit is written. */
export interface Guard {
  readonly account: string;
  readonly key: string;
  readonly value: string;
}

/** The account of rows that are of none. It is never held: every process may write them. */
export const NO_ACCOUNT = '';

export interface Replica {
  /** Of this run of the process: another one has another. */
  readonly id: string;
  /** Where it answers, as other replicas and Prometheus reach it. */
  readonly url: string;
  /** Since when it runs, milliseconds since the Unix epoch by the database's clock. Of `self` before the first renewal: 0. */
  readonly since: number;
}

/** How accounts are shared out, as of the last renewal. Times: milliseconds since the Unix epoch by the database's clock. */
export interface Sharing {
  readonly at: number;
  /** Those that renewed within the lease time, this one included, in a set order. */
  readonly replicas: readonly Replica[];
  /** The replica that holds an account, by account: those of replicas that are gone are left out. */
  readonly holders: ReadonlyMap<string, string>;
}

/**
 * What a renewal found. An account that is in none of these stays as it is. One that is lost or excess is named at each
 * renewal until it was released.
 */
export interface Turn {
  /** This replica holds them from now on, and may open them. */
  readonly gained: readonly string[];
  /** Another may hold them already: nothing of theirs can be committed any more, so they are to be closed at once. */
  readonly lost: readonly string[];
  /** To be closed and given back with `release`: it has more than its share, or they are no longer configured. */
  readonly excess: readonly string[];
}

/**
 * Leases on accounts. One replica at a time holds an account, for the lease time after its last renewal by the database's
 * clock; by its own clock it counts from the request for the renewal. Each holding has an epoch, which `Store.commit` checks.
 */
export interface Replicas {
  readonly self: Replica;
  readonly leaseTime: number;
  /**
   * Renews leases, takes free accounts up to a fair share of `accounts`, and returns those above it. One call at a time.
   * Never gains an account that was not released since it was gained last. Rejects with StoreError while the database is
   * unavailable; nothing has changed then, but lost accounts are still named.
   */
  renew(accounts: readonly string[]): Promise<Turn>;
  /**
   * Gives accounts back, which were closed; of those that were lost it only forgets them. Rejects with StoreError; then they
   * are lost.
   */
  release(accounts: readonly string[]): Promise<void>;
  /** Takes this replica from the list of those that run; to be called at its end, when all is released. Rejects with StoreError. */
  leave(): Promise<void>;
  /** Milliseconds for which the account is surely held, by this process's own clock; 0 where it may be another's. */
  remaining(account: string): number;
  sharing(): Sharing | undefined;
}
