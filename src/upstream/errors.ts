/** How a request to the service ended. Closed: these are the values of the metric label `outcome`. */
export const OUTCOMES = [
  'ok',
  'not_found',
  'unauthorized',
  'forbidden',
  'rate_limited',
  'server',
  'network',
  'timeout',
  'invalid_response',
  'refused',
  'bug',
] as const;

export type Outcome = (typeof OUTCOMES)[number];
/** Why a request failed. `refused`: this side did not send it, or the service would not take it as it was. */
export type Reason = Exclude<Outcome, 'ok'>;

const RETRYABLE: ReadonlySet<Reason> = new Set(['rate_limited', 'server', 'network', 'timeout']);

/** The one error of this room. Its message names what was asked, never a token, a header value or a body. */
export class UpstreamError extends Error {
  override readonly name = 'UpstreamError';
  readonly reason: Reason;
  /** Milliseconds the service asked to wait before the next try. */
  readonly retryAfter: number | undefined;
  /** The answer was longer than is read; a smaller page may fit. */
  readonly tooLarge: boolean;
  /** HTTP status of the answer that is the failure; undefined where there was none. */
  readonly status: number | undefined;

  constructor(
    reason: Reason,
    message: string,
    options: { cause?: unknown; retryAfter?: number | undefined; tooLarge?: boolean; status?: number } = {},
  ) {
    super(message, 'cause' in options ? { cause: options.cause } : {});
    this.reason = reason;
    this.retryAfter = options.retryAfter;
    this.tooLarge = options.tooLarge ?? false;
    this.status = options.status;
  }

  get retryable(): boolean {
    return RETRYABLE.has(this.reason);
  }
}

/** What an HTTP status says about the request. Undefined: it succeeded. A redirect is never followed, so it is no answer. */
export function reasonOfStatus(status: number): Reason | undefined {
  if (status >= 200 && status < 300) return undefined;
  if (status < 400) return 'invalid_response';
  if (status === 401) return 'unauthorized';
  if (status === 403) return 'forbidden';
  if (status === 404) return 'not_found';
  if (status === 408) return 'timeout';
  if (status === 429) return 'rate_limited';
  return status < 500 ? 'refused' : 'server';
}

export function outcomeOf(error: unknown): Reason {
  return error instanceof UpstreamError ? error.reason : 'bug';
}
