/** One value of a series. `at`: milliseconds since the Unix epoch. */
export interface Point {
  readonly at: number;
  readonly value: number;
  /** Whether no samples were recorded for some time before this point, for example because the agent was down. */
  readonly isAfterGap?: boolean;
}

/** Recorded series of an account. Values are null if a series had no value. */
export interface RecordedSeries {
  /** Times in ascending order (ms since the Unix epoch): at most one per minute. */
  readonly times: readonly number[];
  /** Values by series (`family{label="value"}`, without the label `account`). Each list is as long as `times`. */
  readonly series: ReadonlyMap<string, readonly (number | null)[]>;
}

/** Recorded samples of one account, kept across restarts for `store.history.keep`. */
export interface AccountHistory {
  /** Reads samples of families from the store, `from` and `to` included. Yields to other work. Rejects with StoreError. */
  read(query: {
    readonly from: number;
    readonly to: number;
    readonly families: readonly string[];
  }): Promise<RecordedSeries>;
  /**
   * Returns the values of one series in the last `over` milliseconds and, unless a gap follows it, the last earlier value. The
   * oldest is first. Omits values before a change of the wall clock. Reads from memory, which contains at least the last 90
   * minutes. For longer windows, the first values may be hourly. The first hourly value may precede the window by up to two hours.
   */
  recent(series: string, over: number): readonly Point[];
}
