import type { Request, RequestHandler, Response } from 'express';
import { dlqIdOf, dlqRow, type FailedMessage } from '../message.ts';
import { BadRequest, type Filters, matcher, page, pageRequest, parametersOf, type RowPage } from '../paging.ts';
import type { CancelCall, CancelResult, EmulatorState } from '../state.ts';
import type { Handler } from './endpoint.ts';

/** Error messages from the public documentation. The service's actual texts are unknown. */
const CANCEL_ERRORS = {
  refused: 'No in-progress failure callback to cancel, or callback information is invalid',
  unknown: 'Failure callback not found or message not found',
} as const;
const RETRY_ERRORS = {
  refused: "Workflow doesn't have a failed callback, callback is already in-progress, succeeded, or was canceled",
  unknown: CANCEL_ERRORS.unknown,
} as const;
const STATUS = { refused: 400, unknown: 404 } as const;

function refuse(
  response: Response,
  verdict: Exclude<CancelResult, 'done'>,
  errors: Readonly<Record<string, string>>,
): void {
  response.status(STATUS[verdict]).json({ error: errors[verdict] });
}

/** Returns the path of another dead letter. A client that repeats the DELETE at the redirect's target would delete it. */
function trapOf(state: EmulatorState, cancelled: string): string {
  const other = state.dlqRows().find(row => row.dlqId !== cancelled);
  return `/v2/dlq/${other?.dlqId ?? dlqIdOf({ time: 0, seq: 0 })}`;
}

/** Returns the URL of this server under another host name, which clients treat as another origin. */
function elsewhere({ hostname, socket }: Request): string {
  return `http://${hostname === 'localhost' ? '127.0.0.1' : 'localhost'}:${socket.localPort}`;
}

function locationOf(state: EmulatorState, request: Request, dlqId: string): string | undefined {
  const { cancelAnswer } = state.dialect;
  if (cancelAnswer === '302-location') return trapOf(state, dlqId);
  if (cancelAnswer === '302-self') return request.originalUrl;
  if (cancelAnswer === '302-foreign') return elsewhere(request) + trapOf(state, dlqId);
  return undefined;
}

const CANCEL = /^\/v2\/workflows\/dlq\/callback\/([^/]+)$/;

/** Records all cancel requests, including rejected ones. */
export function recordCancels(state: EmulatorState): RequestHandler {
  return (request, response, next) => {
    const [, dlqId] = (request.method === 'DELETE' && CANCEL.exec(request.path)) || [];
    if (dlqId !== undefined) response.locals.cancelCall = state.recordCancel(state.current().now, dlqId);
    next();
  };
}

/** Cancels a failure callback. The documentation specifies status 302, without a Location header. */
export const cancelCallback: Handler = (state, request, response, dlqId) => {
  const { cancelAnswer } = state.dialect;
  // Emulates the documented error for invalid callback information.
  const isInvalid = cancelAnswer === '400' && state.findDlqEntry(dlqId) !== undefined;
  const verdict = isInvalid ? 'refused' : state.cancelCallback(dlqId);
  (response.locals.cancelCall as CancelCall).verdict = verdict;
  if (verdict !== 'done') return refuse(response, verdict, CANCEL_ERRORS);
  const location = locationOf(state, request, dlqId);
  if (location !== undefined) response.setHeader('Location', location);
  response.status(Number.parseInt(cancelAnswer, 10)).end();
};

export const retryCallback: Handler = (state, _request, response, dlqId) => {
  const verdict = state.retryCallback(dlqId);
  if (verdict !== 'done') return refuse(response, verdict, RETRY_ERRORS);
  const [entry] = state.findDlqEntry(dlqId) ?? [];
  const run = entry?.run;
  response.json({ workflowRunId: run?.workflowRunId, workflowCreatedAt: run?.workflowCreatedAt });
};

const DEFAULTS = { count: 100, order: 'earliestFirst' } as const;

/** `messages`: dead letters without a workflow or, in some dialects, all dead letters. `workflows`: failed workflow runs. */
type Source = 'messages' | 'workflows';

const callbackStateOf = (entry: FailedMessage) => entry.run?.callback?.state;

/** The filters after `label` are undocumented, but official clients send them. */
const FILTERS: Filters<FailedMessage> = {
  messageId: ({ message }) => message.messageId,
  url: ({ message }) => message.fields.url,
  topicName: ({ message }) => message.fields.topicName,
  scheduleId: ({ message }) => message.fields.scheduleId,
  queueName: ({ message }) => message.fields.queueName,
  api: ({ message }) => message.fields.api,
  responseStatus: entry => String(entry.responseStatus),
  callerIp: ({ message }) => message.callerIP,
  label: ({ message }) => message.fields.labels,
  flowControlKey: ({ message }) => message.fields.flowControlKey,
  dlqIds: (_, time, seq) => dlqIdOf({ time, seq }),
  workflowRunId: entry => entry.run?.workflowRunId,
  workflowUrl: entry => entry.run?.workflowUrl,
  workflowCreatedAt: entry => entry.run?.workflowCreatedAt.toString(),
  failureFunctionState: callbackStateOf,
  failureCallbackState: callbackStateOf,
};

function expand(name: string, values: readonly string[]): readonly string[] {
  if (name === 'responseStatus' && values.some(value => !/^\d{1,3}$/.test(value))) {
    throw new BadRequest('invalid responseStatus: it must be a status code');
  }
  return values;
}

/** Returns the requested dead letters. Date filters compare the time of entry. */
function deadLettersOf(state: EmulatorState, request: Request, source: Source): RowPage<FailedMessage> {
  const parameters = parametersOf(request);
  const { dlq, workflows } = state.current();
  const isWorkflows = source === 'workflows' || parameters.get('source') === 'workflow';
  const messages = state.dialect.dlqWorkflows === 'included' ? [dlq, workflows] : [dlq];
  const asked = pageRequest(parameters, DEFAULTS, state.dialect);
  return page(isWorkflows ? [workflows] : messages, asked, matcher(parameters, FILTERS, state.dialect, expand));
}

export const listDlq =
  (source: Source): Handler =>
  (state, request, response) => {
    const { callbackState, lastCursor } = state.dialect;
    const { rows, cursor = lastCursor === 'empty' ? '' : undefined } = deadLettersOf(state, request, source);
    response.json({ cursor, messages: rows.map(row => dlqRow(row.value, row, callbackState)) });
  };

const NOT_FOUND = { error: 'message not found in the dead-letter queue' } as const;

export const getEntry: Handler = (state, _request, response, dlqId) => {
  const [entry, position] = state.findDlqEntry(dlqId) ?? [];
  if (entry && position) response.json(dlqRow(entry, position, state.dialect.callbackState));
  else response.status(404).json(NOT_FOUND);
};

export const deleteEntry: Handler = (state, _request, response, dlqId) => {
  if (state.removeDlqEntry(dlqId)) response.status(200).end();
  else response.status(404).json(NOT_FOUND);
};

/** Deletes one page of the dead letters that match the filters. Without filters, all dead letters match. */
export const deleteEntries =
  (source: Source): Handler =>
  (state, request, response) => {
    const { rows, cursor = '' } = deadLettersOf(state, request, source);
    for (const row of rows) state.removeDlqEntry(dlqIdOf(row));
    response.json({ cursor, deleted: rows.length });
  };

export const retryEntries: Handler = (state, request, response) => {
  const { rows, cursor = '' } = deadLettersOf(state, request, 'messages');
  const responses = rows.map(row => ({
    messageId: state.republish([row.value, row]),
    url: row.value.message.fields.url,
  }));
  response.status(201).json({ cursor, responses });
};

/** Removes the dead letters of a page. Restarted runs are not emulated. */
export const restartRuns: Handler = (state, request, response) => {
  const { rows, cursor = '' } = deadLettersOf(state, request, 'workflows');
  const workflowRuns = rows.map(row => {
    state.removeDlqEntry(dlqIdOf(row));
    return { workflowRunId: row.value.run?.workflowRunId, workflowCreatedAt: state.current().now };
  });
  response.json({ cursor, workflowRuns });
};
