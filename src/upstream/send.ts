import type { IncomingHttpHeaders } from 'node:http';
import { type Dispatcher, errors as undiciErrors, request as undiciRequest } from 'undici';
import { z } from 'zod';
import { type Backoff, backoffDelay } from '../kit/backoff.ts';
import { type Clock, unlessAborted, withDeadline } from '../kit/clock.ts';
import { redacted } from '../kit/redaction.ts';
import { bounded, readBody, readBodyText } from './body.ts';
import { MAX_ERROR_TEXT, type Reason, reasonOfStatus, requestedWait, statusText, UpstreamError } from './errors.ts';
import { rotatesKeys } from './options.ts';
import type { ServiceClock } from './service-clock.ts';

/** Operations of the service, by their names in metrics and logs. */
export const ENDPOINTS = [
  'dlq',
  'events',
  'flow_control',
  'flow_control_key',
  'global_parallelism',
  'schedules',
  'queues',
  'runs',
  'account',
  'cancel',
] as const;
export type Endpoint = (typeof ENDPOINTS)[number];

/**
 * Priorities when an account's budget is short, highest first. `action`: a cancel and the checks right before it, which alone
 * may use the daily reserve. `look`: all other requests of auto-cancel. `browser`: look-ups through the API and the pages; the
 * agent limits them and runs them as `background`.
 */
export const PRIORITIES = ['action', 'flow_control', 'dlq', 'events', 'background', 'look', 'browser'] as const;
export type Priority = (typeof PRIORITIES)[number];

/** An id that is a single path segment for every server, proxy and library. */
const SANE_ID = /^[A-Za-z0-9_-]{1,200}$/;

export const isSaneId = (id: string) => SANE_ID.test(id);

export interface Request {
  readonly endpoint: Endpoint;
  readonly method: 'GET';
  readonly address: 'base' | 'regional';
  /** Encoded path below the address. */
  readonly path: string;
  /** The path with placeholders instead of values, for traces. */
  readonly template: string;
  readonly query: URLSearchParams;
  readonly priority: Priority;
  /** Maximum size of the response body, compressed and decompressed (bytes). */
  readonly largest: number;
  /** Maximum age of a cached response (ms). Default: one second, the resolution of the age. */
  readonly maxAge?: number | undefined;
  readonly signal: AbortSignal;
  /** Number of earlier attempts. */
  readonly resends?: number;
  /** Time limit shared by all attempts. If undefined, each attempt has the full timeout. */
  readonly time?: RequestTime;
}

/** Time limit of a request including retries. It starts with the first attempt, after the wait for the budget. */
type RequestTime = ReturnType<typeof createRequestTime>;

interface CallResult {
  readonly status: number;
  readonly body: unknown;
  /** How long the service asks the agent to pause all requests (ms). */
  readonly wait: number | undefined;
}

/** Sends one request. Behaviours such as budget, retry and timing wrap another Call. */
export type Call = (request: Request, headers?: Readonly<Record<string, string>>) => Promise<CallResult>;

const TRIES = 4;
const RETRYABLE: ReadonlySet<Reason> = new Set(['rate_limited', 'server', 'network', 'timeout']);
const BACKOFF: Backoff = { first: 250, longest: 5000 };
/** Minimum share of the timeout that must remain for a retry. With less, the retry would only replace the error with a timeout. */
const MIN_SHARE = 0.1;

function createRequestTime(clock: Pick<Clock, 'monotonic'>, timeout: number) {
  let end: number | undefined;
  return {
    /** Returns the remaining time (ms); the first call starts it. */
    start(): number {
      end ??= clock.monotonic() + timeout;
      return end - clock.monotonic();
    },
    /** Returns the remaining time (ms); undefined before the start. */
    left: () => (end === undefined ? undefined : end - clock.monotonic()),
  };
}

/** Retries after transient errors, with increasing delays within `timeout` (ms). */
export const withRetry =
  (clock: Clock, random: () => number, timeout: number) =>
  (call: Call): Call =>
  async (request, headers) => {
    const time = createRequestTime(clock, timeout);
    let last: UpstreamError | undefined;
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await call({ ...request, time, resends: attempt - 1 }, headers);
      } catch (error) {
        if (!(error instanceof UpstreamError)) {
          // The time limit ended while a retry waited for the budget: throw the error of the last attempt.
          const isOver = error instanceof DOMException && error.name === 'TimeoutError';
          throw isOver && last && !request.signal.aborted ? last : error;
        }
        last = error;
        const delay = (error.retryAfter ?? 0) + backoffDelay(BACKOFF, attempt, random);
        const left = (time.left() ?? timeout) - delay;
        if (!RETRYABLE.has(error.reason) || attempt === TRIES || left < MIN_SHARE * timeout) throw error;
        await clock.sleep(delay, request.signal);
      }
    }
  };

export type Addresses = Readonly<Record<Request['address'], string>>;

export interface SendDeps {
  readonly addresses: Addresses;
  readonly dispatcher: Dispatcher;
  /** Timeout of a request without `time`, including connecting (ms). */
  readonly timeout: number;
  readonly clock: Pick<Clock, 'now'>;
  readonly serviceClock?: ServiceClock | undefined;
  /** Called with the size of each body chunk as it arrives (bytes), even if the request fails. */
  readonly onBytes?: (endpoint: Endpoint, bytes: number) => void;
  /** Secrets to redact from the service's error texts. If undefined, error texts are not read. */
  readonly secrets?: (() => readonly string[]) | undefined;
}

/** Rejects when the signal is aborted, because undici ignores it while connecting. Discards a later response. */
export async function untilAborted(
  request: Promise<Dispatcher.ResponseData>,
  signal: AbortSignal,
): Promise<Dispatcher.ResponseData> {
  try {
    return await unlessAborted(request, signal);
  } catch (error) {
    request.then(
      ({ body }) => body.destroy(),
      () => undefined,
    );
    throw error;
  }
}

export function toUpstreamError(error: unknown, what: string): UpstreamError {
  if (error instanceof UpstreamError) return error;
  if (!(error instanceof Error)) return new UpstreamError('bug', `${what}: failed`, { cause: error });
  if (
    error.name === 'TimeoutError' ||
    error instanceof undiciErrors.ConnectTimeoutError ||
    error instanceof undiciErrors.HeadersTimeoutError ||
    error instanceof undiciErrors.BodyTimeoutError
  ) {
    return new UpstreamError('timeout', `${what}: no response in time`, { cause: error });
  }
  if (error instanceof undiciErrors.HTTPParserError || error instanceof undiciErrors.HeadersOverflowError) {
    return new UpstreamError('invalid_response', `${what}: not HTTP`, { cause: error });
  }
  const code = (error as NodeJS.ErrnoException).code;
  if (code === undefined || error instanceof undiciErrors.InvalidArgumentError) {
    return new UpstreamError('bug', `${what}: ${error.message}`, { cause: error });
  }
  return new UpstreamError('network', `${what}: ${code}`, { cause: error });
}

/** Maximum size of an error response, compressed and decompressed (bytes). */
const MAX_ERROR_BYTES = 16 * 1024;

const encodingOf = (headers: IncomingHttpHeaders) => String(headers['content-encoding'] ?? 'identity');

const ErrorBody = z.object({ error: z.string() });

const PLAIN_TEXT = /^(text\/plain\b|$)/i;
/** Matches HTML, XML and incomplete JSON. */
const MARKUP = /^\s*[<{[]|<\/?(html|head|body|title|h\d|p|div|pre|script|center)\b/i;
/** Characters that do not occur in text, and U+FFFD, which replaces invalid UTF-8. */
const BINARY = /[\0-\x06\x0e-\x1a\ufffd]/;

/** Returns the explanation in the body of an error response: `{error}`, a JSON string or plain text; "" for any other body. */
function explanationIn(body: string, type: string): string {
  try {
    const value: unknown = JSON.parse(body);
    return typeof value === 'string' ? value : (ErrorBody.safeParse(value).data?.error ?? '');
  } catch {
    return PLAIN_TEXT.test(type.trim()) && !MARKUP.test(body) && !BINARY.test(body) ? body : '';
  }
}

/**
 * Returns the explanation in an error response, bounded and redacted; undefined if it is missing, or if the body is too long or
 * too slow. Never throws. Without `secrets` the body is only drained, so that the connection can be reused.
 */
async function readErrorText(
  packed: AsyncIterable<Buffer>,
  headers: IncomingHttpHeaders,
  what: string,
  secrets: (() => readonly string[]) | undefined,
): Promise<string | undefined> {
  const bounds = { what, largest: MAX_ERROR_BYTES };
  try {
    const body = await readBodyText(bounded(packed, bounds), encodingOf(headers), bounds);
    const explanation = explanationIn(body, String(headers['content-type'] ?? ''));
    return (secrets && redacted(explanation, secrets(), MAX_ERROR_TEXT)) || undefined;
  } catch {
    return undefined;
  }
}

const SECOND = 1000;

/** Returns the largest age of a cached response (ms); 0 without a valid `Age`. */
function ageOf(header: unknown): number {
  const values = String(header ?? '').split(',');
  const seconds = values.flatMap(value => (/^\s*\d+(\.\d+)?\s*$/.test(value) ? Number(value) : []));
  return Math.max(0, ...seconds) * SECOND;
}

/** Creates the innermost call: one HTTP exchange, bounded in time and size, without redirects, with a parsed JSON body. */
export function createSend(deps: SendDeps): Call {
  const { addresses, dispatcher, timeout, clock, onBytes, secrets, serviceClock } = deps;
  return async ({ endpoint, method, address, path, query, largest, maxAge = SECOND, signal, time }, headers) => {
    const what = `${method} ${path}`;
    const url = new URL(`${addresses[address].replace(/\/+$/, '')}${path}`);
    url.search = query.toString();
    if (rotatesKeys(url.pathname)) throw new UpstreamError('refused', `${what} is never sent`);
    try {
      return await withDeadline(time?.start() ?? timeout, signal, async deadline => {
        const onHeaders = serviceClock?.startRequest();
        const request = undiciRequest(url, {
          dispatcher,
          method,
          headers: { accept: 'application/json', 'accept-encoding': 'gzip', 'cache-control': 'no-cache', ...headers },
          signal: deadline,
        });
        const response = await untilAborted(request, deadline);
        const { statusCode: status, headers: received } = response;
        const bounds = { what, largest };
        const packed = bounded(response.body, bounds, bytes => onBytes?.(endpoint, bytes));
        const isOutdated = ageOf(received.age) > maxAge;
        const reason = isOutdated ? 'invalid_response' : reasonOfStatus(status);
        onHeaders?.({ date: received.date, isDoubtful: reason !== undefined || Number(received.age ?? 0) !== 0 });
        const wait = requestedWait(status, received, clock.now());
        if (reason) {
          const bearer = headers?.authorization?.replace(/^\S+ /, '') ?? '';
          const known = () => [bearer, ...(secrets?.() ?? [])];
          const serviceError = await readErrorText(packed, received, what, secrets && known);
          const detail = { retryAfter: wait, status, serviceError };
          if (!isOutdated) throw new UpstreamError(reason, `${what}: ${statusText(status, serviceError)}`, detail);
          const message = `${what}: a cached response, older than ${maxAge / SECOND} s`;
          throw new UpstreamError(reason, message, { retryAfter: wait });
        }
        return { status, body: await readBody(packed, encodingOf(received), bounds, deadline), wait };
      });
    } catch (error) {
      // Aborting is not a failure of the service: rethrow the reason unchanged.
      if (signal.aborted) throw signal.reason;
      throw toUpstreamError(error, what);
    }
  };
}
