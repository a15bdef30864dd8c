/** How one cadence of one collector fares. Times are milliseconds since the Unix epoch. */
export interface RoundStatus {
  readonly round: string;
  /** Milliseconds between two starts, as configured. */
  readonly every: number;
  /** Whether the last attempt that asked something succeeded; undefined before the first ended. */
  readonly success?: boolean | undefined;
  /** Whether that attempt read to the end; undefined before the first ended. */
  readonly complete?: boolean | undefined;
  /** Rows of what was read last could not be read: what is shown is true as far as it goes, and not the whole. */
  readonly partial?: boolean | undefined;
  readonly durationSeconds?: number | undefined;
  /** When the last complete round began: what is shown was true then or later. */
  readonly dataAt?: number | undefined;
  readonly consecutiveFailures: number;
  /** Why the last turn asked nothing; undefined when it did ask. */
  readonly idle?: Idle | undefined;
  /** No complete round has ended, in this process or before it, for longer than the configuration calls fresh. */
  readonly stale: boolean;
  /** Why the last attempt failed: a closed word, and a sentence without secrets. */
  readonly failure?: { readonly reason: string; readonly message: string } | undefined;
}

/** `waiting`: another round has to find something first; `not_due`: there is nothing to read yet. */
export type Idle = 'waiting' | 'not_due';

/** A named filter that could not be read while its round succeeded. */
export interface FailedFilter {
  readonly name: string;
  readonly reason: string;
  /** A sentence without secrets. */
  readonly message: string;
  /** Beginning of the first failed round, milliseconds since the Unix epoch. */
  readonly since: number;
  /** Its rows do not match it: nothing of it is shown. */
  readonly isContradicted: boolean;
}

export interface CollectorStatus {
  readonly collector: string;
  /** Too old to be shown: its gauges are gone until the next complete round. */
  readonly withdrawn: boolean;
  readonly rounds: readonly RoundStatus[];
  /** Absent if none failed in the last round that was read to its end. */
  readonly failedFilters?: readonly FailedFilter[] | undefined;
}

export interface AccountStatus {
  readonly account: string;
  /** The last round of every enabled collector succeeded, except those with nothing to request yet, and no data is stale. */
  readonly up: boolean;
  readonly collectors: readonly CollectorStatus[];
}
