import { STATUS_CODES } from 'node:http';
import type { Dialect } from './dialect.ts';
import type { FailedRun, FailureCallback } from './failure-callback.ts';
import { dlqIdOf, type EmulatedMessage, type FailedMessage, type LoggedEvent, type LogState } from './message.ts';
import type { Position } from './timeline.ts';

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
