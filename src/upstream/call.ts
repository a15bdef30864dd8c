import { type Backoff, backoffDelay } from '../kit/backoff.ts';
import type { Clock } from '../kit/clock.ts';
import { UpstreamError } from './errors.ts';

/** One operation of the service, by the name that metrics and logs use. */
export const ENDPOINTS = ['dlq', 'events', 'flow_control', 'flow_control_key', 'cancel'] as const;
export type Endpoint = (typeof ENDPOINTS)[number];

/**
 * Priorities when an account's budget is short, the highest first. `action`: a cancel and the final check before it, which
 * alone may use the reserve of the day. `look`: all other requests of auto-cancel.
 */
export const PRIORITIES = ['action', 'flow_control', 'dlq', 'events', 'background', 'look'] as const;
export type Priority = (typeof PRIORITIES)[number];

/** One whole segment of a path that no server, proxy or library could take for another. */
const SANE_ID = /^[A-Za-z0-9_-]{1,200}$/;

export const isSaneId = (id: string) => SANE_ID.test(id);

export interface Request {
  readonly endpoint: Endpoint;
  readonly method: 'GET';
  /** Which of the account's addresses: most operations have the base address, some that of the region. */
  readonly address: 'base' | 'regional';
  /** Path below that address, already encoded. */
  readonly path: string;
  /** The path with names where it has values: what traces may show of it. */
  readonly template: string;
  readonly query: URLSearchParams;
  readonly priority: Priority;
  /** Maximum size of the response body, compressed and decompressed (bytes). */
  readonly largest: number;
  readonly signal: AbortSignal;
  /** Default: each attempt has the whole timeout. */
  readonly time?: RequestTime;
}

/** The time of one request, retries included. Starts with the first attempt: the wait for the own budget does not count. */
export interface RequestTime {
  /** Returns the remaining time (ms), and starts it if this is the first attempt. */
  start(): number;
  /** Remaining time (ms); undefined before the start. */
  left(): number | undefined;
}

export interface Answer {
  readonly status: number;
  readonly body: unknown;
  /** Milliseconds that the service asks to send nothing more. */
  readonly wait: number | undefined;
}

/** Sends one request. Client behaviours (budget, retry, timing …) are functions from a Call to a Call. */
export type Call = (request: Request, headers?: Readonly<Record<string, string>>) => Promise<Answer>;

const TRIES = 4;
const BACKOFF: Backoff = { first: 250, longest: 5000 };
/** Share of the time that must be left for a retry. With less it would only replace the error by a timeout. */
const MIN_SHARE = 0.1;

function createRequestTime(clock: Pick<Clock, 'monotonic'>, timeout: number): RequestTime {
  let end: number | undefined;
  return {
    start() {
      end ??= clock.monotonic() + timeout;
      return end - clock.monotonic();
    },
    left: () => (end === undefined ? undefined : end - clock.monotonic()),
  };
}

/**
 * Retries reads after transient errors, at most 4 attempts with increasing delays, all within `timeout` (ms). If a retry
 * would start too late, the request fails with the last error at once.
 */
export const withRetry =
  (clock: Clock, random: () => number, timeout: number) =>
  (call: Call): Call =>
  async (request, headers) => {
    const time = createRequestTime(clock, timeout);
    let last: UpstreamError | undefined;
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await call({ ...request, time }, headers);
      } catch (error) {
        if (!(error instanceof UpstreamError)) {
          // The time ended while a retry waited for the budget.
          const isOver = error instanceof DOMException && error.name === 'TimeoutError';
          throw isOver && last && !request.signal.aborted ? last : error;
        }
        last = error;
        const delay = (error.retryAfter ?? 0) + backoffDelay(BACKOFF, attempt, random);
        const left = (time.left() ?? timeout) - delay;
        if (!error.retryable || attempt === TRIES || left < MIN_SHARE * timeout) throw error;
        await clock.sleep(delay, request.signal);
      }
    }
  };
