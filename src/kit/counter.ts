export interface Counter<L extends string = never> {
  /** Adds `by` (default 1, never negative) to the series with these labels. */
  inc(labels: Readonly<Record<L, string>>, by?: number): void;
}

/**
 * Returns a time (ms since the Unix epoch) at which a series that is first incremented at `at` was certainly 0. The margin covers
 * scrapes in flight and clock skew.
 */
export const zeroBefore = (at: number): number => at - 5000;

/** Observations, in base units, split by labels. */
export interface Histogram<L extends string = never> {
  observe(labels: Readonly<Record<L, string>>, value: number): void;
}
