import { STATUS_CODES } from 'node:http';
import type { Dialect } from './dialect.ts';
import type { FailedRun, WireCallbackState } from './failure-callback.ts';
import {
  dlqIdOf,
  type EmulatedMessage,
  type FailedMessage,
  type Fields,
  type LoggedEvent,
  type LogState,
} from './message.ts';
import type { Position } from './timeline.ts';

/** An element of `messages` in the DLQ list. Times in ms since the Unix epoch. */
export interface DlqRow extends Fields {
  readonly dlqId: string;
  readonly messageId: string;
  readonly body: string;
  readonly createdAt: number;
  readonly notBefore: number;
  readonly callerIP: string;
  readonly state: 'failed';
  readonly responseStatus: number;
  readonly responseHeader?: Readonly<Record<string, readonly string[]>>;
  readonly responseBody?: string;
  /** Only failed workflow runs have this field and the following ones. */
  readonly workflowRunId?: string;
  readonly workflowUrl?: string;
  readonly workflowCreatedAt?: number;
  readonly failureCallbackInfo?: {
    readonly state: WireCallbackState;
    readonly responseStatus?: number;
    readonly responseBody?: string;
    readonly responseHeaders?: Readonly<Record<string, readonly string[]>>;
  };
  readonly failureFunctionState?: WireCallbackState;
}

export interface EventRow extends Fields {
  /** Milliseconds since the Unix epoch, as decimal digits. */
  readonly time: string;
  readonly messageId: string;
  /** Upper case if the dialect's `eventState` is `upper`. */
  readonly state: LogState;
  /** Base64. */
  readonly body: string;
  readonly responseStatus?: number;
  readonly error?: string;
  readonly nextDeliveryTime?: number;
}

const RESPONSE_HEADER = { 'Content-Type': ['text/plain; charset=utf-8'] } as const;

const bodyOf = ({ body, messageId }: EmulatedMessage) => body ?? `{"ref":"${messageId.slice(4, 16)}"}`;

const responseOf = (status: number) => STATUS_CODES[status] ?? 'failed';

function runFields(run: FailedRun, callbackState: Dialect['callbackState']) {
  const { workflowRunId, workflowUrl, workflowCreatedAt, callback } = run;
  const own = { workflowRunId, workflowUrl, workflowCreatedAt };
  if (!callback || callbackState === 'absent') return own;
  const { state, responseStatus } = callback;
  const info = {
    state,
    ...(responseStatus === undefined ? {} : { responseStatus }),
    ...(responseStatus ? { responseBody: responseOf(responseStatus), responseHeaders: RESPONSE_HEADER } : {}),
  };
  return {
    ...own,
    ...(callbackState === 'failureFunctionState' ? {} : { failureCallbackInfo: info }),
    ...(callbackState === 'failureCallbackInfo' ? {} : { failureFunctionState: state }),
  };
}

export function dlqRow(
  entry: FailedMessage,
  place: Position,
  callbackState: Dialect['callbackState'] = 'failureCallbackInfo',
): DlqRow {
  const message = entry.messageAt(place);
  const { responseStatus, responseBody = responseOf(responseStatus), run } = entry;
  return {
    dlqId: dlqIdOf(place),
    messageId: message.messageId,
    ...message.fields,
    body: bodyOf(message),
    createdAt: message.createdAt,
    notBefore: message.notBefore,
    callerIP: message.callerIP,
    state: 'failed',
    responseStatus,
    ...(responseStatus === 0 ? {} : { responseHeader: RESPONSE_HEADER, responseBody }),
    ...(run && runFields(run, callbackState)),
  };
}

/** Converts an event to a row, by default in the default dialect. */
export function eventRow(event: LoggedEvent, time: number): EventRow;
export function eventRow(event: LoggedEvent, time: number, dialect: Dialect): { readonly messageId: string };
export function eventRow({ message, state, ...details }: LoggedEvent, time: number, dialect?: Dialect) {
  const { responseStatus, error, nextDeliveryTime } = details;
  return {
    time: String(time),
    messageId: message.messageId,
    state: dialect?.eventState === 'upper' ? state.toUpperCase() : state,
    ...message.fields,
    body: Buffer.from(bodyOf(message)).toString('base64'),
    ...(responseStatus === undefined ? {} : { responseStatus }),
    ...(error === undefined ? {} : { error }),
    ...(nextDeliveryTime === undefined ? {} : { nextDeliveryTime }),
  };
}
