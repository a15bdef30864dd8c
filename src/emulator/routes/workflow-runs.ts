import { dlqIdOf, messageOf, runOf } from '../dead-letter.ts';
import type { DlqEntry } from '../message.ts';
import type { EmulatorState } from '../state.ts';
import type { Position } from '../timeline.ts';
import { deadLettersOf } from './dlq.ts';
import type { Endpoint } from './endpoint.ts';

/** The run of a dead letter as the workflow log has it: here alone one sees when a callback is tried next. */
function runRow(entry: DlqEntry, position: Position, isShown: boolean): object {
  const run = runOf(entry);
  const { callback } = run ?? {};
  return {
    workflowRunId: run?.workflowRunId,
    workflowUrl: run?.workflowUrl,
    workflowState: 'RUN_FAILED',
    workflowRunCreatedAt: run?.workflowCreatedAt,
    workflowRunCompletedAt: position.time,
    steps: [],
    dlqId: dlqIdOf(position),
    ...(callback &&
      isShown && {
        failureFunction: {
          messageId: callback.messageId,
          url: callback.url,
          state: callback.state,
          failStatus: entry.responseStatus,
          failResponse: '',
          maxRetries: callback.maxRetries,
          dlqId: dlqIdOf(position),
          responseStatus: callback.responseStatus,
          nextDeliveryTime: callback.nextDeliveryTime,
          headers: messageOf(entry, position).fields.header,
        },
      }),
  };
}

/** Failed workflow runs; runs that fare well are not emulated. */
export function listRuns(state: EmulatorState): Endpoint['answer'] {
  return (request, response) => {
    const isShown = state.dialect.callbackState !== 'absent';
    const { rows, cursor } = deadLettersOf(state, request, 'workflows');
    response.json({ cursor: cursor ?? '', runs: rows.map(row => runRow(row.value, row, isShown)) });
  };
}
