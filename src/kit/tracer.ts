export type SpanAttributes = Readonly<Record<string, string | number | boolean>>;

export interface Span {
  set(attributes: SpanAttributes): void;
  /** Marks it failed. `reason`: a closed word, for an error's text may quote what it met. */
  fail(reason: string): void;
}

export interface Tracer {
  /** Runs `work` in a child span, which fails if it throws. `kind`: `client` for a request to another service. */
  span<T>(
    name: string,
    attributes: SpanAttributes,
    work: (span: Span) => Promise<T>,
    kind?: 'internal' | 'client',
  ): Promise<T>;
  /** Headers that tell another service which span asks; none unless the configuration says so. */
  headers(): Readonly<Record<string, string>>;
}
