import { dlqIdOf, fieldsOf, runOf } from '../dead-letter.ts';
import { dlqRow } from '../rows.ts';
import type { EmulatorState } from '../state.ts';
import { deadLettersOf, type Source } from './dlq.ts';
import type { Endpoint } from './endpoint.ts';

const NOT_FOUND = { error: 'message not found in the dead-letter queue' } as const;

export function getEntry(state: EmulatorState): Endpoint['answer'] {
  return (_request, response, dlqId) => {
    const [entry, position] = state.findDlqEntry(dlqId) ?? [];
    if (entry && position) response.json(dlqRow(entry, position, state.dialect.callbackState));
    else response.status(404).json(NOT_FOUND);
  };
}

export function deleteEntry(state: EmulatorState): Endpoint['answer'] {
  return (_request, response, dlqId) => {
    if (state.removeDlqEntry(dlqId)) response.status(200).end();
    else response.status(404).json(NOT_FOUND);
  };
}

/** Deletes the page of dead letters that the filters give: without any filter, the first hundred of all. */
export function deleteEntries(state: EmulatorState, source: Source): Endpoint['answer'] {
  return (request, response) => {
    const { rows, cursor = '' } = deadLettersOf(state, request, source);
    for (const row of rows) state.removeDlqEntry(dlqIdOf(row));
    response.json({ cursor, deleted: rows.length });
  };
}

export function retryEntry(state: EmulatorState): Endpoint['answer'] {
  return (_request, response, dlqId) => {
    const place = state.findDlqEntry(dlqId);
    if (place) response.status(201).json({ messageId: state.republish(place), url: fieldsOf(place[0]).url });
    else response.status(404).json(NOT_FOUND);
  };
}

/** Publishes the page of dead letters that the filters give again. */
export function retryEntries(state: EmulatorState): Endpoint['answer'] {
  return (request, response) => {
    const { rows, cursor = '' } = deadLettersOf(state, request, 'messages');
    const responses = rows.map(row => ({
      messageId: state.republish([row.value, row]),
      url: fieldsOf(row.value).url,
    }));
    response.status(201).json({ cursor, responses });
  };
}

/** Starts the runs of the page of failed workflow runs that the filters give again; all we do is to take them away. */
export function restartRuns(state: EmulatorState): Endpoint['answer'] {
  return (request, response) => {
    const { rows, cursor = '' } = deadLettersOf(state, request, 'workflows');
    const workflowRuns = rows.map(row => {
      state.removeDlqEntry(dlqIdOf(row));
      return { workflowRunId: runOf(row.value)?.workflowRunId, workflowCreatedAt: state.current().now };
    });
    response.json({ cursor, workflowRuns });
  };
}
