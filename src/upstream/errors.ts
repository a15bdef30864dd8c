import type { IncomingHttpHeaders } from 'node:http';

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

/** The error of this module. Its message contains no token, header value or body, except `serviceError`. */
export class UpstreamError extends Error {
  override readonly name = 'UpstreamError';
  readonly reason: Reason;
  /** Milliseconds the service asked to wait before the next try. */
  readonly retryAfter: number | undefined;
  /** The answer was longer than is read; a smaller page may fit. */
  readonly tooLarge: boolean;
  /** HTTP status of the answer that is the failure; undefined where there was none. */
  readonly status: number | undefined;
  /** The service's explanation from the body of an error response, bounded and redacted. */
  readonly serviceError: string | undefined;

  constructor(
    reason: Reason,
    message: string,
    options: {
      cause?: unknown;
      retryAfter?: number | undefined;
      tooLarge?: boolean;
      status?: number;
      serviceError?: string | undefined;
    } = {},
  ) {
    super(message, 'cause' in options ? { cause: options.cause } : {});
    this.reason = reason;
    this.retryAfter = options.retryAfter;
    this.tooLarge = options.tooLarge ?? false;
    this.status = options.status;
    this.serviceError = options.serviceError;
  }

  get retryable(): boolean {
    return RETRYABLE.has(this.reason);
  }
}

/** A status with the service's explanation, if any, for the end of a message. */
export const statusText = (status: number, serviceError: string | undefined) =>
  `status ${status}${serviceError === undefined ? '' : `: ${serviceError}`}`;

/** The service's explanation in a message that ends with `statusText`. */
export const serviceErrorIn = (message: string): string | undefined => /: status \d{3}: (.+)$/.exec(message)?.[1];

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

/** What a refused request waits when the service does not say how long, milliseconds. */
const UNSAID = 1000;

const text = (value: string | string[] | undefined) => (typeof value === 'string' ? value.trim() : '');

/** Milliseconds of Retry-After: seconds, or a date, which is measured by the service's own clock. */
function retryAfter(headers: IncomingHttpHeaders): number | undefined {
  const value = text(headers['retry-after']);
  if (value === '') return undefined;
  const ms = /^\d+$/.test(value) ? Number(value) * 1000 : Date.parse(value) - Date.parse(text(headers.date));
  return Number.isFinite(ms) && ms >= 0 ? ms : undefined;
}

/** Milliseconds until the burst limit is lifted: `Burst-RateLimit-Reset` is a Unix time, in seconds or milliseconds. */
function burstReset(headers: IncomingHttpHeaders, now: number): number | undefined {
  const value = Number(text(headers['burst-ratelimit-reset']) || Number.NaN);
  if (!Number.isFinite(value)) return undefined;
  const ms = (value > 1e11 ? value : value * 1000) - now;
  // Whole seconds, and two clocks: what is past already means soon.
  return ms > 0 ? Math.min(ms, 60_000) : UNSAID;
}

/**
 * How long, in milliseconds, an answer asks to send nothing more: its Retry-After; when the burst limit is used up, its
 * reset; after a 429 a second at least. Undefined when it asks nothing. `now`: wall time, milliseconds.
 */
export function askedWait(status: number, headers: IncomingHttpHeaders, now: number): number | undefined {
  if (status === 429) return retryAfter(headers) ?? burstReset(headers, now) ?? UNSAID;
  if (status >= 500) return retryAfter(headers);
  return text(headers['burst-ratelimit-remaining']) === '0' ? burstReset(headers, now) : undefined;
}
