/** A number that only rises, split by labels. */
export interface Counter<L extends string = never> {
  /** Adds `by` (default 1, never negative) to the series with these labels. */
  inc(labels: Readonly<Record<L, string>>, by?: number): void;
}

/**
 * When a series that rises for the first time `at` a time can be said to have been 0: a scrape that is under way, or another
 * machine's clock, may be a little behind. Milliseconds since the Unix epoch.
 */
export const zeroBefore = (at: number): number => at - 5000;

/** Observations, in base units, split by labels. */
export interface Histogram<L extends string = never> {
  observe(labels: Readonly<Record<L, string>>, value: number): void;
}
