export const CALLBACK_STATES = [
  'CALLBACK_INPROGRESS',
  'CALLBACK_SUCCESS',
  'CALLBACK_FAIL',
  'CALLBACK_CANCELED',
] as const;

export type CallbackState = (typeof CALLBACK_STATES)[number];

/** Success and cancelling are final: the service refuses to run such a callback again. */
const NEXT: Readonly<Record<CallbackState, readonly CallbackState[]>> = {
  CALLBACK_INPROGRESS: ['CALLBACK_SUCCESS', 'CALLBACK_FAIL', 'CALLBACK_CANCELED'],
  CALLBACK_FAIL: ['CALLBACK_INPROGRESS'],
  CALLBACK_SUCCESS: [],
  CALLBACK_CANCELED: [],
};

/** The message that tells a publisher that a workflow run failed. Times: milliseconds since the Unix epoch. */
export class FailureCallback {
  readonly url: string;
  readonly maxRetries: number;
  /** Of the message under way; a retry by hand sends another one. */
  messageId: string;
  retried = 0;
  /** Of the last attempt; undefined before the first answer, 0 when there was none. */
  responseStatus: number | undefined;
  nextDeliveryTime: number | undefined;
  #state: CallbackState;

  constructor(given: { url: string; maxRetries: number; messageId: string; state?: CallbackState }) {
    this.url = given.url;
    this.maxRetries = given.maxRetries;
    this.messageId = given.messageId;
    this.#state = given.state ?? 'CALLBACK_INPROGRESS';
  }

  get state(): CallbackState {
    return this.#state;
  }

  get inProgress(): boolean {
    return this.#state === 'CALLBACK_INPROGRESS';
  }

  /** Goes to another state; a RangeError when none leads there. */
  become(state: CallbackState): void {
    if (!NEXT[this.#state].includes(state)) throw new RangeError(`${this.#state} cannot become ${state}`);
    this.#state = state;
    this.nextDeliveryTime = undefined;
  }
}

/** A run of a workflow that failed, beyond what its dead letter says. */
export interface FailedRun {
  readonly workflowRunId: string;
  readonly workflowUrl: string;
  readonly workflowCreatedAt: number;
  readonly callback: FailureCallback | undefined;
}
