/** One value of a series. `at`: milliseconds since the Unix epoch. */
export interface Point {
  readonly at: number;
  readonly value: number;
}

/** How many of these points, which are in the order of time, are before `at`. */
export function pointsBefore(points: readonly Point[], at: number): number {
  let [low, high] = [0, points.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((points[middle] as Point).at < at) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Series of an account as they were: column by column, a null where a series had no value. */
export interface RecordedSeries {
  /** Milliseconds since the Unix epoch, ascending: at most one a minute, fewer where the history is thinned. */
  readonly times: readonly number[];
  /** By series: `family{label="value"}`, without the label `account`. Each as long as `times`. */
  readonly series: ReadonlyMap<string, readonly (number | null)[]>;
}

/** What was recorded of one account: across restarts, for as long as `store.history.keep` says. */
export interface AccountHistory {
  /** What the store has of some families, `from` and `to` included. Other work gets its turn meanwhile. Rejects with StoreError. */
  read(query: {
    readonly from: number;
    readonly to: number;
    readonly families: readonly string[];
  }): Promise<RecordedSeries>;
  /**
   * The values of one series in the last `over` milliseconds, the oldest first, and one before them where there is one that
   * is no older than two sampling intervals more; from memory, which holds at least the last hour and a quarter.
   */
  recent(series: string, over: number): readonly Point[];
}
