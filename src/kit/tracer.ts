export type SpanAttributes = Readonly<Record<string, string | number | boolean>>;

export interface Span {
  set(attributes: SpanAttributes): void;
  /** Marks the span as failed. `reason`: from a fixed set of words, because error texts may contain foreign data. */
  fail(reason: string): void;
}

export interface Tracer {
  /** Runs `work` in a child span, which fails if `work` throws. `kind`: `client` for requests to other services. */
  span<T>(
    name: string,
    attributes: SpanAttributes,
    work: (span: Span) => Promise<T>,
    kind?: 'internal' | 'client',
  ): Promise<T>;
  /** Returns trace context headers for a request; empty unless `tracing.propagate` is set. */
  headers(): Readonly<Record<string, string>>;
}
