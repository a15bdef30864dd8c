import type { Counter } from '../kit/counter.ts';
import type { Log } from '../kit/log.ts';
import type { LifecycleTrace, TraceQueue } from '../model/lifecycle-trace.ts';
import { countSpans } from './lifecycle-spans.ts';

/** Most traces of one account that wait for the receiver. */
export const MOST_WAITING = 10_000;

export interface CountedQueue extends TraceQueue {
  /** So many are gone from the store. */
  removed(count: number): void;
}

export function createTraceQueue(
  account: string,
  { spans, log }: { readonly spans: Counter<'about' | 'outcome'>; readonly log: Log },
): CountedQueue {
  let waiting = 0;
  /** Logged once, until nothing waits any more: a receiver that is merely slow would repeat it. */
  let isFull = false;
  return {
    restore(count) {
      waiting = count;
    },
    add(trace: LifecycleTrace) {
      if (waiting < MOST_WAITING) {
        waiting += 1;
        return true;
      }
      if (!isFull) log.warn({ account, waiting }, 'the queue of message traces is full: new ones are dropped');
      isFull = true;
      spans.inc({ about: 'messages', outcome: 'dropped' }, countSpans(trace));
      return false;
    },
    removed(count) {
      waiting = Math.max(0, waiting - count);
      if (waiting === 0) isFull = false;
    },
  };
}
