export const WIRE_CALLBACK_STATES = [
  'CALLBACK_INPROGRESS',
  'CALLBACK_SUCCESS',
  'CALLBACK_FAIL',
  'CALLBACK_CANCELED',
] as const;

export type WireCallbackState = (typeof WIRE_CALLBACK_STATES)[number];

/** Allowed transitions by state. Success and cancellation are final: the callback never runs again. */
const NEXT: Readonly<Record<WireCallbackState, readonly WireCallbackState[]>> = {
  CALLBACK_INPROGRESS: ['CALLBACK_SUCCESS', 'CALLBACK_FAIL', 'CALLBACK_CANCELED'],
  CALLBACK_FAIL: ['CALLBACK_INPROGRESS'],
  CALLBACK_SUCCESS: [],
  CALLBACK_CANCELED: [],
};

/** A message that reports a failed workflow run. Times in ms since the Unix epoch. */
export class FailureCallback {
  readonly url: string;
  readonly maxRetries: number;
  /** A manual retry changes this id. */
  messageId: string;
  retried = 0;
  /** Status of the last attempt: undefined before the first, 0 without a response. */
  responseStatus: number | undefined;
  nextDeliveryTime: number | undefined;
  #state: WireCallbackState;

  constructor(given: { url: string; maxRetries: number; messageId: string; state?: WireCallbackState }) {
    this.url = given.url;
    this.maxRetries = given.maxRetries;
    this.messageId = given.messageId;
    this.#state = given.state ?? 'CALLBACK_INPROGRESS';
  }

  get state(): WireCallbackState {
    return this.#state;
  }

  get inProgress(): boolean {
    return this.#state === 'CALLBACK_INPROGRESS';
  }

  /** Changes the state. Throws a RangeError if the transition is not allowed. */
  become(state: WireCallbackState): void {
    if (!NEXT[this.#state].includes(state)) throw new RangeError(`${this.#state} cannot become ${state}`);
    this.#state = state;
    this.nextDeliveryTime = undefined;
  }
}

/** Fields of a failed workflow run, in addition to those of its dead letter. */
export interface FailedRun {
  readonly workflowRunId: string;
  readonly workflowUrl: string;
  readonly workflowCreatedAt: number;
  readonly callback: FailureCallback | undefined;
}
