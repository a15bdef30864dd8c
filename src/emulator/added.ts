import {
  type EmulatedMessage,
  type FailedMessage,
  FailureCallback,
  type Fields,
  type LoggedEvent,
  type WireCallbackState,
} from './message.ts';

type MessageSeed = Partial<Omit<EmulatedMessage, 'fields'>> & Partial<Fields>;

/** A dead letter to add. Times in ms since the Unix epoch. */
export interface DlqSeed extends MessageSeed {
  readonly enteredAt?: number;
  readonly responseStatus?: number;
  /** Response of the destination. Default: the reason phrase of the status. */
  readonly responseBody?: string;
}

export interface FailedRunSeed extends DlqSeed {
  readonly workflowRunId?: string;
  readonly workflowUrl?: string;
  readonly workflowCreatedAt?: number;
  /** State of the failure callback; null if there is no failure function. Default: CALLBACK_INPROGRESS. */
  readonly callbackState?: WireCallbackState | null;
  readonly callbackRetries?: number;
  /** Status of the callback's last attempt. */
  readonly callbackStatus?: number;
  readonly nextDeliveryTime?: number;
}

export interface EventSeed extends MessageSeed, Partial<Omit<LoggedEvent, 'message'>> {
  readonly time?: number;
}

const PLAIN: Fields = {
  url: 'https://added.example.com/',
  method: 'POST',
  header: { 'Content-Type': ['text/plain'] },
  maxRetries: 3,
  topicId: '',
};

/** `shared`: cache of equal fields, to save memory. */
export function messageFrom(row: MessageSeed, id: string, time: number, shared?: Map<string, Fields>): EmulatedMessage {
  const { messageId = id, createdAt = time, notBefore = createdAt, callerIP = '192.0.2.1', body, ...given } = row;
  const key = shared && JSON.stringify(given);
  const fields = (key !== undefined && shared?.get(key)) || fieldsFrom(given);
  if (key !== undefined) shared?.set(key, fields);
  return { fields, messageId, createdAt, notBefore, callerIP, body };
}

function fieldsFrom(given: Partial<Fields>): Fields {
  const labels = given.labels ?? (given.label === undefined ? [] : [given.label]);
  const [label] = labels;
  return { ...PLAIN, ...given, ...(label === undefined ? {} : { label, labels }) };
}

export function eventFrom(
  row: EventSeed,
  id: string,
  now: number,
  shared?: Map<string, Fields>,
): readonly [number, LoggedEvent] {
  const { time = now, state = 'created', responseStatus, error, nextDeliveryTime, ...rest } = row;
  return [time, { message: messageFrom(rest, id, time, shared), state, responseStatus, error, nextDeliveryTime }];
}

export function failedRunFrom(
  seed: FailedRunSeed,
  ids: { readonly messageId: string; readonly callbackId: string },
  time: number,
): FailedMessage {
  const { workflowRunId, workflowUrl, workflowCreatedAt, callbackState = 'CALLBACK_INPROGRESS', ...others } = seed;
  const {
    callbackRetries = 3,
    callbackStatus,
    nextDeliveryTime,
    enteredAt: _,
    responseStatus = 500,
    responseBody,
    ...row
  } = others;
  const message = messageFrom(row, ids.messageId, time);
  const { url } = message.fields;
  const callback = callbackState
    ? new FailureCallback({
        url: row.failureCallback ?? url,
        maxRetries: callbackRetries,
        messageId: ids.callbackId,
        state: callbackState,
      })
    : undefined;
  if (callback) {
    callback.responseStatus = callbackStatus;
    callback.nextDeliveryTime = nextDeliveryTime;
  }
  const run = {
    workflowRunId: workflowRunId ?? `wfr_${message.messageId.replace('msg_', '')}`,
    workflowUrl: workflowUrl ?? url,
    workflowCreatedAt: workflowCreatedAt ?? message.createdAt,
    callback,
  };
  const fields = callback ? { ...message.fields, failureCallback: callback.url } : message.fields;
  return { message: { ...message, fields }, responseStatus, responseBody, run };
}
