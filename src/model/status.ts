/** How one cadence of one collector fares. Times are milliseconds since the Unix epoch. */
export interface RoundStatus {
  readonly round: string;
  /** Milliseconds between two starts, as configured. */
  readonly every: number;
  /** Whether the last attempt succeeded; undefined before the first ended. */
  readonly success: boolean | undefined;
  /** Whether the last attempt read to the end; undefined before the first ended. */
  readonly complete: boolean | undefined;
  /** Rows of what was read last could not be read: what is shown is true as far as it goes, and not the whole. */
  readonly partial?: boolean;
  readonly durationSeconds: number | undefined;
  /** When the last complete round began: what is shown was true then or later. */
  readonly dataAt: number | undefined;
  readonly consecutiveFailures: number;
  /** No complete round has ended for longer than the configuration calls fresh. */
  readonly stale: boolean;
  /** Why the last attempt failed: a closed word, and a sentence without secrets. */
  readonly failure: { readonly reason: string; readonly message: string } | undefined;
}

export interface CollectorStatus {
  readonly collector: string;
  /** Too old to be shown: its gauges are gone until the next complete round. */
  readonly withdrawn: boolean;
  readonly rounds: readonly RoundStatus[];
}

export interface AccountStatus {
  readonly account: string;
  /** Every enabled collector's last round succeeded. */
  readonly up: boolean;
  readonly collectors: readonly CollectorStatus[];
}
