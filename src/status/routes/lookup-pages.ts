import type { Request, Response } from 'express';
import type { LimitFunction } from 'p-limit';
import { whenOver } from '../../http/response-limiter.ts';
import { isSaneId } from '../../upstream/api.ts';
import { DlqLookupQuery, EventLookupQuery } from '../api/lookup.ts';
import { INVALID_ID } from '../endpoints.ts';
import { clientClosed, RequestError } from '../lookups.ts';
import type { Html } from '../page/html.ts';
import type { PageContext } from '../page/layout.ts';
import { entriesPage, eventsPage, type LookupResult, messagePage, ROWS } from '../page/lookups.ts';
import type { Served } from '../served.ts';
import { validQuery } from './query.ts';

export type PathRequest = Request<{ name: string; hash: string; id: string }>;

interface Pages {
  add(path: string, handle: (request: PathRequest, response: Response) => unknown): void;
  contextOf(request: Request): PageContext;
  noAccount(request: PathRequest, response: Response): Promise<void>;
  send(response: Response, page: Html, status?: number): Promise<void>;
  readonly serially: LimitFunction;
}

const OWN = { account: true, limit: true } as const;
/** Unlike the API, pages ignore unknown parameters. */
const DLQ_FILTERS = DlqLookupQuery.omit(OWN);
const EVENT_FILTERS = EventLookupQuery.omit(OWN);

export function addLookupPages(pages: Pages, served: Served): void {
  /** Adds a page that renders the result or error of a look-up. */
  function add<T>(
    path: string,
    find: (request: PathRequest, client: AbortSignal) => Promise<T>,
    render: (shown: LookupResult<T>, request: PathRequest, context: PageContext) => Html,
  ): void {
    pages.add(`/accounts/:name/${path}`, async (request, response) => {
      const { name } = request.params;
      if (!served.views().accounts.includes(name)) return pages.noAccount(request, response);
      if (!served.views().account(name)) return pages.noAccount(request, response);
      // A look-up may take 10 s. It runs outside `serially`, so other pages do not wait for it.
      const gone = new AbortController();
      whenOver(request, response, () => gone.abort(clientClosed()));
      const found = await find(request, gone.signal).catch(error => {
        if (error instanceof RequestError) return error;
        throw error;
      });
      const { status, retryAfter } = found instanceof RequestError ? found : { status: 200 };
      if (retryAfter !== undefined) response.set('Retry-After', String(retryAfter));
      await pages.serially(async () => {
        if (response.destroyed) return;
        // The account may have been removed in the interim.
        const view = served.views().account(name);
        if (!view) return pages.noAccount(request, response);
        await pages.send(response, render({ found, view }, request, pages.contextOf(request)), status);
      });
    });
  }

  add(
    'dlq',
    async ({ params: { name }, query }, client) =>
      served.views().lookups.dlq(name, { ...validQuery(DLQ_FILTERS, query), limit: ROWS }, client),
    (shown, { query }, context) => entriesPage(shown, DLQ_FILTERS.safeParse(query).data ?? {}, context),
  );
  add(
    'events',
    async ({ params: { name }, query }, client) =>
      served.views().lookups.events(name, { ...validQuery(EVENT_FILTERS, query), limit: ROWS }, client),
    (shown, { query }, context) => eventsPage(shown, EVENT_FILTERS.safeParse(query).data ?? {}, context),
  );
  add(
    'messages/:id',
    async ({ params: { name, id } }, client) => {
      if (!isSaneId(id)) throw new RequestError(400, INVALID_ID);
      return served.views().lookups.message(name, id, client);
    },
    (shown, { params: { id } }, context) => messagePage(shown, id, context),
  );
}
