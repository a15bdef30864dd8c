import type { Clock } from '../kit/clock.ts';
import type { Counter } from '../kit/counter.ts';
import { createRedactor } from '../kit/redaction.ts';
import type { DeliveryEvent, DlqEntry, FlowControlEntry, ListedRow } from '../model/message.ts';
import type { AccountUsage, GlobalParallelism, ServiceQueue, ServiceSchedule, WorkflowRun } from '../model/service.ts';
import { inSlices, MAX_LIST_BYTES, MAX_PAGE_BYTES } from './body.ts';
import type { DlqQuery } from './dlq-filter.ts';
import { MAX_ERROR_TEXT, UpstreamError } from './errors.ts';
import type { AcceptList, AccountList } from './missing-lists.ts';
import { type CursorPage, type ListPage, type ListPath, listPath, paginate } from './paginate.ts';
import type { Call, Priority, Request } from './send.ts';
import * as wire from './wire.ts';
import {
  type RunQuery,
  runParameters,
  toGlobalParallelism,
  toServiceQueue,
  toServiceSchedule,
  toWorkflowRun,
} from './wire-service.ts';

export {
  createFilterProof,
  createReportedFields,
  DLQ_FILTERS,
  type DlqQuery,
  type Filterable,
  FilterContradiction,
  filterValueError,
  type ReportedFields,
} from './dlq-filter.ts';
export type { ListPage } from './paginate.ts';
/** Public entry point of this module: read access to the service. */
export type { Priority } from './send.ts';
export { isSaneId } from './send.ts';
export type { ServiceClock } from './service-clock.ts';
export type { RunQuery } from './wire-service.ts';
export type { Writer } from './writer.ts';

/** `source: workflow` lists only failed workflow runs. Few services support it, and some list those runs nowhere else. */
export type DlqListQuery = DlqQuery & { readonly source?: 'workflow'; readonly order?: Order };

/** Default: dead letters earliest first, events latest first. A service may ignore the order. */
type Order = 'earliestFirst' | 'latestFirst';

export interface EventQuery {
  /** `fromDate` and `toDate` are inclusive (ms since the Unix epoch). */
  readonly fromDate?: number;
  readonly toDate?: number;
  readonly messageId?: string;
  /** A documented state in upper case, or IN_PROGRESS for ACTIVE, RETRY and ERROR. */
  readonly state?: string;
  readonly url?: string;
  readonly topicName?: string;
  readonly scheduleId?: string;
  readonly queueName?: string;
  readonly order?: Order;
}

/** Optional fields of events: `detail` for message traces, `error` for look-ups. */
type EventExtra = 'detail' | 'error';

/** Read access to the service. Lists are read page by page to bound memory. Methods throw UpstreamError or the signal's reason. */
export interface Reader {
  dlqPages(query: DlqListQuery, signal: AbortSignal): AsyncGenerator<ListPage<DlqEntry>>;
  eventPages(query: EventQuery, signal: AbortSignal, extra?: EventExtra): AsyncGenerator<ListPage<DeliveryEvent>>;
  /** Passes each key to `take`. Returns the number of unreadable rows. */
  flowControl(signal: AbortSignal, take: (entry: FlowControlEntry) => void): Promise<number>;
  /** Returns one key. A 404 does not prove that the key is missing: the path or the region may be wrong. */
  flowControlKey(key: string, signal: AbortSignal): Promise<FlowControlEntry>;
  globalParallelism(signal: AbortSignal): Promise<GlobalParallelism>;
  /** `schedules` and `queues` pass each row to `take` and return the number of unreadable rows. */
  schedules(signal: AbortSignal, take: (schedule: ServiceSchedule) => void): Promise<number>;
  queues(signal: AbortSignal, take: (queue: ServiceQueue) => void): Promise<number>;
  /** A page has at most ten runs, and may be empty although another one follows. */
  runPages(query: RunQuery, signal: AbortSignal): AsyncGenerator<ListPage<WorkflowRun>>;
  /** Reads the account's record and usage. Throws UpstreamError `refused` if no management API is configured. */
  account(signal: AbortSignal): Promise<AccountUsage>;
}

/** Number of pages after which a reduced page size is doubled, so that a few large rows do not slow down the rest of a walk. */
const PAGES_TO_GROW = 16;

/** Page size that every service accepts; some reject larger ones. */
const SMALL_PAGE = 100;

const MAX_KEY_BYTES = 1024 * 1024;

/** Maximum number of rows in a page, as a multiple of the number requested. A page with more rows is invalid. */
const MAX_EXCESS = 10;

const wasRefused = (error: UpstreamError) => error.reason === 'refused' && error.status !== undefined;

/** Whether the service lacks the resource or does not support the request, as opposed to a temporary failure. */
export function isUnanswerable(error: unknown): boolean {
  return error instanceof UpstreamError && (error.reason === 'not_found' || wasRefused(error));
}

class PageSize {
  rows: number;
  /** The documented limit, or less if the service rejects it. */
  #max: number;
  /** Pages read since `rows` last changed. */
  #pages = 0;

  constructor(max: number) {
    this.rows = max;
    this.#max = max;
  }

  #set(rows: number): void {
    this.rows = rows;
    this.#pages = 0;
  }

  /**
   * Reads one page; returns it with the number of requested rows. If a page is too large, it is requested again with half the
   * rows. If the request is rejected, it is repeated with `SMALL_PAGE` rows.
   */
  async read(get: (rows: number) => Promise<unknown>): Promise<{ readonly body: unknown; readonly requested: number }> {
    let accepted = this.#max;
    for (let requested = this.rows; ; ) {
      try {
        const body = await get(requested);
        this.#max = Math.min(this.#max, accepted);
        if (this.rows > this.#max) this.#set(this.#max);
        if (requested === this.rows) this.#pages += 1;
        if (this.rows < this.#max && this.#pages >= PAGES_TO_GROW) this.#set(Math.min(this.rows * 2, this.#max));
        return { body, requested };
      } catch (error) {
        if (!(error instanceof UpstreamError)) throw error;
        if (error.tooLarge && requested > 1) {
          requested = Math.floor(requested / 2);
          // A concurrent read may have reduced `rows` further.
          this.#set(Math.min(this.rows, requested));
        } else if (wasRefused(error) && requested > SMALL_PAGE) {
          requested = SMALL_PAGE;
          accepted = SMALL_PAGE;
        } else throw error;
      }
    }
  }
}

/** Creates the page sizes of an account, which all its readers share. */
export const createPageSizes = () => ({
  dlq: new PageSize(100),
  events: new PageSize(1000),
  runs: new PageSize(10),
});

/** Counts unreadable rows (skipped), incomplete rows, and responses without a usable list (discarded). */
export type ListMeter = Readonly<Record<'rowsRejected' | 'listsMissing', Counter<'collector'>>>;

export interface ReadRound {
  readonly name: string;
  /** Maximum age of a cached response (ms). */
  readonly maxAge: number;
}

interface ReaderDeps {
  /** The times of rows are compared with this clock. */
  readonly clock: Pick<Clock, 'now'>;
  readonly sizes: ReturnType<typeof createPageSizes>;
  readonly call: Call;
  readonly priority: Priority;
  readonly events: ListPath;
  /** Contains `{flowControlKey}`. */
  readonly flowControlKeyPath: string;
  readonly meter: ListMeter;
  /** Secrets to redact from the service's error texts. */
  readonly secrets: () => readonly string[];
  /** Undefined outside rounds. */
  readonly round?: ReadRound | undefined;
  readonly acceptList: AcceptList;
  readonly account?: ((priority: Priority, signal: AbortSignal) => Promise<AccountUsage>) | undefined;
}

function eventMapper(extra: EventExtra | undefined, secrets: ReaderDeps['secrets']) {
  if (extra === undefined) return wire.toDeliveryEvent;
  const redact = extra === 'error' ? createRedactor(secrets(), MAX_ERROR_TEXT) : undefined;
  return (row: unknown, now: number) => wire.toDetailedEvent(row, now, redact);
}

export function createReader(deps: ReaderDeps): Reader {
  const { flowControlKeyPath } = deps;
  return {
    dlqPages: (query, signal) => pagesOf(deps, 'dlq', listPath('/v2/dlq'), 'messages', query, wire.toDlqEntry, signal),
    eventPages: (query, signal, extra) =>
      pagesOf(deps, 'events', deps.events, 'events', { ...query }, eventMapper(extra, deps.secrets), signal),
    flowControl: (signal, take) =>
      readUnpaged(deps, 'flow_control', '/v2/flowControl', wire.toFlowControlEntry, take, signal),
    async flowControlKey(key, signal) {
      const encoded = encodeURIComponent(key);
      if (/^\.{0,2}$/.test(encoded)) {
        throw new UpstreamError('refused', `a URL cannot contain the segment "${encoded}", even encoded`);
      }
      const path = flowControlKeyPath.replace('{flowControlKey}', () => encoded);
      const request = { endpoint: 'flow_control_key', template: flowControlKeyPath, largest: MAX_KEY_BYTES } as const;
      const body = await get(deps, { ...request, path, signal });
      const entry = wire.toFlowControlEntry(wire.withKey(body, key), deps.clock.now());
      if (!entry) throw new UpstreamError('invalid_response', `GET ${path}: the response is for another key`);
      if (entry.isIncomplete) deps.meter.rowsRejected.inc({ collector: 'flow_control' });
      return entry;
    },
    async globalParallelism(signal) {
      const path = '/v2/globalParallelism';
      const body = await get(deps, { endpoint: 'global_parallelism', path, largest: MAX_KEY_BYTES, signal });
      const found = toGlobalParallelism(body, deps.clock.now());
      if (!found) throw new UpstreamError('invalid_response', `GET ${path}: no readable numbers`);
      return found;
    },
    schedules(signal, take) {
      const redact = createRedactor(deps.secrets(), MAX_ERROR_TEXT);
      const toRow = (row: unknown, now: number) => toServiceSchedule(row, now, redact);
      return readUnpaged(deps, 'schedules', '/v2/schedules', toRow, take, signal);
    },
    queues: (signal, take) => readUnpaged(deps, 'queues', '/v2/queues', toServiceQueue, take, signal),
    runPages: (query, signal) =>
      pagesOf(deps, 'runs', listPath('/v2/workflows/logs'), 'runs', runParameters(query), toWorkflowRun, signal),
    async account(signal) {
      if (!deps.account) throw new UpstreamError('refused', 'management and paths.account are not configured');
      return deps.account(deps.priority, signal);
    },
  };
}

/** Field name of each list without pages, and a word for its rows. */
const UNPAGED = {
  flow_control: { list: 'flowControls', rows: 'keys' },
  schedules: { list: 'schedules', rows: 'schedules' },
  queues: { list: 'queues', rows: 'queues' },
} as const;

async function readUnpaged<Row extends ListedRow>(
  deps: ReaderDeps,
  endpoint: keyof typeof UNPAGED,
  path: string,
  toRow: (row: unknown, now: number) => Row | undefined,
  take: (row: Row) => void,
  signal: AbortSignal,
): Promise<number> {
  const { list, rows } = UNPAGED[endpoint];
  try {
    const page = wire.toUnpagedList(await get(deps, { endpoint, path, largest: MAX_LIST_BYTES, signal }), list);
    if (!page) throw new UpstreamError('invalid_response', `GET ${path}: no list of ${rows}`);
    return (await takeRows(deps, endpoint, { ...page, path, read: '' }, toRow, take)).rejected;
  } catch (error) {
    countMissing(deps, endpoint, error);
    throw error;
  }
}

type Get = Pick<Request, 'endpoint' | 'path' | 'largest' | 'signal'> & Partial<Pick<Request, 'template' | 'query'>>;

async function get({ call, priority, round }: ReaderDeps, request: Get): Promise<unknown> {
  const address = request.endpoint === 'flow_control_key' ? 'regional' : 'base';
  const defaults = { method: 'GET', template: request.path, query: new URLSearchParams() } as const;
  return (await call({ ...defaults, ...request, address, priority, maxAge: round?.maxAge })).body;
}

/**
 * Passes the readable rows of a page to `take`. Returns the numbers of unreadable and of incomplete rows. Throws if the response
 * contains no list although the service has returned the list before. `read`: see `AcceptList`.
 */
async function takeRows<Row extends ListedRow>(
  { clock, meter, acceptList }: ReaderDeps,
  list: AccountList,
  page: wire.RawPage & { readonly path: string; readonly read: string },
  toRow: (row: unknown, now: number) => Row | undefined,
  take: (row: Row) => void,
) {
  const now = clock.now();
  let [rejected, incomplete] = [0, 0];
  await inSlices(page.rows, each => {
    const row = toRow(each, now);
    rejected += row ? 0 : 1;
    incomplete += row?.isIncomplete ? 1 : 0;
    if (row) take(row);
  });
  if (rejected > 0 && rejected === page.rows.length) {
    throw new UpstreamError('invalid_response', `${list}: none of the ${rejected} rows of a page can be read`);
  }
  if (rejected + incomplete > 0) meter.rowsRejected.inc({ collector: list }, rejected + incomplete);
  if (acceptList(list, page.read, page.isMissing)) return { rejected, incomplete };
  throw new UpstreamError('invalid_response', `GET ${page.path}: no list, but earlier responses contained it`);
}

function countMissing({ meter }: ReaderDeps, list: AccountList, error: unknown): void {
  if (!(error instanceof UpstreamError) || error.reason !== 'invalid_response') return;
  meter.listsMissing.inc({ collector: list });
}

type Query = Readonly<Record<string, string | number>>;

/**
 * Returns the name of a read for `AcceptList`. A read with dates may be empty although the list is not, so its name includes the
 * name of its round.
 */
function readName({ fromDate, toDate, ...match }: Query, round = ''): string {
  const isDated = fromDate !== undefined || toDate !== undefined;
  return `${isDated ? round : ''} ${JSON.stringify(match)}`;
}

async function* pagesOf<Row extends ListedRow>(
  deps: ReaderDeps,
  endpoint: 'dlq' | 'events' | 'runs',
  place: ListPath,
  list: 'messages' | 'events' | 'runs',
  query: Query,
  toRow: (row: unknown, now: number) => Row | undefined,
  signal: AbortSignal,
): AsyncGenerator<ListPage<Row>> {
  const size = deps.sizes[endpoint];
  async function readPage(path: string, cursor: string | undefined): Promise<CursorPage<Row>> {
    const parameters = Object.entries({ ...query, count: size.rows, ...(cursor !== undefined && { cursor }) });
    const search = new URLSearchParams(parameters.map(([name, value]): [string, string] => [name, String(value)]));
    const { body, requested } = await size
      .read(rows => {
        search.set('count', String(rows));
        return get(deps, { endpoint, path, query: search, largest: MAX_PAGE_BYTES, signal });
      })
      .catch(error => {
        // Even a page of one row is too large: count that row as rejected.
        if (error instanceof UpstreamError && error.tooLarge) deps.meter.rowsRejected.inc({ collector: endpoint });
        throw error;
      });
    const page = wire.toPage(body, list);
    if (!page) throw new UpstreamError('invalid_response', `GET ${path}: no complete list of ${list}`);
    if (page.rows.length > requested * MAX_EXCESS) {
      const message = `GET ${path}: ${page.rows.length} rows, only ${requested} were requested`;
      throw new UpstreamError('invalid_response', message);
    }
    const rows: Row[] = [];
    const named = { ...page, path, read: readName(query, deps.round?.name) };
    const quality = await takeRows(deps, endpoint, named, toRow, row => rows.push(row));
    return { rows, ...quality, cursor: page.cursor };
  }
  // A cursor is valid only for the path that returned it.
  let found = place;
  const readFound = (cursor: string | undefined) =>
    found(async path => {
      const page = await readPage(path, cursor);
      found = listPath(path);
      return page;
    });
  try {
    yield* paginate(endpoint, readFound);
  } catch (error) {
    countMissing(deps, endpoint, error);
    throw error;
  }
}
