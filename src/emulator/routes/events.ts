import { LOG_STATES, type LoggedEvent, type LogState } from '../message.ts';
import { BadRequest, type Filters, matcher, page, pageRequest, parametersOf } from '../paging.ts';
import { eventRow } from '../rows.ts';
import type { Handler } from './endpoint.ts';

/** The filters after `queueName` are undocumented, but official clients send them. */
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

/** Additional state names that a filter accepts. */
const STATE_NAMES: Readonly<Record<string, readonly LogState[]>> = {
  ...Object.fromEntries(LOG_STATES.map(state => [state.toUpperCase(), [state]])),
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

/** Lists visible events. `list`: name of the list and end of its path. */
export const listEvents =
  (list: 'events' | 'logs'): Handler =>
  (state, request, response) => {
    const { dialect, logView } = state;
    if (dialect.eventPaths !== 'both' && dialect.eventPaths !== list) {
      response.status(404).json({ error: `not found: ${request.path}` });
      return;
    }
    const parameters = parametersOf(request);
    const defaults = { count: dialect.eventsMost, order: 'latestFirst' } as const;
    const { count, range } = pageRequest(parameters, defaults, dialect);
    const { log, now } = state.current();
    const asked = { count, range: { ...range, to: Math.min(range.to, logView.until(now)) } };
    const matches = matcher(parameters, FILTERS, dialect, expand);
    const unlisted = logView.unlisted(now);
    const found = page(
      [log],
      asked,
      unlisted ? (event, time, seq) => !unlisted(event, time) && (!matches || matches(event, time, seq)) : matches,
      { copies: logView.copies, repeats: dialect.cursorSeam === 'repeats' },
    );
    const rows = found.rows.map(({ value, time }) => eventRow(value, time, dialect));
    const cursor = found.cursor ?? (dialect.lastCursor === 'empty' ? '' : undefined);
    response.json({ cursor, [list]: rows });
  };
