export interface Counter<L extends string = never> {
  /** `by`: default 1, never negative. */
  inc(labels: Readonly<Record<L, string>>, by?: number): void;
}

/** Observations in base units, by labels. */
export interface Histogram<L extends string = never> {
  observe(labels: Readonly<Record<L, string>>, value: number): void;
}
