/** Names without a dot are the agent's own: they are exported with the prefix `delivery_watch.`. */
export type SpanAttributes = Readonly<Record<string, string | number | boolean>>;

export interface Span {
  set(attributes: SpanAttributes): void;
  /** Marks the span as failed. `reason`: from a fixed set of words, because error texts may contain foreign data. */
  fail(reason: string): void;
}

export interface SpanOptions {
  /** `client`: a request to another service. */
  readonly kind?: 'internal' | 'client';
  /** If it is aborted, an error is not a failure of the span. */
  readonly signal?: AbortSignal;
}

export interface Tracer {
  /** Runs `work` in a child span, which fails if `work` throws. */
  span<T>(
    name: string,
    attributes: SpanAttributes,
    work: (span: Span) => Promise<T>,
    options?: SpanOptions,
  ): Promise<T>;
}
