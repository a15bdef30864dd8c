import type { IncomingMessage } from 'node:http';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import { type NextFunction, type Request, type Response, Router } from 'express';
import { createSerially } from '../../kit/serially.ts';
import { OverviewQuery } from '../api/overview.ts';
import { accountPage } from '../page/account.ts';
import { agentPage } from '../page/agent.ts';
import { createAssets } from '../page/asset-files.ts';
import { autoCancelPage } from '../page/auto-cancel.ts';
import { type Html, html } from '../page/html.ts';
import { layout, type PageContext } from '../page/layout.ts';
import { overviewPage } from '../page/overview.ts';
import { readRunbook, runbookHtml } from '../page/runbooks.ts';
import type { Served } from '../served.ts';
import type { Lifecycle } from './lifecycle.ts';
import { onlyAllow, READ } from './methods.ts';

/** Scripts, styles and connections of the page's own origin alone. A chart's canvas is saved as a picture by `data:`. */
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

const PATHS = ['/', '/accounts/:name', '/auto-cancel', '/agent', '/runbooks/:name', '/assets/:hash/:name'];

const YEAR = 31_536_000;

const compress = promisify(gzip);

async function send(response: Response, page: Html, status = 200): Promise<void> {
  for (const [name, value] of Object.entries(HEADERS)) {
    // Those of the web configuration win.
    if (!response.hasHeader(name)) response.setHeader(name, value);
  }
  response.status(status).set({ 'Cache-Control': 'no-store', Vary: 'Accept-Encoding' }).type('html');
  // A page of a hundred accounts is fetched again whenever they change: a twentieth is left of it.
  if (response.req.acceptsEncodings('gzip') !== 'gzip') response.send(page.text);
  else response.set('Content-Encoding', 'gzip').send(await compress(page.text));
}

/** A page is no form to fill in right: what can't be understood of a query is left out. */
function queryOf(given: Request['query']): OverviewQuery {
  const { data, error } = OverviewQuery.safeParse(given);
  if (data) return data;
  const wrong = new Set(error.issues.map(({ path: [name] }) => name));
  return OverviewQuery.parse(Object.fromEntries(Object.entries(given).filter(([name]) => !wrong.has(name))));
}

const missing = (what: Html, context: PageContext) =>
  layout({
    title: 'Not found',
    context,
    nav: 'overview',
    body: html`<div class="verdict unknown"><h1>Not found</h1><p>${what}</p></div><p><a href="${context.root || './'}">All accounts</a></p>`,
  });

/** The pages, and what they are made of: `/`, `/accounts/NAME`, `/auto-cancel`, `/agent`, `/runbooks/NAME`, `/assets/HASH/FILE`. */
export function pageRoutes(served: Served, { isOn, callerOf }: Lifecycle): Router {
  const assets = createAssets();
  // A response may hold thousands of rows: concurrent ones would take all memory.
  const serially = createSerially();
  /** A page of a thousand rows, with all that it is made of, is some megabytes: a crowd of them must not be. */
  const inTurn =
    <P>(answer: (request: Request<P>, response: Response) => Promise<void>) =>
    (request: Request<P>, response: Response) =>
      serially(async () => {
        if (!response.destroyed) await answer(request, response);
      });
  const contextOf = (request: IncomingMessage, root: PageContext['root']): PageContext => ({
    root,
    assets: assets.folder(),
    version: served.version,
    now: served.clock.now(),
    lifecycle: isOn(),
    caller: callerOf(request),
    externalUrl: served.externalUrl,
    replica: served.replicas?.self.url,
    databaseAway: served.replicas?.awaySince(),
  });
  const noAccount = (request: IncomingMessage, response: Response) =>
    send(response, missing(html`No account of that name is configured.`, contextOf(request, '../')), 404);

  // With a slash at the end, relative links would be of another folder.
  return Router({ strict: true })
    .get(
      '/',
      inTurn(async (request, response) => {
        const query = queryOf(request.query);
        const view = await served.overview(query);
        await send(response, overviewPage(view, contextOf(request, ''), { query, faults: served.reloadFaults() }));
      }),
    )
    .get(
      '/accounts/:name',
      inTurn(async (request: Request<{ name: string }>, response) => {
        const { name } = request.params;
        // Nothing is read for a name that is not configured.
        const isConfigured = served.accounts.includes(name);
        if (isConfigured) await served.replicas?.refresh();
        const view = isConfigured ? served.account(name) : undefined;
        await (view ? send(response, accountPage(view, contextOf(request, '../'))) : noAccount(request, response));
      }),
    )
    .get(
      '/auto-cancel',
      inTurn(async (request, response) =>
        send(response, autoCancelPage(await served.autoCancel(undefined), contextOf(request, ''))),
      ),
    )
    .get(
      '/agent',
      inTurn(async (request, response) => send(response, agentPage(await served.agent(), contextOf(request, '')))),
    )
    .get('/runbooks/:name', (request, response) => {
      const { name } = request.params;
      const context = contextOf(request, '../');
      const text = readRunbook(name);
      if (text === undefined) return send(response, missing(html`There is no runbook of that name.`, context), 404);
      return send(response, layout({ title: name, context, nav: 'overview', body: runbookHtml(text) }));
    })
    .get('/assets/:hash/:name', (request, response) => {
      const { hash, name } = request.params;
      const asset = assets.find(name);
      if (!asset) {
        response.status(404).type('text').send('not found\n');
        return;
      }
      // The page of another replica, or of the version before, gets what there is, but must not keep it.
      const isSame = assets.folder() === `assets/${hash}/`;
      response.setHeader('Cache-Control', isSame ? `max-age=${YEAR}, immutable` : 'no-store');
      response.writeHead(200, { 'Content-Type': asset.type, 'Content-Length': asset.body.length });
      response.end(asset.body);
    })
    .all(PATHS, onlyAllow(READ))
    .use((error: unknown, request: Request, response: Response, next: NextFunction) => {
      // What can't be decoded names nothing.
      if (error instanceof URIError) return noAccount(request, response);
      next(error);
    });
}
