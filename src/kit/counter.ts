export interface Counter<L extends string = never> {
  /** `by`: default 1, never negative. */
  inc(labels: Readonly<Record<L, string>>, by?: number): void;
}

/**
 * Returns a time before `at` at which a new series was certainly 0 (ms since the Unix epoch). Allows for scrapes in flight
 * and clock skew.
 */
export const zeroBefore = (at: number): number => at - 5000;

/** Observations in base units, by labels. */
export interface Histogram<L extends string = never> {
  observe(labels: Readonly<Record<L, string>>, value: number): void;
}
