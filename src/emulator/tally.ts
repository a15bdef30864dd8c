export type CancelResult = 'done' | 'refused' | 'unknown';

export interface CancelCall {
  /** In emulated ms since the Unix epoch. */
  readonly at: number;
  readonly dlqId: string;
  /** Undefined if the request failed before it took effect. */
  verdict?: CancelResult;
}

export class Tally {
  /** Number of requests by endpoint: for example `GET /v2/dlq`, or `other`. */
  readonly calls = new Map<string, number>();
  readonly cancelCalls: CancelCall[] = [];

  countCall(endpoint: string): void {
    this.calls.set(endpoint, (this.calls.get(endpoint) ?? 0) + 1);
  }

  recordCancel(at: number, dlqId: string): CancelCall {
    const call: CancelCall = { at, dlqId };
    this.cancelCalls.push(call);
    return call;
  }
}
