import type { Response } from 'express';
import { dlqIdOf, runOf } from '../dead-letter.ts';
import type { EmulatorState } from '../state.ts';
import type { Verdict } from '../workflows.ts';
import type { Endpoint } from './endpoint.ts';

/** The texts are those of the public documentation; what the service itself says is not known. */
const CANCEL_ERRORS = {
  refused: 'No in-progress failure callback to cancel, or callback information is invalid',
  unknown: 'Failure callback not found or message not found',
} as const;
const RETRY_ERRORS = {
  refused: "Workflow doesn't have a failed callback, callback is already in-progress, succeeded, or was canceled",
  unknown: CANCEL_ERRORS.unknown,
} as const;
const STATUS = { refused: 400, unknown: 404 } as const;

function refuse(response: Response, verdict: Exclude<Verdict, 'done'>, errors: Readonly<Record<string, string>>): void {
  response.status(STATUS[verdict]).json({ error: errors[verdict] });
}

/** Where a client that follows redirects on DELETE would delete a dead letter. */
function trapOf(state: EmulatorState, cancelled: string): string {
  const other = state.dlqRows().find(row => row.dlqId !== cancelled);
  return `/v2/dlq/${other?.dlqId ?? dlqIdOf({ time: 0, seq: 0 })}`;
}

/** Documented is 302 without a word about where to. */
export function cancelCallback(state: EmulatorState): Endpoint['answer'] {
  return (_request, response, dlqId) => {
    state.tally.countCancel(dlqId);
    const verdict = state.cancelCallback(dlqId);
    if (verdict !== 'done') return refuse(response, verdict, CANCEL_ERRORS);
    const { cancelAnswer } = state.dialect;
    if (cancelAnswer === '302-location') response.setHeader('Location', trapOf(state, dlqId));
    response.status(Number.parseInt(cancelAnswer, 10)).end();
  };
}

export function retryCallback(state: EmulatorState): Endpoint['answer'] {
  return (_request, response, dlqId) => {
    const verdict = state.retryCallback(dlqId);
    if (verdict !== 'done') return refuse(response, verdict, RETRY_ERRORS);
    const [entry] = state.findDlqEntry(dlqId) ?? [];
    const run = entry && runOf(entry);
    response.json({ workflowRunId: run?.workflowRunId, workflowCreatedAt: run?.workflowCreatedAt });
  };
}
