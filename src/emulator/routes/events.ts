import type { RequestHandler } from 'express';
import { type EventState, type LoggedEvent, STATES } from '../message.ts';
import { page } from '../page.ts';
import { BadRequest, type Filters, matcher, pageRequest } from '../query.ts';
import { eventRow } from '../rows.ts';
import type { EmulatorState } from '../state.ts';
import { parametersOf } from './request.ts';

const DEFAULTS = { count: 1000, order: 'latestFirst' } as const;

/** Those behind queueName are not documented; the official clients send them. */
const FILTERS: Filters<LoggedEvent> = {
  messageId: event => event.message.messageId,
  state: event => event.state,
  url: event => event.message.fields.url,
  topicName: event => event.message.fields.topicName,
  scheduleId: event => event.message.fields.scheduleId,
  queueName: event => event.message.fields.queueName,
  messageIds: event => event.message.messageId,
  label: event => event.message.fields.labels,
  callerIp: event => event.message.callerIP,
  flowControlKey: event => event.message.fields.flowControlKey,
  host: event => URL.parse(event.message.fields.url)?.host,
  path: event => URL.parse(event.message.fields.url)?.pathname,
};

/** Names a filter may use beside those of the states themselves. */
const STATE_NAMES: Readonly<Record<string, readonly EventState[]>> = {
  ...Object.fromEntries(STATES.map(state => [state.toUpperCase(), [state]])),
  IN_PROGRESS: ['active', 'retry', 'error'],
  CANCELED: ['cancelled'],
};

function expand(name: string, values: readonly string[]): readonly string[] {
  if (name !== 'state') return values;
  return values.flatMap(value => {
    const named = STATE_NAMES[value.toUpperCase()];
    if (!named) throw new BadRequest(`invalid state: it must be one of ${Object.keys(STATE_NAMES).join(', ')}`);
    return named;
  });
}

/** The event log; `name` is that of the list in the answer. */
export function listEvents(state: EmulatorState, name: 'events' | 'logs'): RequestHandler {
  return (request, response) => {
    const parameters = parametersOf(request);
    const matches = matcher(parameters, FILTERS, expand);
    const { rows, cursor } = page(state.current().log, pageRequest(parameters, DEFAULTS), matches, eventRow);
    response.json({ cursor, [name]: rows });
  };
}
