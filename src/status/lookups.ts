import pLimit, { type LimitFunction } from 'p-limit';
import type { z } from 'zod';
import { kindOf } from '../collectors/dlq/kinds.ts';
import type { CollectOptions } from '../collectors/index.ts';
import { createRoutes } from '../collectors/routes.ts';
import { type Clock, unlessAborted, withDeadline } from '../kit/clock.ts';
import { boundText } from '../kit/text.ts';
import { LookupLimitError } from '../lookup/limit.ts';
import { dlqList, eventList, type FilterName, type List, queryOf } from '../lookup/lists.ts';
import { messageJson, readMessage } from '../lookup/message.ts';
import { readNewest } from '../lookup/read.ts';
import type { DlqEntry } from '../model/message.ts';
import { FilterContradiction, isUnanswerable, type Reader } from '../upstream/api.ts';
import { MAX_PAUSE } from '../upstream/budget.ts';
import { type Reason, UpstreamError } from '../upstream/errors.ts';
import {
  type DlqLookup,
  type DlqLookupQuery,
  type EventLookup,
  type EventLookupQuery,
  type MessageLookup,
  timeOrAge,
} from './api/lookup.ts';
import { iso } from './values.ts';

/** Look-ups reject with RequestError, or with the reason of their client's signal. */
export type Lookups = ReturnType<typeof createLookups>;

type QueryOf<T extends z.ZodType> = Omit<z.output<T>, 'account'>;

/** A rejected or failed request. The message is one sentence without text from the service. */
export class RequestError extends Error {
  override readonly name = 'RequestError';
  readonly status: number;
  /** Value of the header `Retry-After` (s); undefined if unknown. */
  readonly retryAfter: number | undefined;

  /** `retryAfter`: time until another attempt may succeed (ms). */
  constructor(status: number, message: string, retryAfter?: number) {
    super(message);
    this.status = status;
    this.retryAfter = retryAfter === undefined ? undefined : Math.max(1, Math.ceil(retryAfter / 1000));
  }
}

/** Returns the reason with which a look-up is aborted when its client disconnects. */
export const clientClosed = () => new RequestError(503, 'the client has closed the connection');

const DEADLINE = 10_000;
const MAX_PAGES = 4;
/** Maximum number of events per message. */
const MAX_EVENTS = 1000;
/** Maximum number of look-ups per account that wait or run. */
const MAX_WAITING = 4;
const MAX_TEXT = 512;
const MAX_LABELS = 20;

const FAILURES: Readonly<Partial<Record<Reason, string>>> = {
  unauthorized: 'the service rejects the token',
  forbidden: 'the token has no permission for this request',
  rate_limited: 'the service limits the rate of requests',
  server: 'the service responds with an error',
  network: 'the service cannot be reached',
  timeout: 'the service does not respond in time',
  invalid_response: 'the service sent an invalid response',
};

function failureOf(error: unknown): unknown {
  if (error instanceof LookupLimitError) return new RequestError(429, error.message, error.retryAfter);
  if (error instanceof FilterContradiction) return new RequestError(502, error.message);
  if (isUnanswerable(error)) return new RequestError(502, 'the service does not support this request');
  if (error instanceof UpstreamError) {
    const wait = error.retryAfter === undefined ? undefined : Math.min(error.retryAfter, MAX_PAUSE);
    return new RequestError(503, FAILURES[error.reason] ?? error.message, wait);
  }
  if (error instanceof DOMException && error.name === 'TimeoutError') {
    return new RequestError(503, 'no result in time: the service is slow, or the request budget is short');
  }
  return error;
}

/** Converts undefined to null, and bounds the service's texts and lists, so that responses stay small. */
const toView = (found: object): unknown =>
  JSON.parse(
    JSON.stringify(found, (key, part) => {
      if (part === undefined) return null;
      if (typeof part === 'string') return boundText(part, MAX_TEXT);
      return key === 'labels' ? part.slice(0, MAX_LABELS) : part;
    }),
  );

function filtersOf(query: Readonly<Partial<Record<FilterName, string | undefined>>>, now: number) {
  const timeOf = (text: string | undefined) => (text === undefined ? undefined : timeOrAge(text, now));
  return queryOf({ ...query, since: timeOf(query.since), until: timeOf(query.until) });
}

interface LookupAccount {
  readonly reader: Reader;
  /** Patterns of `collect.routes`. */
  readonly patterns: CollectOptions['routes'];
}

interface LookupDeps {
  /** Undefined if the account is not open. */
  readonly accountOf: (name: string) => LookupAccount | undefined;
  readonly clock: Pick<Clock, 'now'>;
  /** Maximum duration of a look-up, excluding its time in the queue (ms). */
  readonly deadline?: number;
}

/** Runs the look-ups of each account sequentially. Aborts a look-up if its client disconnects, so that it delays no other. */
function createQueue() {
  const queues = new Map<string, { readonly serially: LimitFunction; waiting: number }>();

  return async <T>(account: string, client: AbortSignal, work: () => Promise<T>): Promise<T> => {
    const queue = queues.get(account) ?? { serially: pLimit(1), waiting: 0 };
    queues.set(account, queue);
    if (queue.waiting >= MAX_WAITING) throw new RequestError(429, 'too many look-ups of this account wait', 1000);
    queue.waiting += 1;
    const result = queue.serially(async () => {
      client.throwIfAborted();
      return work();
    });
    return unlessAborted(result, client).finally(() => {
      queue.waiting -= 1;
    });
  };
}

function kindIn(patterns: LookupAccount['patterns']): (entry: DlqEntry) => string {
  const routes = createRoutes(patterns);
  return entry => kindOf(entry, routes);
}

export function createLookups({ accountOf, clock, deadline = DEADLINE }: LookupDeps) {
  const run = createQueue();

  function lookUp<T>(
    account: string,
    client: AbortSignal,
    work: (open: LookupAccount, signal: AbortSignal) => Promise<object>,
  ): Promise<T> {
    return run(account, client, async () => {
      const open = accountOf(account);
      if (!open) throw new RequestError(503, 'the account is not open');
      const found = await withDeadline(deadline, client, signal => work(open, signal)).catch(error => {
        throw failureOf(error);
      });
      return toView({ now: iso(clock.now()), account, ...found }) as T;
    });
  }

  async function readRows<Row>(list: List<Row>, reader: Reader, limit: number, signal: AbortSignal) {
    const { rows, isProven, ...found } = await readNewest(list, reader, { limit, maxPages: MAX_PAGES, signal });
    return { ...found, proven: isProven, rows: rows.map(list.json) };
  }

  return {
    dlq: (account: string, { limit, ...filters }: QueryOf<typeof DlqLookupQuery>, client: AbortSignal) =>
      lookUp<DlqLookup>(account, client, ({ reader, patterns }, signal) => {
        const list = dlqList(filtersOf(filters, clock.now()), kindIn(patterns), filters);
        return readRows(list, reader, limit, signal);
      }),
    events: (account: string, { limit, ...filters }: QueryOf<typeof EventLookupQuery>, client: AbortSignal) =>
      lookUp<EventLookup>(account, client, ({ reader }, signal) =>
        readRows(eventList(filtersOf(filters, clock.now())), reader, limit, signal),
      ),
    message: (account: string, id: string, client: AbortSignal) =>
      lookUp<MessageLookup>(account, client, async ({ reader, patterns }, signal) => {
        const bounds = { limit: MAX_EVENTS, maxPages: MAX_PAGES };
        const message = await readMessage({ account, reader, bounds }, id, signal);
        if (!message)
          throw new RequestError(404, 'neither the event log nor the dead-letter queue contains the message');
        const { deadLetter, ...json } = messageJson(message);
        const kind = message.entry && kindIn(patterns)(message.entry);
        return { ...json, deadLetter: deadLetter && { ...deadLetter, kind } };
      }),
  };
}
