import type { Request } from 'express';
import { callerOf, dlqIdOf, fieldsOf, messageIdOf, runOf } from '../dead-letter.ts';
import type { DlqEntry } from '../message.ts';
import { type Page, page } from '../page.ts';
import { BadRequest, type Filters, matcher, pageRequest } from '../query.ts';
import { dlqRow } from '../rows.ts';
import type { EmulatorState } from '../state.ts';
import type { Endpoint } from './endpoint.ts';
import { parametersOf } from './request.ts';

const DEFAULTS = { count: 100, order: 'earliestFirst' } as const;

/** Dead letters without a workflow or, depending on the dialect, all of them; or those of failed workflow runs. */
export type Source = 'messages' | 'workflows';

const callbackStateOf = (entry: DlqEntry) => runOf(entry)?.callback?.state;

/** Those behind label are not in the interface document; the official clients send them. */
const FILTERS: Filters<DlqEntry> = {
  messageId: (entry, _, seq) => messageIdOf(entry, seq),
  url: entry => fieldsOf(entry).url,
  topicName: entry => fieldsOf(entry).topicName,
  scheduleId: entry => fieldsOf(entry).scheduleId,
  queueName: entry => fieldsOf(entry).queueName,
  api: entry => fieldsOf(entry).api,
  responseStatus: entry => String(entry.responseStatus),
  callerIp: callerOf,
  label: entry => fieldsOf(entry).labels,
  flowControlKey: entry => fieldsOf(entry).flowControlKey,
  dlqIds: (_, time, seq) => dlqIdOf({ time, seq }),
  workflowRunId: entry => runOf(entry)?.workflowRunId,
  workflowUrl: entry => runOf(entry)?.workflowUrl,
  workflowCreatedAt: entry => runOf(entry)?.workflowCreatedAt.toString(),
  failureFunctionState: callbackStateOf,
  failureCallbackState: callbackStateOf,
};

function expand(name: string, values: readonly string[]): readonly string[] {
  if (name === 'responseStatus' && values.some(value => !/^\d{1,3}$/.test(value))) {
    throw new BadRequest('invalid responseStatus: it must be a status code');
  }
  return values;
}

/** The dead letters that a request asks for; their date is the time at which they entered the queue. */
export function deadLettersOf(state: EmulatorState, request: Request, source: Source): Page<DlqEntry> {
  const parameters = parametersOf(request);
  const { dlq, workflows } = state.current();
  const isWorkflows = source === 'workflows' || parameters.get('source') === 'workflow';
  const messages = state.dialect.dlqWorkflows === 'included' ? [dlq, workflows] : [dlq];
  const asked = pageRequest(parameters, DEFAULTS, state.dialect);
  return page(isWorkflows ? [workflows] : messages, asked, matcher(parameters, FILTERS, expand));
}

export function listDlq(state: EmulatorState, source: Source): Endpoint['answer'] {
  return (request, response) => {
    const { callbackState, lastCursor } = state.dialect;
    const { rows, cursor = lastCursor === 'empty' ? '' : undefined } = deadLettersOf(state, request, source);
    response.json({ cursor, messages: rows.map(row => dlqRow(row.value, row, callbackState)) });
  };
}
