import type { IncomingHttpHeaders } from 'node:http';
import { errorCode } from '../kit/error-code.ts';
import { parseHttpDate, retryAfterMs } from '../kit/retry-after.ts';

/** Outcomes of a request, which are values of the metric label `outcome`. */
export const REQUEST_OUTCOMES = [
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

export type RequestOutcome = (typeof REQUEST_OUTCOMES)[number];
/** Reason why a request failed. `refused`: the agent did not send it, or the service rejected it as invalid. */
export type Reason = Exclude<RequestOutcome, 'ok'>;

/** Maximum length of a shown error text of the service (characters). */
export const MAX_ERROR_TEXT = 200;

/** Error that this module throws. The message contains no token, header value or body, except `serviceError`. */
export class UpstreamError extends Error {
  override readonly name = 'UpstreamError';
  readonly reason: Reason;
  /** How long the service asks the agent to wait before the next attempt (ms). */
  readonly retryAfter: number | undefined;
  /** Whether the response exceeded the size limit; a smaller page may fit. */
  readonly tooLarge: boolean;
  /** Status of the HTTP error response; undefined for other failures. */
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
    super(message, options);
    this.reason = reason;
    this.retryAfter = options.retryAfter;
    this.tooLarge = options.tooLarge ?? false;
    this.status = options.status;
    this.serviceError = options.serviceError;
  }
}

/** Formats a status with the service's explanation, if any, for the end of a message. */
export const statusText = (status: number, serviceError: string | undefined) =>
  `status ${status}${serviceError === undefined ? '' : `: ${serviceError}`}`;

/** Extracts the service's explanation from a message that ends with `statusText`. */
export const serviceErrorIn = (message: string): string | undefined => /: status \d{3}: (.+)$/.exec(message)?.[1];

const OTHER_REGION =
  /\b(wrong|another|other|different|incorrect)\W+region\b|\b(user|token|account|credential)s?\b.*\bregions?\b|\bregions?\b.*\b(user|token|account|credential)s?\b/i;
const UNKNOWN_USER =
  /\b(user|token|account)\b(\W+\S+){0,2}?\W+(not found|unknown|does not exist|doesn't exist)\b|\b(unknown|no such)\W+(user|token|account)\b/i;

/** Whether the service rejects a token because it belongs to another region, as in `user (…) not found in this region`. */
export function isOtherRegion(reason: string, serviceError = ''): boolean {
  if (reason === 'unauthorized') return OTHER_REGION.test(serviceError);
  return reason === 'not_found' && (OTHER_REGION.test(serviceError) || UNKNOWN_USER.test(serviceError));
}

/**
 * Whether the service has no such path. This shows that it lacks the data only if another request for the same account
 * succeeded. With a token of another region, every path gets 404.
 */
export const isMissingPath = (error: unknown): boolean =>
  error instanceof UpstreamError &&
  (error.status === 404 || error.status === 405) &&
  !isOtherRegion(error.reason, error.serviceError);

const NETWORK = 'check the network path: route, firewall, proxy; a running agent retries';

const REMEDIES: Readonly<Record<string, string>> = {
  unauthorized: 'replace the token: docs/access.md#tokens',
  forbidden: 'give the token permission to read this, or disable the collector',
  not_found: 'check baseUrl and paths, or disable the collector',
  rate_limited: 'lower budget.requestsPerSecond, or try again later',
  server: 'check the status page of the service; a running agent retries',
  network: NETWORK,
  timeout: NETWORK,
  refused: 'check baseUrl and paths',
  invalid_response: 'the response has an unexpected format: check baseUrl and paths',
  bug: 'report this line',
};

/** Remedies by the code of the network error that caused a failure. */
const CODE_REMEDIES: readonly (readonly [codes: RegExp, remedy: string])[] = [
  [/^(ENOTFOUND|EAI_AGAIN)$/, 'check the host name and the resolver of this machine'],
  [/^ECONNREFUSED$/, 'nothing listens there: check the address, its port and the firewall'],
  [/^CERT_(HAS_EXPIRED|NOT_YET_VALID)$/, "renew the certificate; check this machine's clock"],
  [/SELF_SIGNED|^UNABLE_TO/, 'trust its CA: upstream.caFile for the service, NODE_EXTRA_CA_CERTS for all'],
  [/^ERR_TLS_CERT_ALTNAME_INVALID$/, 'the certificate is for another host: check the address'],
  [/^(EPROTO|ERR_SSL_.*)$/, 'TLS failed at this port: check scheme and port'],
  [/^UND_ERR_ABORTED$/, 'check user, password and access rules of the proxy'],
];

interface FailedRead {
  readonly reason: string;
  readonly serviceError?: string | undefined;
  readonly cause?: unknown;
}

/** Returns the remedy for a failed read or connection; empty for an unknown reason. */
export function remedyOf({ reason, serviceError, cause }: FailedRead): string {
  if (isOtherRegion(reason, serviceError)) return 'the token belongs to another region: check baseUrl';
  const code = cause === undefined ? '' : errorCode(cause);
  const [, remedy] = CODE_REMEDIES.find(([codes]) => codes.test(code)) ?? [];
  return remedy ?? REMEDIES[reason] ?? '';
}

/** Returns the failure reason of a status; undefined for success. Redirects are failures, because they are never followed. */
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

/** Wait after a 429 that states no readable wait, or a time in the past (ms). */
const DEFAULT_WAIT = 1000;

const text = (value: string | string[] | undefined) => (typeof value === 'string' ? value.trim() : '');

/** Parses Retry-After (ms). A date is compared with the response's own Date, if it has one. */
const retryAfter = (headers: IncomingHttpHeaders, now: number) =>
  retryAfterMs(headers['retry-after'], parseHttpDate(text(headers.date)) ?? now);

/** Returns the time until the burst limit resets (ms). The header is a Unix time in seconds or milliseconds. */
function burstReset(headers: IncomingHttpHeaders, now: number): number | undefined {
  const value = Number(text(headers['burst-ratelimit-reset']) || Number.NaN);
  if (!Number.isFinite(value)) return undefined;
  const ms = (value > 1e11 ? value : value * 1000) - now;
  // A time in the past results from rounding to seconds or from clock skew.
  return ms > 0 ? Math.min(ms, 60_000) : DEFAULT_WAIT;
}

/** Returns how long a response asks the agent to pause all requests (ms). `now` is wall time (ms). */
export function requestedWait(status: number, headers: IncomingHttpHeaders, now: number): number | undefined {
  if (status === 429) return retryAfter(headers, now) || (burstReset(headers, now) ?? DEFAULT_WAIT);
  if (status >= 500) return retryAfter(headers, now);
  return text(headers['burst-ratelimit-remaining']) === '0' ? burstReset(headers, now) : undefined;
}
