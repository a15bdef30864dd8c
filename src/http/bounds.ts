import type { Clock } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';

export type Bounds = Readonly<typeof BOUNDS>;

/** Limits on clients, described in docs/limits.md. Times in milliseconds. */
export const BOUNDS = {
  maxConnections: 512,
  /** Maximum time from the start of a response until the client has read it. */
  responseWithin: 30_000,
  /** Maximum time from the first byte of a request, or from connecting, until its headers are complete. */
  headersWithin: 10_000,
  /** Maximum time from the first byte of a request to its last. */
  requestWithin: 30_000,
  /** Maximum idle time of a connection between requests; longer than most scrape intervals. */
  keepAliveFor: 75_000,
  /** Maximum total size of unread responses (bytes). Identical bodies count once; two different bodies are always allowed. */
  unreadBytes: 24 * 1024 * 1024,
  /** Maximum number of unanswered requests per connection. */
  pipelined: 4,
};

/** Time without a violation (ms) after which the next violation is logged. */
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
