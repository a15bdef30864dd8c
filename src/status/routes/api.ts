import { type NextFunction, type Request, type Response, Router } from 'express';
import pLimit from 'p-limit';
import { z } from 'zod';
import { REPORT_PATH } from '../../http/peer.ts';
import { whenOver } from '../../http/response-limiter.ts';
import { onlyAllow, READ } from '../../http/routes/methods.ts';
import { isSaneId } from '../../upstream/api.ts';
import { AutoCancelQuery } from '../api/auto-cancel.ts';
import { HistoryQuery } from '../api/history.ts';
import { DlqLookupQuery, EventLookupQuery, MessageLookupQuery } from '../api/lookup.ts';
import { OverviewQuery } from '../api/overview.ts';
import { RequestError } from '../lookups.ts';
import { readDocument } from '../page/runbooks.ts';
import type { Served } from '../served.ts';
import { INVALID_ID, noView, refuse, validQuery } from './query.ts';

const NO_QUERY = z.object({});

function sendError(error: unknown, _request: Request, response: Response, next: NextFunction): void {
  if (error instanceof URIError) refuse(response, 400, 'the path must be UTF-8, percent-encoded');
  else if (error instanceof RequestError) {
    if (error.retryAfter !== undefined) response.set('Retry-After', String(error.retryAfter));
    refuse(response, error.status, error.message);
  } else next(error);
}

function addLookups(router: Router, served: Served): void {
  function add<T extends z.ZodObject>(
    path: string,
    schema: T,
    find: (account: string, query: z.output<T>, client: AbortSignal, id: string) => Promise<object>,
  ): void {
    async function respond(request: Request<{ id?: string }>, response: Response): Promise<void> {
      response.set('Cache-Control', 'no-store');
      const query = validQuery(schema.strict(), request.query) as { readonly account?: string };
      const { id = '' } = request.params;
      if (path.endsWith(':id') && !isSaneId(id)) throw new RequestError(400, INVALID_ID);
      const [only, ...more] = served.accounts;
      const { account = more.length === 0 ? only : undefined, ...rest } = query;
      if (account === undefined) throw new RequestError(400, 'account is required, because several are configured');
      if (!served.accounts.includes(account)) throw noView(served, account);
      const gone = new AbortController();
      whenOver(request, response, () => gone.abort());
      response.json(await find(account, rest as z.output<T>, gone.signal, id));
    }
    router.route(path).get(respond).all(onlyAllow(READ));
  }

  add('/api/v1/dlq', DlqLookupQuery, (account, query, client) => served.lookups.dlq(account, query, client));
  add('/api/v1/events', EventLookupQuery, (account, query, client) => served.lookups.events(account, query, client));
  add('/api/v1/messages/:id', MessageLookupQuery, (account, _query, client, id) =>
    served.lookups.message(account, id, client),
  );
}

export function apiRoutes(served: Served): Router {
  // A response may have thousands of rows: concurrent responses would exhaust memory.
  const serially = pLimit(1);
  const router = Router();
  const isConfigured = (account: string) => served.accounts.includes(account);

  /** Adds a route that responds with the result of `find`, or with 404 or 503 if it returns undefined. */
  function add<T extends z.ZodObject>(path: string, schema: T, find: (query: z.output<T>, name: string) => unknown) {
    async function respond(request: Request<{ name: string }>, response: Response): Promise<void> {
      response.set('Cache-Control', 'no-store');
      // Unknown parameters are errors: otherwise, a misspelt one would be ignored and its default used silently.
      const query = validQuery(schema.strict(), request.query) as z.output<T>;
      await serially(async () => {
        if (response.destroyed) return;
        const found = await find(query, request.params.name);
        if (found === undefined) throw noView(served, request.params.name);
        response.json(found);
      });
    }
    router.route(path).get(respond).all(onlyAllow(READ));
  }

  add('/api/v1/overview', OverviewQuery, query => served.overview(query));
  add('/api/v1/accounts/:name', NO_QUERY, (_query, name) => (isConfigured(name) ? served.account(name) : undefined));
  add('/api/v1/accounts/:name/history', HistoryQuery, (query, name) =>
    isConfigured(name) ? served.history(name, query) : undefined,
  );
  add('/api/v1/auto-cancel', AutoCancelQuery, ({ account }) =>
    account === undefined || isConfigured(account) ? served.autoCancel(account) : undefined,
  );
  add(REPORT_PATH, NO_QUERY, () => served.report());
  add('/api/v1/agent', NO_QUERY, () => served.agent());
  add('/api/v1/openapi.json', NO_QUERY, () => JSON.parse(readDocument('openapi.json')));
  addLookups(router, served);
  return router.use(sendError);
}
