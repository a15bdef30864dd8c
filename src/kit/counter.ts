/** A number that only rises, split by labels. */
export interface Counter<L extends string = never> {
  /** Adds `by` (default 1, never negative) to the series with these labels. */
  inc(labels: Readonly<Record<L, string>>, by?: number): void;
}

/** Observations, in base units, split by labels. */
export interface Histogram<L extends string = never> {
  observe(labels: Readonly<Record<L, string>>, value: number): void;
}
