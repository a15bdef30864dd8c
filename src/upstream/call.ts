import { type Backoff, backoffDelay } from '../kit/backoff.ts';
import type { Clock } from '../kit/clock.ts';
import { type Reason, UpstreamError } from './errors.ts';

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
export type RequestTime = ReturnType<typeof createRequestTime>;

export interface CallResult {
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
