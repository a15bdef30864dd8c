import type { DeliveryEvent, DlqEntry, FlowControlEntry } from '../model/message.ts';
import { mapInSlices } from './body.ts';
import type { Call, Endpoint, Priority } from './call.ts';
import type { DlqQuery } from './dlq-filter.ts';
import { UpstreamError } from './errors.ts';
import {
  type CursorPage,
  eventsPath,
  type ListPage,
  type ListPath,
  listPath,
  type Page,
  paginate,
} from './paginate.ts';
import * as wire from './wire.ts';

/** Entry point of this module: all requests to the service. */
export type { Priority } from './call.ts';
export { isSaneId } from './call.ts';
export {
  createFilterProof,
  createReportedFields,
  DLQ_FILTERS,
  type DlqQuery,
  FilterContradiction,
  filterValueFault,
  type ReportedFields,
} from './dlq-filter.ts';
export type { ListPage } from './paginate.ts';
export type { Writer } from './writer.ts';

/** `source: workflow` asks for failed workflow runs alone; few services know it, and some list those nowhere else. */
export type DlqListQuery = DlqQuery & { readonly source?: 'workflow' };

export interface EventQuery {
  /** Milliseconds since the Unix epoch, both inclusive. */
  readonly fromDate?: number;
  readonly toDate?: number;
  readonly messageId?: string;
  /** One of the states of the interface in upper case, or IN_PROGRESS for ACTIVE, RETRY and ERROR. */
  readonly state?: string;
  readonly url?: string;
  readonly topicName?: string;
  readonly scheduleId?: string;
  readonly queueName?: string;
}

/** What may be read. Pages come one by one so that a caller folds and forgets them. All throw UpstreamError. */
export interface Reader {
  dlqPages(query: DlqListQuery, signal: AbortSignal): AsyncIterator<ListPage<DlqEntry>>;
  /** `isDetailed`: with what traces need of each event. */
  eventPages(query: EventQuery, signal: AbortSignal, isDetailed?: boolean): AsyncIterator<ListPage<DeliveryEvent>>;
  /** Passes each key to `take`. Returns the number of rows that could not be read. */
  flowControl(signal: AbortSignal, take: (entry: FlowControlEntry) => void): Promise<number>;
  /** One key; undefined when the service has none of that name, or does not show keys one by one. */
  flowControlKey(key: string, signal: AbortSignal): Promise<FlowControlEntry | undefined>;
}

/** Rows to request with the next page of a list. */
interface PageSize {
  rows: number;
  /** Maximum: the limit of the interface, or less if the service refuses it. */
  most: number;
  /** Pages read with this number of rows since it last changed. */
  pages: number;
}

export type PageSizes = Readonly<Record<'dlq' | 'events', PageSize>>;

const pageSize = (most: number): PageSize => ({ rows: most, most, pages: 0 });

export const createPageSizes = (): PageSizes => ({ dlq: pageSize(100), events: pageSize(1000) });

/** Pages after which twice as many rows are requested: a few large rows must not multiply the requests of a walk for good. */
const PAGES_TO_GROW = 16;

/** Some services allow no more rows than this in a page of any list. */
const SMALL_PAGE = 100;

/** Maximum size of a response body (bytes). A page of 1,000 events with bodies has a few MiB. */
export const LARGEST_BODY = 32 * 1024 * 1024;

/** Bytes of the answer for a single key. */
const LARGEST_KEY = 1024 * 1024;

/** A page with more than this multiple of the requested rows is invalid. */
const TOLERATED = 10;
interface ReaderDeps {
  readonly sizes: PageSizes;
  readonly call: Call;
  readonly priority: Priority;
  readonly eventsPath?: ListPath;
  /** Path of a single flow-control key, which stands in it as `{flowControlKey}`. */
  readonly flowControlKeyPath: string;
  /** Called with the number of rows of a list that were skipped. */
  readonly onRejected: (list: List, rows: number) => void;
  /** Called for an answer without a usable list: it is discarded. */
  readonly onMissing: (list: List) => void;
}

/** The lists there are, by the name of the collector that reads them. */
type List = Extract<Endpoint, 'dlq' | 'events' | 'flow_control'>;

/** Whether the service itself would not take a request as it was. */
const wasRefused = (error: UpstreamError) => error.reason === 'refused' && error.status !== undefined;

/** Whether the service has no such resource or does not support the request, as opposed to a temporary failure. */
export function isUnanswerable(error: unknown): boolean {
  return error instanceof UpstreamError && (error.reason === 'not_found' || wasRefused(error));
}

export function createReader(deps: ReaderDeps): Reader {
  const { call, priority, sizes, flowControlKeyPath, onRejected, onMissing } = deps;
  const events = deps.eventsPath ?? eventsPath('auto');

  async function get(
    endpoint: Endpoint,
    path: string,
    query: URLSearchParams,
    largest: number,
    signal: AbortSignal,
    template = path,
  ): Promise<unknown> {
    const address = endpoint === 'flow_control_key' ? 'regional' : 'base';
    return (await call({ endpoint, method: 'GET', address, path, template, query, priority, largest, signal })).body;
  }

  /**
   * Reads one page; returns it with the number of rows requested. A page that is too large is requested again with half as
   * many rows, down to one; a single row that is too large counts as unreadable. If the service refuses the request, the
   * number of rows may be the reason: it is requested again with as few as every service allows.
   */
  async function getPage(
    endpoint: keyof PageSizes,
    path: string,
    query: URLSearchParams,
    signal: AbortSignal,
  ): Promise<{ readonly body: unknown; readonly requested: number }> {
    const size = sizes[endpoint];
    const setRows = (rows: number) => Object.assign(size, { rows, pages: 0 });
    let accepted = size.most;
    for (let requested = size.rows; ; ) {
      query.set('count', String(requested));
      try {
        const body = await get(endpoint, path, query, LARGEST_BODY, signal);
        size.most = Math.min(size.most, accepted);
        if (size.rows > size.most) setRows(size.most);
        if (requested === size.rows) size.pages += 1;
        if (size.rows < size.most && size.pages >= PAGES_TO_GROW) setRows(Math.min(size.rows * 2, size.most));
        return { body, requested };
      } catch (error) {
        if (!(error instanceof UpstreamError)) throw error;
        if (error.tooLarge && requested > 1) {
          requested = Math.floor(requested / 2);
          // Another read may have requested even fewer in the interim.
          setRows(Math.min(size.rows, requested));
        } else if (wasRefused(error) && requested > SMALL_PAGE) {
          requested = SMALL_PAGE;
          accepted = SMALL_PAGE;
        } else {
          if (error.tooLarge) onRejected(endpoint, 1);
          throw error;
        }
      }
    }
  }

  async function toRows<Row>(
    list: List,
    { rows: raw }: wire.RawPage,
    toRow: (row: unknown) => Row | undefined,
  ): Promise<Page<Row>> {
    const rows = (await mapInSlices(raw, toRow)).filter(row => row !== undefined);
    const rejected = raw.length - rows.length;
    countRejected(list, rejected, rows.length);
    return { rows, rejected };
  }

  function countRejected(list: List, rejected: number, read: number): void {
    if (rejected > 0 && read === 0) {
      throw new UpstreamError('invalid_response', `${list}: none of the ${rejected} rows of a page can be read`);
    }
    if (rejected > 0) onRejected(list, rejected);
  }

  /** Reports a response that is not a list. Other errors say nothing about the list. */
  function noList(list: List, error: unknown): unknown {
    if (error instanceof UpstreamError && error.reason === 'invalid_response') onMissing(list);
    return error;
  }

  async function* tellingPages<Row>(list: List, pages: AsyncIterable<ListPage<Row>>): AsyncGenerator<ListPage<Row>> {
    try {
      yield* pages;
    } catch (error) {
      throw noList(list, error);
    }
  }

  function pages<Row>(
    endpoint: keyof PageSizes,
    place: ListPath,
    list: 'messages' | 'events',
    query: Readonly<Record<string, string | number>>,
    toRow: (row: unknown) => Row | undefined,
    signal: AbortSignal,
  ): AsyncIterator<ListPage<Row>> {
    async function readPage(path: string, cursor: string | undefined): Promise<CursorPage<Row>> {
      const parameters = new URLSearchParams();
      for (const [name, value] of Object.entries(query)) parameters.set(name, String(value));
      parameters.set('count', String(sizes[endpoint].rows));
      if (cursor !== undefined) parameters.set('cursor', cursor);
      const { body, requested } = await getPage(endpoint, path, parameters, signal);
      const page = wire.toPage(body, list);
      if (!page) throw new UpstreamError('invalid_response', `GET ${path}: no complete list of ${list}`);
      if (page.rows.length > requested * TOLERATED) {
        const message = `GET ${path}: ${page.rows.length} rows where ${requested} were requested`;
        throw new UpstreamError('invalid_response', message);
      }
      return { ...(await toRows(endpoint, page, toRow)), cursor: page.cursor };
    }
    // A cursor belongs to the path that gave it.
    let found = place;
    const readFound = (cursor: string | undefined) =>
      found.first(async path => {
        const page = await readPage(path, cursor);
        found = listPath(path);
        return page;
      });
    return tellingPages(endpoint, paginate(`GET ${place.latest}`, readFound));
  }

  return {
    dlqPages: (query, signal) => pages('dlq', listPath('/v2/dlq'), 'messages', query, wire.toDlqEntry, signal),
    eventPages(query, signal, isDetailed = false) {
      const toRow = isDetailed ? wire.toDetailedEvent : wire.toDeliveryEvent;
      return pages('events', events, 'events', { ...query }, toRow, signal);
    },
    async flowControl(signal, take) {
      const path = '/v2/flowControl';
      try {
        const body = await get('flow_control', path, new URLSearchParams(), LARGEST_BODY, signal);
        const page = wire.toFlowControlPage(body);
        if (!page) throw new UpstreamError('invalid_response', `GET ${path}: no list of keys`);
        let rejected = 0;
        await mapInSlices(page.rows, row => {
          const entry = wire.toFlowControlEntry(row);
          if (entry) take(entry);
          else rejected += 1;
        });
        countRejected('flow_control', rejected, page.rows.length - rejected);
        return rejected;
      } catch (error) {
        throw noList('flow_control', error);
      }
    },
    async flowControlKey(key, signal) {
      const encoded = encodeURIComponent(key.toWellFormed());
      // An address can't hold an empty segment, nor `.` and `..` however they are written.
      if (/^\.{0,2}$/.test(encoded)) return undefined;
      const path = flowControlKeyPath.replace('{flowControlKey}', () => encoded);
      try {
        const body = await get(
          'flow_control_key',
          path,
          new URLSearchParams(),
          LARGEST_KEY,
          signal,
          flowControlKeyPath,
        );
        const entry = wire.toFlowControlEntry(wire.withKey(body, key));
        if (entry) return entry;
        throw new UpstreamError('invalid_response', `GET ${path}: the response is for another key`);
      } catch (error) {
        // It is not there, or the service does not show keys one by one.
        if (isUnanswerable(error)) return undefined;
        throw error;
      }
    },
  };
}
