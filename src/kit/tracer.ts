/** One unit of work that a trace shows. */
export interface Span {
  set(attributes: Readonly<Record<string, string | number | boolean>>): void;
}

export interface Tracer {
  /** Runs `work` inside a span; the span ends with it and is marked failed when it throws. */
  span<T>(
    name: string,
    attributes: Readonly<Record<string, string | number | boolean>>,
    work: (span: Span) => Promise<T>,
  ): Promise<T>;
}
