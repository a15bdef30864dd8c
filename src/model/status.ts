/** Status of one round of one collector. Times are in milliseconds since the Unix epoch. */
export interface RoundStatus {
  readonly round: string;
  /** Configured interval (ms). */
  readonly every: number;
  /** Whether the last attempt that sent a request succeeded; undefined before the first. */
  readonly success?: boolean | undefined;
  /** Whether the last attempt that sent a request read everything; undefined before the first. */
  readonly complete?: boolean | undefined;
  /** Whether rows were unreadable: the data is correct but incomplete. */
  readonly partial?: boolean | undefined;
  readonly durationSeconds?: number | undefined;
  /** Start of the last complete round. */
  readonly dataAt?: number | undefined;
  readonly consecutiveFailures: number;
  /** Why the last run read nothing; undefined if it read something or failed. */
  readonly idle?: Idle | undefined;
  /** Whether there was no complete round for more than `staleness.markAfter` intervals, and an attempt has failed or is slow. */
  readonly stale: boolean;
  /** Failure of the last attempt: one of a fixed set of reasons, and a sentence without secrets. */
  readonly failure?: { readonly reason: string; readonly message: string } | undefined;
  /** Start of the next attempt after a failed one; undefined after a success, and while an attempt is in flight. */
  readonly retryAt?: number | undefined;
}

/** Names a round in texts: `dlq full`, or only `queues` if the collector has the same name. */
export const roundName = ({ collector, round }: { readonly collector: string; readonly round: string }) =>
  collector === round ? collector : `${collector} ${round}`;

/** States of a collector's data, the best first. `partial`: rows were unreadable. */
export const DATA_STATES = ['fresh', 'partial', 'stale', 'withdrawn', 'not_read'] as const;
export type DataStateName = (typeof DATA_STATES)[number];

/** `waiting`: needs data from another round; `not_due`: has no data to read yet; `absent`: the service lacks the endpoint. */
export type Idle = 'waiting' | 'not_due' | 'absent';

/** A named filter that failed although its round succeeded. */
export interface FailedFilter {
  readonly name: string;
  readonly reason: string;
  /** A sentence without secrets. */
  readonly message: string;
  /** Start of the first round in which the filter failed (ms since the Unix epoch). */
  readonly since: number;
  /** Whether listed rows do not match the filter. If so, the filter’s data is not shown. */
  readonly isContradicted: boolean;
}

export interface CollectorStatus {
  readonly collector: string;
  /** Whether the data is too old, so that gauges are not shown until the next complete round. */
  readonly withdrawn: boolean;
  readonly rounds: readonly RoundStatus[];
  /** Filters that failed in the last complete round. Absent if all succeeded. */
  readonly failedFilters?: readonly FailedFilter[] | undefined;
}

export interface AccountStatus {
  readonly account: string;
  /**
   * Whether no data is stale and the last run of every round succeeded. Optional collectors do not count. A round that was only
   * idle so far counts as successful.
   */
  readonly up: boolean;
  readonly collectors: readonly CollectorStatus[];
}
