import type { Request, RequestHandler, Response } from 'express';
import { dlqIdOf } from '../message.ts';
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
    if (dlqId !== undefined) response.locals.cancelCall = state.tally.recordCancel(state.current().now, dlqId);
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
