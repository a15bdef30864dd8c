import type { DeliveryEvent, DlqEntry, FlowControlEntry } from '../model/message.ts';
import type { Call, Endpoint, Priority } from './call.ts';
import { UpstreamError } from './errors.ts';
import { type CursorPage, type Page, paginate } from './paginate.ts';
import * as wire from './wire.ts';

/** The door of this room: what may be asked of the service. */
export type { Page } from './paginate.ts';

/** Query parameters that narrow the DLQ list. */
export const DLQ_FILTERS = [
  'messageId',
  'url',
  'topicName',
  'scheduleId',
  'queueName',
  'api',
  'fromDate',
  'toDate',
  'responseStatus',
  'callerIp',
  'label',
] as const;

export type DlqQuery = Readonly<Partial<Record<(typeof DLQ_FILTERS)[number], string | number>>>;

/** The event list between two times, milliseconds since the Unix epoch, both inclusive. */
export interface EventQuery {
  readonly fromDate: number;
  readonly toDate: number;
}

/** What may be read. Pages come one by one so that a caller folds and forgets them. All throw UpstreamError. */
export interface Reader {
  dlqPages(query: DlqQuery, signal: AbortSignal): AsyncIterator<Page<DlqEntry>>;
  eventPages(query: EventQuery, signal: AbortSignal): AsyncIterator<Page<DeliveryEvent>>;
  flowControl(signal: AbortSignal): Promise<Page<FlowControlEntry>>;
}

/** The most a page of each list may hold: limits of the interface. */
const DLQ_PAGE = 100;
const EVENT_PAGE = 1000;

interface ReaderDeps {
  readonly call: Call;
  readonly priority: Priority;
  /** Told how many rows of an answer had to be left out. */
  readonly onRejected: (endpoint: Endpoint, rows: number) => void;
}

export function createReader({ call, priority, onRejected }: ReaderDeps): Reader {
  async function get(endpoint: Endpoint, path: string, query: URLSearchParams, signal: AbortSignal): Promise<unknown> {
    return (await call({ endpoint, method: 'GET', path, query, priority, signal })).body;
  }

  function toRows<Row>(
    endpoint: Endpoint,
    raw: readonly unknown[],
    toRow: (row: unknown) => Row | undefined,
  ): Page<Row> {
    const rows = raw.map(toRow).filter(row => row !== undefined);
    const rejected = raw.length - rows.length;
    if (rejected > 0) onRejected(endpoint, rejected);
    return { rows, rejected };
  }

  function pages<Row>(
    endpoint: Endpoint,
    path: string,
    list: string,
    query: Readonly<Record<string, string | number>>,
    toRow: (row: unknown) => Row | undefined,
    signal: AbortSignal,
  ): AsyncIterator<Page<Row>> {
    return paginate(`GET ${path}`, async (cursor): Promise<CursorPage<Row>> => {
      const parameters = new URLSearchParams();
      for (const [name, value] of Object.entries(query)) parameters.set(name, String(value));
      if (cursor !== undefined) parameters.set('cursor', cursor);
      const page = wire.toPage(await get(endpoint, path, parameters, signal), list);
      if (!page) throw new UpstreamError('invalid_response', `GET ${path}: no list called ${list}`);
      return { ...toRows(endpoint, page.rows, toRow), cursor: page.cursor };
    });
  }

  return {
    dlqPages: (query, signal) =>
      pages('dlq', '/v2/dlq', 'messages', { ...query, count: DLQ_PAGE }, wire.toDlqEntry, signal),
    eventPages: (query, signal) =>
      pages('events', '/v2/events', 'events', { ...query, count: EVENT_PAGE }, wire.toDeliveryEvent, signal),
    async flowControl(signal) {
      const path = '/v2/flowControl';
      const rows = wire.toFlowControlRows(await get('flow_control', path, new URLSearchParams(), signal));
      if (!rows) throw new UpstreamError('invalid_response', `GET ${path}: no list of keys`);
      return toRows('flow_control', rows, wire.toFlowControlEntry);
    },
  };
}
