import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { type NextFunction, type Request, type Response, Router } from 'express';
import pLimit, { type LimitFunction } from 'p-limit';
import { whenOver } from '../../http/response-limiter.ts';
import { onlyAllow, READ } from '../../http/routes/methods.ts';
import { isSaneId } from '../../upstream/api.ts';
import { DlqLookupQuery, EventLookupQuery } from '../api/lookup.ts';
import { OverviewQuery } from '../api/overview.ts';
import { INVALID_ID, noView } from '../endpoints.ts';
import { clientClosed, RequestError } from '../lookups.ts';
import { accountPage } from '../page/account.ts';
import { readAssets } from '../page/asset-files.ts';
import { autoCancelPage } from '../page/auto-cancel.ts';
import { type Html, html } from '../page/html.ts';
import { layout, type PageContext } from '../page/layout.ts';
import { entriesPage, eventsPage, type LookupResult, messagePage, ROWS } from '../page/lookups.ts';
import { overviewPage } from '../page/overview.ts';
import { readRunbook, runbookHtml } from '../page/runbooks.ts';
import { capital } from '../page/tile.ts';
import type { Served } from '../served.ts';
import { validQuery } from './query.ts';

type PathRequest = Request<{ name: string; hash: string; id: string }>;

/** Content security policy: allows only the page's own origin. Saving a chart as a picture needs `data:`. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "form-action 'self'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join('; ');

const HEADERS: Readonly<Record<string, string>> = {
  'Content-Security-Policy': POLICY,
  'Referrer-Policy': 'no-referrer',
  'X-Frame-Options': 'DENY',
};

const YEAR = 31_536_000;

const compress = promisify(gzip);

async function send(response: Response, page: Html, status = 200): Promise<void> {
  response
    .status(status)
    .set({ ...HEADERS, 'Cache-Control': 'no-store', Vary: 'Accept-Encoding' })
    .type('html');
  // Browsers request the page every 15 s. Compression shrinks a page with a hundred accounts to a twentieth of its size.
  if (response.req.acceptsEncodings('gzip') !== 'gzip') response.send(page.text);
  else response.set('Content-Encoding', 'gzip').send(await compress(page.text));
}

/** Returns the valid parameters of a query. Pages ignore invalid ones. */
function queryOf(given: Request['query']): OverviewQuery {
  const { data, error } = OverviewQuery.safeParse(given);
  if (data) return data;
  const wrong = new Set(error.issues.map(({ path: [name] }) => name));
  return OverviewQuery.parse(Object.fromEntries(Object.entries(given).filter(([name]) => !wrong.has(name))));
}

const rootOf = ({ path }: Request) => '../'.repeat(path.split('/').length - 2);

const missing = (title: string, what: string, context: PageContext) =>
  layout({
    title,
    context,
    nav: 'overview',
    body: html`<div class="verdict unknown"><h1>${title}</h1><p>${what}.</p></div><p><a href="${context.root || './'}">All accounts</a></p>`,
  });

interface Pages {
  add(path: string, handle: (request: PathRequest, response: Response) => unknown): void;
  contextOf(request: Request): PageContext;
  noAccount(request: PathRequest, response: Response): Promise<void>;
  readonly serially: LimitFunction;
}

const OWN = { account: true, limit: true } as const;
/** Unlike the API, pages ignore unknown parameters. */
const DLQ_FILTERS = DlqLookupQuery.omit(OWN);
const EVENT_FILTERS = EventLookupQuery.omit(OWN);

function addLookupPages(pages: Pages, served: Served): void {
  /** Adds a page that renders the result or error of a look-up. */
  function add<T>(
    path: string,
    find: (request: PathRequest, client: AbortSignal) => Promise<T>,
    render: (shown: LookupResult<T>, request: PathRequest, context: PageContext) => Html,
  ): void {
    pages.add(`/accounts/:name/${path}`, async (request, response) => {
      const { name } = request.params;
      const { accounts, account } = served.views();
      if (!accounts.includes(name) || !account(name)) return pages.noAccount(request, response);
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
        await send(response, render({ found, view }, request, pages.contextOf(request)), status);
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

export function pageRoutes(served: Served): Router {
  const assets = readAssets();
  // A response may have thousands of rows: concurrent responses would exhaust memory.
  const serially = pLimit(1);
  // A trailing slash would change the base of relative links.
  const router = Router({ strict: true });
  const contextOf = (request: Request): PageContext => ({
    root: rootOf(request),
    assets: assets.folder,
    version: served.version,
    now: served.clock.now(),
    databaseAway: served.group?.unavailableSince(),
  });

  function add(path: string, handle: (request: PathRequest, response: Response) => unknown) {
    router.route(path).get(handle).all(onlyAllow(READ));
  }

  /** Adds a page. `make` returns undefined for an unknown name. */
  function addPage(
    path: string,
    make: (context: PageContext, request: PathRequest) => Promise<Html | undefined>,
  ): void {
    add(path, (request, response) =>
      serially(async () => {
        if (response.destroyed) return;
        const page = await make(contextOf(request), request);
        await (page ? send(response, page) : noAccount(request, response));
      }),
    );
  }

  function noAccount(request: PathRequest, response: Response): Promise<void> {
    const { status, message, retryAfter } = noView(served.views(), request.params.name);
    if (retryAfter !== undefined) response.set('Retry-After', String(retryAfter));
    const title = status === 404 ? 'Not found' : 'Not available';
    return send(response, missing(title, capital(message), contextOf(request)), status);
  }

  addPage('/', async (context, request) => {
    const query = queryOf(request.query);
    return overviewPage(await served.views().overview(query), query, served.reloadErrors(), context);
  });
  addPage('/accounts/:name', async (context, { params: { name } }) => {
    if (!served.views().accounts.includes(name)) return undefined;
    const view = served.views().account(name);
    return view && accountPage(view, context);
  });
  addPage('/auto-cancel', async context => autoCancelPage(await served.views().autoCancel(undefined), context));
  addLookupPages({ add, contextOf, noAccount, serially }, served);
  add('/runbooks/:name', (request, response) => {
    const { name } = request.params;
    const context = contextOf(request);
    const text = readRunbook(name);
    if (text === undefined)
      return send(response, missing('Not found', 'There is no runbook with that name', context), 404);
    return send(response, layout({ title: name, context, nav: 'overview', body: runbookHtml(text) }));
  });
  add('/assets/:hash/:name', (request, response) => {
    const { hash, name } = request.params;
    const asset = assets.files.get(name);
    if (!asset) return response.status(404).type('text').send('not found\n');
    // Pages of another version also get this file. Browsers must not cache it under a URL with the hash of that version.
    const isSame = assets.folder === `assets/${hash}/`;
    response.setHeader('Cache-Control', isSame ? `max-age=${YEAR}, immutable` : 'no-store');
    response.writeHead(200, { 'Content-Type': asset.type, 'Content-Length': asset.body.length });
    response.end(asset.body);
  });
  return router.use((error: unknown, request: Request, response: Response, next: NextFunction) => {
    // No account has a name that cannot be decoded.
    if (error instanceof URIError) return noAccount(request as PathRequest, response);
    next(error);
  });
}
