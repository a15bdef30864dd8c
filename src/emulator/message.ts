import { STATUS_CODES } from 'node:http';
import type { Dialect } from './dialect.ts';
import type { Position } from './timeline.ts';

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

/** Fields of a failed workflow run, in addition to the fields of its dead letter. */
export interface FailedRun {
  readonly workflowRunId: string;
  readonly workflowUrl: string;
  readonly workflowCreatedAt: number;
  readonly callback: FailureCallback | undefined;
}

export const LOG_STATES = [
  'created',
  'active',
  'retry',
  'error',
  'delivered',
  'failed',
  'cancel_requested',
  'cancelled',
] as const;

export type LogState = (typeof LOG_STATES)[number];

/** Fields that messages to one destination share, named as in the API's rows. */
export interface Fields {
  readonly url: string;
  readonly method: string;
  readonly header: Readonly<Record<string, readonly string[]>>;
  readonly maxRetries: number;
  /** Empty without a topic: the documentation does not allow omitting this field. */
  readonly topicId: string;
  readonly topicName?: string;
  readonly endpointName?: string;
  readonly queueName?: string;
  readonly scheduleId?: string;
  readonly api?: string;
  readonly label?: string;
  readonly labels?: readonly string[];
  readonly callback?: string;
  readonly failureCallback?: string;
  readonly workflowUrl?: string;
  readonly flowControlKey?: string;
  readonly parallelism?: number;
  readonly rate?: number;
  /** In seconds. */
  readonly period?: number;
}

/** Times in ms since the Unix epoch. */
export interface EmulatedMessage {
  readonly fields: Fields;
  readonly messageId: string;
  readonly createdAt: number;
  readonly notBefore: number;
  readonly callerIP: string;
  /** Default: derived from the message id, to save memory. */
  readonly body?: string | undefined;
}

/** One entry of the event log. Its position in the timeline contains its time. */
export interface LoggedEvent {
  readonly message: EmulatedMessage;
  readonly state: LogState;
  readonly responseStatus?: number | undefined;
  readonly error?: string | undefined;
  readonly nextDeliveryTime?: number | undefined;
}

/** A failed message. Its position in the timeline contains the time of the failure. */
export interface FailedMessage {
  readonly message: EmulatedMessage;
  /** Status of the last attempt; 0 without a response. */
  readonly responseStatus: number;
  readonly responseBody?: string | undefined;
  readonly run?: FailedRun | undefined;
}

/** Returns an entry's id: its time of entry (ms), and a number unique in that millisecond. */
export function dlqIdOf({ time, seq }: Position): string {
  return `${time}-${seq}`;
}

/** Returns the position of a dead letter; undefined if its id is invalid. */
export function positionOf(dlqId: string): Position | undefined {
  const match = /^(\d{1,16})-(\d{1,16})$/.exec(dlqId);
  return match ? { time: Number(match[1]), seq: Number(match[2]) } : undefined;
}

const RESPONSE_HEADER = { 'Content-Type': ['text/plain; charset=utf-8'] } as const;

const bodyOf = ({ body, messageId }: EmulatedMessage) => body ?? `{"ref":"${messageId.slice(4, 16)}"}`;

const responseOf = (status: number) => STATUS_CODES[status] ?? 'failed';

const callbackInfo = ({ state, responseStatus }: FailureCallback) => ({
  state,
  ...(responseStatus !== undefined && { responseStatus }),
  ...(responseStatus && { responseBody: responseOf(responseStatus), responseHeaders: RESPONSE_HEADER }),
});

function runFields({ callback, ...run }: FailedRun, way: Dialect['callbackState']) {
  const shown = way === 'absent' ? undefined : callback;
  return {
    ...run,
    ...(shown && way !== 'failureFunctionState' && { failureCallbackInfo: callbackInfo(shown) }),
    ...(shown && way !== 'failureCallbackInfo' && { failureFunctionState: shown.state }),
  };
}

/** Returns an element of `messages` in the DLQ list. Times in ms since the Unix epoch. */
export function dlqRow(
  entry: FailedMessage,
  place: Position,
  callbackState: Dialect['callbackState'] = 'failureCallbackInfo',
) {
  const { message, responseStatus, responseBody = responseOf(responseStatus), run } = entry;
  return {
    dlqId: dlqIdOf(place),
    messageId: message.messageId,
    ...message.fields,
    body: bodyOf(message),
    createdAt: message.createdAt,
    notBefore: message.notBefore,
    callerIP: message.callerIP,
    state: 'failed' as const,
    responseStatus,
    ...(responseStatus !== 0 && { responseHeader: RESPONSE_HEADER, responseBody }),
    ...(run && runFields(run, callbackState)),
  };
}

export type DlqRow = ReturnType<typeof dlqRow>;

/** Converts an event to a row, by default in the default dialect. `time`: decimal digits; `body`: Base64. */
export function eventRow({ message, state, ...details }: LoggedEvent, time: number, dialect?: Dialect) {
  const { responseStatus, error, nextDeliveryTime } = details;
  return {
    time: String(time),
    messageId: message.messageId,
    state: (dialect?.eventState === 'upper' ? state.toUpperCase() : state) as LogState,
    ...message.fields,
    body: Buffer.from(bodyOf(message)).toString('base64'),
    ...(responseStatus !== undefined && { responseStatus }),
    ...(error !== undefined && { error }),
    ...(nextDeliveryTime !== undefined && { nextDeliveryTime }),
  };
}

export type EventRow = ReturnType<typeof eventRow>;
