import type { Clock } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';

/** Limits on clients, described in docs/bounds.md. Times in milliseconds. */
export interface Bounds {
  readonly maxConnections: number;
  /** Maximum time from the start of a response until the client has read it. */
  readonly responseWithin: number;
  /** Maximum time from the first byte of a request, or from connecting, until its headers are complete. */
  readonly headersWithin: number;
  /** Maximum time from the first byte of a request to its last. */
  readonly requestWithin: number;
  /** Maximum idle time of a connection between requests; longer than most scrape intervals. */
  readonly keepAliveFor: number;
  /** Maximum total size of unread responses (bytes). Identical bodies count once; two different bodies are always allowed. */
  readonly unreadBytes: number;
  /** Maximum number of unanswered requests per connection. */
  readonly pipelined: number;
}

export const BOUNDS: Bounds = {
  maxConnections: 512,
  responseWithin: 30_000,
  headersWithin: 10_000,
  requestWithin: 30_000,
  keepAliveFor: 75_000,
  unreadBytes: 24 * 1024 * 1024,
  pipelined: 4,
};

/** Time without a violation (ms) after which the next one is logged. */
const QUIET = 60_000;

export type LogBound = (bound: string, fields: object, message: string) => void;

export function createBoundLog(log: Log, clock: Clock): LogBound {
  const last = new Map<string, number>();
  return (bound, fields, message) => {
    const now = clock.monotonic();
    const before = last.get(bound);
    last.set(bound, now);
    if (before === undefined || now - before > QUIET) log.warn({ bound, ...fields }, message);
  };
}
