/** What was asked of the emulator, for tests to look at. */
export class Tally {
  /** Requests by endpoint, such as `GET /v2/dlq`; whatever is none counts as `other`. */
  readonly calls = new Map<string, number>();
  /** Requests to cancel a failure callback by dlqId, whatever they were answered. */
  readonly cancels = new Map<string, number>();

  countCall(endpoint: string): void {
    this.calls.set(endpoint, (this.calls.get(endpoint) ?? 0) + 1);
  }

  countCancel(dlqId: string): void {
    this.cancels.set(dlqId, (this.cancels.get(dlqId) ?? 0) + 1);
  }
}
