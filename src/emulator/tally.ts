export type CancelResult = 'done' | 'refused' | 'unknown';

export interface CancelCall {
  /** In emulated ms since the Unix epoch. */
  readonly at: number;
  readonly dlqId: string;
  /** Undefined if the request failed before it took effect. */
  verdict?: CancelResult;
}

const MAX_CALLS = 1000;

export class Tally {
  /** Number of requests by endpoint: for example `GET /v2/dlq`, or `other`. */
  readonly calls = new Map<string, number>();
  /** Number of authenticated cancel requests by dlqId. */
  readonly cancels = new Map<string, number>();
  readonly cancelCalls: CancelCall[] = [];

  countCall(endpoint: string): void {
    this.calls.set(endpoint, (this.calls.get(endpoint) ?? 0) + 1);
  }

  recordCancel(at: number, dlqId: string): CancelCall {
    const call: CancelCall = { at, dlqId };
    this.cancelCalls.push(call);
    if (this.cancelCalls.length > MAX_CALLS) this.cancelCalls.shift();
    return call;
  }

  countCancel(dlqId: string): void {
    this.cancels.set(dlqId, (this.cancels.get(dlqId) ?? 0) + 1);
  }
}
