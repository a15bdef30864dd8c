/** What became of a request to cancel a failure callback, or to run it again. */
export type Verdict = 'done' | 'refused' | 'unknown';

export interface CancelCall {
  /** When it came, emulated milliseconds since the Unix epoch. */
  readonly at: number;
  /** As it stood in the path. */
  readonly dlqId: string;
  /** What became of it; undefined when it was refused, or struck by a fault, before it took effect. */
  verdict?: Verdict;
}

/** Requests to cancel that are remembered one by one. */
const MOST_CALLS = 1000;

export class Tally {
  /** Requests by endpoint, such as `GET /v2/dlq`; unknown paths count as `other`. */
  readonly calls = new Map<string, number>();
  /** Requests to cancel a failure callback by dlqId that were let in, with any answer. */
  readonly cancels = new Map<string, number>();
  /** The latest of all that came, the earliest first. */
  readonly cancelCalls: CancelCall[] = [];

  countCall(endpoint: string): void {
    this.calls.set(endpoint, (this.calls.get(endpoint) ?? 0) + 1);
  }

  /** Records a request to cancel; its verdict is to be set. */
  recordCancel(at: number, dlqId: string): CancelCall {
    const call: CancelCall = { at, dlqId };
    this.cancelCalls.push(call);
    if (this.cancelCalls.length > MOST_CALLS) this.cancelCalls.shift();
    return call;
  }

  countCancel(dlqId: string): void {
    this.cancels.set(dlqId, (this.cancels.get(dlqId) ?? 0) + 1);
  }
}
