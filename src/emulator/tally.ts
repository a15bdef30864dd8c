export type Verdict = 'done' | 'refused' | 'unknown';

export interface CancelCall {
  /** When it came, emulated milliseconds since the Unix epoch. */
  readonly at: number;
  readonly dlqId: string;
  /** What became of it; undefined when it was refused, or struck by a fault, before it took effect. */
  verdict?: Verdict;
}

const MOST_CALLS = 1000;

export class Tally {
  /** Requests by endpoint, such as `GET /v2/dlq`; unknown paths count as `other`. */
  readonly calls = new Map<string, number>();
  /** Requests to cancel a failure callback by dlqId that were let in, with any answer. */
  readonly cancels = new Map<string, number>();
  readonly cancelCalls: CancelCall[] = [];

  countCall(endpoint: string): void {
    this.calls.set(endpoint, (this.calls.get(endpoint) ?? 0) + 1);
  }

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
