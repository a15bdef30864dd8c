/** Status of one round of one collector. Times: milliseconds since the Unix epoch. */
export interface RoundStatus {
  readonly round: string;
  /** Configured interval (ms). */
  readonly every: number;
  /** Whether the last attempt with a request succeeded; undefined before the first has ended. */
  readonly success?: boolean | undefined;
  /** Whether that attempt read everything; undefined before the first has ended. */
  readonly complete?: boolean | undefined;
  /** Some rows were unreadable: the data is correct but incomplete. */
  readonly partial?: boolean | undefined;
  readonly durationSeconds?: number | undefined;
  /** Start of the last complete round. */
  readonly dataAt?: number | undefined;
  readonly consecutiveFailures: number;
  /** Why the last turn sent no request; undefined if it did. */
  readonly idle?: Idle | undefined;
  /** No complete round has ended for longer than `staleness.markAfter` intervals, restarts included. */
  readonly stale: boolean;
  /** Why the last attempt failed: one of a fixed set of words, and a sentence without secrets. */
  readonly failure?: { readonly reason: string; readonly message: string } | undefined;
}

/** `waiting`: for another round to find something; `not_due`: nothing to read yet. */
export type Idle = 'waiting' | 'not_due';

/** A named filter that failed although its round succeeded. */
export interface FailedFilter {
  readonly name: string;
  readonly reason: string;
  /** A sentence without secrets. */
  readonly message: string;
  /** Start of the first failed round, milliseconds since the Unix epoch. */
  readonly since: number;
  /** Its rows do not match the filter, so its data is not shown. */
  readonly isContradicted: boolean;
}

export interface CollectorStatus {
  readonly collector: string;
  /** The data is too old: gauges are not shown until the next complete round. */
  readonly withdrawn: boolean;
  readonly rounds: readonly RoundStatus[];
  /** Absent if none failed in the last complete round. */
  readonly failedFilters?: readonly FailedFilter[] | undefined;
}

export interface AccountStatus {
  readonly account: string;
  /** The last round of every enabled collector succeeded, except those with nothing to request yet, and no data is stale. */
  readonly up: boolean;
  readonly collectors: readonly CollectorStatus[];
}
