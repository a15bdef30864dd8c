/** Identifies a span of another process. */
export interface SpanContext {
  readonly traceId: string;
  readonly spanId: string;
}

/** A message with a trace that its publisher sampled. */
export interface TracedMessage {
  readonly account: string;
  /** Address of the service. */
  readonly baseUrl: string;
  readonly messageId: string;
  /** The publisher's span. */
  readonly publisher: SpanContext;
  /** The publisher's trace; for a message of a schedule, a separate one. */
  readonly traceId: string;
  /** Id of the delivery span, the parent of all attempts. */
  readonly deliveryId: string;
  /** Scheme, host and port of the destination. */
  readonly origin?: string | undefined;
  readonly method?: string | undefined;
  readonly topic?: string | undefined;
  readonly queue?: string | undefined;
  readonly schedule?: string | undefined;
}

/** A delivery or an attempt that has ended. Times are in milliseconds since the Unix epoch, by the service's clock. */
export interface MessageSpan {
  readonly kind: 'delivery' | 'attempt';
  readonly message: TracedMessage;
  readonly spanId: string;
  readonly start: number;
  readonly end: number;
  readonly result: 'delivered' | 'failed' | 'cancelled' | 'error';
  /** HTTP status of the last response; 0 if the destination did not respond. */
  readonly status: number | undefined;
  /** For an attempt, its number. For a delivery, the number of its attempts. */
  readonly attempts: number;
  /** Whether the event log lacks events of the span. */
  readonly isPartial: boolean;
}

/** Queues spans for export. `dropped`: number of other spans that are lost. */
export type MessageSpans = (spans: readonly MessageSpan[], dropped: number) => void;
