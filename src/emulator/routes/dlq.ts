import type { RequestHandler } from 'express';
import { callerOf, dlqIdOf, fieldsOf, messageIdOf } from '../dead-letter.ts';
import type { DlqEntry } from '../message.ts';
import { page } from '../page.ts';
import { BadRequest, type Filters, matcher, pageRequest } from '../query.ts';
import { dlqRow } from '../rows.ts';
import type { EmulatorState } from '../state.ts';
import { parametersOf } from './request.ts';

const DEFAULTS = { count: 100, order: 'earliestFirst' } as const;

/** The last two are not documented; the official clients send them. */
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
};

function expand(name: string, values: readonly string[]): readonly string[] {
  if (name === 'responseStatus' && values.some(value => !/^\d{1,3}$/.test(value))) {
    throw new BadRequest('invalid responseStatus: it must be a status code');
  }
  return values;
}

/** The dead letters; their date is the time at which they entered the queue. */
export function listDlq(state: EmulatorState): RequestHandler {
  return (request, response) => {
    const parameters = parametersOf(request);
    const matches = matcher(parameters, FILTERS, expand);
    const { rows, cursor } = page(state.current().dlq, pageRequest(parameters, DEFAULTS), matches, dlqRow);
    response.json({ cursor, messages: rows });
  };
}
