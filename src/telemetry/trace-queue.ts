import type { Counter } from '../kit/counter.ts';
import type { Log } from '../kit/log.ts';
import type { LifecycleTrace, TraceQueue } from '../model/lifecycle-trace.ts';
import { countSpans } from './lifecycle-spans.ts';

/** Maximum number of pending traces per account. */
export const MAX_PENDING = 10_000;

export interface CountedQueue extends TraceQueue {
  /** Called with the number of traces removed from the store. */
  removed(count: number): void;
}

export function createTraceQueue(
  account: string,
  { spans, log }: { readonly spans: Counter<'about' | 'outcome'>; readonly log: Log },
): CountedQueue {
  let waiting = 0;
  /** Whether the queue has been full since it was last empty. Prevents repeated log lines for a slow receiver. */
  let isFull = false;
  return {
    restore(count) {
      waiting = count;
    },
    add(trace: LifecycleTrace) {
      if (waiting < MAX_PENDING) {
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
