import { type Backoff, backoffDelay } from '../kit/backoff.ts';
import type { Clock } from '../kit/clock.ts';
import { UpstreamError } from './errors.ts';
import type { RowsOf } from './json-reader.ts';

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

/** Whether an id can be sent. */
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
  /** Bytes of the answer's body that are read at most, packed and unpacked. */
  readonly largest: number;
  /** What becomes of the elements of a long answer's lists, while it is read; default: nothing. */
  readonly rowsOf?: RowsOf;
  readonly signal: AbortSignal;
}

export interface Answer {
  readonly status: number;
  /** The parsed JSON body. */
  readonly body: unknown;
  /** Milliseconds that the service asks to send nothing more. */
  readonly wait: number | undefined;
}

/** Sends one request. Client behaviours (budget, retry, timing …) are functions from a Call to a Call. */
export type Call = (request: Request, headers?: Readonly<Record<string, string>>) => Promise<Answer>;

const TRIES = 4;
const BACKOFF: Backoff = { first: 250, longest: 5000 };
/** A service that asks for more than this is left alone until the collector's next round. */
const LONGEST_RETRY_AFTER = 30_000;

/** Reads that failed for a passing reason are tried again, up to 4 times in all, later each time. */
export const withRetry =
  (clock: Clock, random: () => number) =>
  (call: Call): Call =>
  async (request, headers) => {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await call(request, headers);
      } catch (error) {
        if (!(error instanceof UpstreamError) || !error.retryable || attempt === TRIES) throw error;
        const asked = error.retryAfter ?? 0;
        if (asked > LONGEST_RETRY_AFTER) throw error;
        await clock.sleep(asked + backoffDelay(BACKOFF, attempt, random), request.signal);
      }
    }
  };
