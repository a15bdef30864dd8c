import type { Clock } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';

/** What clients may take of this process; docs/bounds.md says when each holds. Times in milliseconds. */
export interface Bounds {
  /** Connections at the same time. */
  readonly maxConnections: number;
  /** From when an answer is ready to the last byte of it that the client takes. */
  readonly answerWithin: number;
  /** From the first byte of a request, or from connecting, to the end of its headers. */
  readonly headersWithin: number;
  /** From the first byte of a request to its last. */
  readonly requestWithin: number;
  /** That a connection stays open between two requests: longer than most scrape intervals. */
  readonly keepAliveFor: number;
  /** Bytes of answers that clients have not taken, each different one once; of two different ones none is cut. */
  readonly unreadBytes: number;
  /** Requests that one connection may have without an answer. */
  readonly pipelined: number;
}

export const BOUNDS: Bounds = {
  maxConnections: 512,
  answerWithin: 30_000,
  headersWithin: 10_000,
  requestWithin: 30_000,
  keepAliveFor: 75_000,
  unreadBytes: 24 * 1024 * 1024,
  pipelined: 4,
};

/** Milliseconds without a case after which the next is an onset. */
const QUIET = 60_000;

/** Logs that a bound holds: at its onset, not at every case. */
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
