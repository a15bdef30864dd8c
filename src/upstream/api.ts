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

/** How many rows the next page of each list is asked for. Shrinks for good when the service's pages are too large to read. */
export interface PageSizes {
  dlq: number;
  events: number;
}

/** The most a page of each list may hold: limits of the interface. */
export function createPageSizes(): PageSizes {
  return { dlq: 100, events: 1000 };
}

/** Bytes of a body that are read, packed or unpacked. A page of 1,000 events with bodies is a few MiB. */
const LARGEST_BODY = 32 * 1024 * 1024;
/** Bytes that are read where asking for less is not possible: a page of one row, a list without pages. */
export const LARGEST_SINGLE = 128 * 1024 * 1024;

/** A page with this many times the rows that were asked for is no page. */
const TOLERATED = 10;
/** Keys in one list. Reading more would hold up everything else in the process for seconds. */
const MOST_KEYS = 1_000_000;

interface ReaderDeps {
  readonly sizes: PageSizes;
  readonly call: Call;
  readonly priority: Priority;
  /** Told how many rows of an answer had to be left out. */
  readonly onRejected: (endpoint: Endpoint, rows: number) => void;
}

export function createReader({ call, priority, sizes, onRejected }: ReaderDeps): Reader {
  async function get(
    endpoint: Endpoint,
    path: string,
    query: URLSearchParams,
    largest: number,
    signal: AbortSignal,
  ): Promise<unknown> {
    return (await call({ endpoint, method: 'GET', path, query, priority, largest, signal })).body;
  }

  /** One page, asked for again with half as many rows for as long as it is too large. */
  async function getPage(
    endpoint: keyof PageSizes,
    path: string,
    query: URLSearchParams,
    signal: AbortSignal,
  ): Promise<unknown> {
    for (;;) {
      const size = sizes[endpoint];
      query.set('count', String(size));
      try {
        return await get(endpoint, path, query, size > 1 ? LARGEST_BODY : LARGEST_SINGLE, signal);
      } catch (error) {
        if (!(error instanceof UpstreamError) || !error.tooLarge || size === 1) throw error;
        sizes[endpoint] = Math.min(sizes[endpoint], Math.floor(size / 2));
      }
    }
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
    endpoint: keyof PageSizes,
    path: string,
    list: string,
    query: Readonly<Record<string, string | number>>,
    toRow: (row: unknown) => Row | undefined,
    signal: AbortSignal,
  ): AsyncIterator<Page<Row>> {
    return paginate(`GET ${path}`, async (cursor): Promise<CursorPage<Row>> => {
      const parameters = new URLSearchParams();
      for (const [name, value] of Object.entries(query)) parameters.set(name, String(value));
      parameters.set('count', String(sizes[endpoint]));
      if (cursor !== undefined) parameters.set('cursor', cursor);
      const page = wire.toPage(await getPage(endpoint, path, parameters, signal), list);
      if (!page) throw new UpstreamError('invalid_response', `GET ${path}: no list called ${list}`);
      if (page.rows.length > sizes[endpoint] * TOLERATED) {
        throw new UpstreamError(
          'invalid_response',
          `GET ${path}: ${page.rows.length} rows where ${sizes[endpoint]} were asked for`,
        );
      }
      return { ...toRows(endpoint, page.rows, toRow), cursor: page.cursor };
    });
  }

  return {
    dlqPages: (query, signal) => pages('dlq', '/v2/dlq', 'messages', query, wire.toDlqEntry, signal),
    eventPages: (query, signal) => pages('events', '/v2/events', 'events', { ...query }, wire.toDeliveryEvent, signal),
    async flowControl(signal) {
      const path = '/v2/flowControl';
      const rows = wire.toFlowControlRows(
        await get('flow_control', path, new URLSearchParams(), LARGEST_SINGLE, signal),
      );
      if (!rows) throw new UpstreamError('invalid_response', `GET ${path}: no list of keys`);
      if (rows.length > MOST_KEYS) throw new UpstreamError('invalid_response', `GET ${path}: ${rows.length} keys`);
      return toRows('flow_control', rows, wire.toFlowControlEntry);
    },
  };
}
