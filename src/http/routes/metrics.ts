import { setImmediate } from 'node:timers/promises';
import { type Request, type Response, Router } from 'express';
import type { Clock } from '../../kit/clock.ts';
import type { Format, Scope } from '../../model/exposition.ts';
import { FORWARDED } from '../peer.ts';
import type { ResponseLimiter } from '../response-limiter.ts';
import type { HttpServed, ServedReplicas } from '../served.ts';
import { onlyAllow, READ } from './methods.ts';

/** Returns the format of an element of an Accept header; undefined if it is none of ours. */
function formatOf(type: string, parameters: ReadonlyMap<string, string>): Format | undefined {
  const version = parameters.get('version');
  if (type === 'application/openmetrics-text' && (version ?? '1.0.0') === '1.0.0') return 'openmetrics';
  if (type === 'text/plain' && (version ?? '0.0.4') === '0.0.4') return 'text';
  if (type === '*/*' || type === 'text/*') return 'text';
  return undefined;
}

/** Returns the accepted format with the highest weight (on a tie, the first). Default: text, which every scraper reads. */
export function negotiateFormat(accept: string | undefined): Format {
  let best: { format: Format; weight: number } | undefined;
  for (const element of (accept ?? '').split(',')) {
    const [type = '', ...rest] = element.split(';').map(part => part.trim());
    const parameters = new Map(
      rest.map(parameter => {
        const [name = '', value = ''] = parameter.replaceAll('"', '').split('=', 2);
        return [name.toLowerCase(), value];
      }),
    );
    const weight = parameters.has('q') ? Number(parameters.get('q')) : 1;
    const format = formatOf(type.toLowerCase(), parameters);
    if (format && weight > (best?.weight ?? 0)) best = { format, weight };
  }
  return best?.format ?? 'text';
}

/** Minimum time between starts of the same work while `isCrowded` (ms). */
const SPACING = 250;

/**
 * Shares one run of `work` between calls with the same key. A run starts after its calls arrive, so results are fresh. While
 * `isCrowded`, starts at most four runs per second for each key.
 */
function createSingleFlight<T>(isCrowded: () => boolean, clock: Clock) {
  const waiting = new Map<string, Promise<T>>();
  const working = new Map<string, Promise<unknown>>();
  const begun = new Map<string, number>();

  async function start(key: string, work: () => Promise<T>): Promise<T> {
    // Also serve requests that have arrived on other connections.
    await setImmediate();
    await working.get(key);
    const wait = (begun.get(key) ?? Number.NEGATIVE_INFINITY) + SPACING - clock.monotonic();
    if (wait > 0 && isCrowded()) await clock.sleep(wait);
    waiting.delete(key);
    begun.set(key, clock.monotonic());
    const body = work();
    const over = () => working.delete(key);
    working.set(key, body.then(over, over));
    return body;
  }

  return (key: string, work: () => Promise<T>): Promise<T> => {
    const body = waiting.get(key) ?? start(key, work);
    // Set the entry before `start` deletes it after its first await.
    waiting.set(key, body);
    return body;
  };
}

/** Returns the URL of `path` at an account's holder, or why there is none. `base`: by default the holder's URL for other replicas. */
export function holderUrl(
  { self, placeOf }: ServedReplicas,
  account: string,
  path: string,
  base?: string,
): { readonly url: string } | { readonly why: string } {
  const { holder } = placeOf(account);
  const target = URL.parse(path, 'http://replica');
  if (holder && holder.id !== self.id && target && !target.searchParams.has(FORWARDED)) {
    target.searchParams.set(FORWARDED, '1');
    return { url: (base ?? holder.url).replace(/\/$/, '') + target.pathname + target.search };
  }
  const why = holder ? 'it is moving to another replica' : 'no replica holds it';
  return { why: `the account is not collected now: ${why}` };
}

/** Redirects to the holder of the account, or responds with 503. */
function redirect(replicas: ServedReplicas, account: string, { originalUrl }: Request, response: Response): void {
  const holder = holderUrl(replicas, account, originalUrl);
  if ('why' in holder) {
    response.status(503).set('Retry-After', '5').type('text').send(`${holder.why}\n`);
    return;
  }
  response
    .status(307)
    .set({ Location: holder.url, 'Cache-Control': 'no-store' })
    .type('text')
    .send('see the replica that holds it\n');
}

export function metricsRoutes(served: HttpServed, { isCrowded }: ResponseLimiter): Router {
  const shared = createSingleFlight<Awaited<ReturnType<HttpServed['exposition']>>>(isCrowded, served.clock);

  async function send(request: Request, response: Response, scope: Scope): Promise<void> {
    const gzip = request.acceptsEncodings('gzip') === 'gzip';
    const format = negotiateFormat(request.headers.accept);
    const key = JSON.stringify([scope, format, gzip]);
    const { contentType, body } = await shared(key, () => served.exposition(scope, format, gzip));
    response.writeHead(200, {
      'Content-Type': contentType,
      'Content-Length': body.length,
      Vary: 'Accept, Accept-Encoding',
      ...(gzip ? { 'Content-Encoding': 'gzip' } : {}),
    });
    response.end(body);
  }

  return Router()
    .get('/metrics', (request, response) => send(request, response, 'everything'))
    .get('/metrics/agent', (request, response) => send(request, response, 'agent'))
    .get('/probe', async (request, response) => {
      const { account } = request.query;
      if (typeof account !== 'string') {
        response.status(400).type('text').send('name one configured account: /probe?account=NAME\n');
      } else if (!served.accounts.includes(account)) {
        response.status(404).type('text').send('no account with that name is configured\n');
      } else if (served.replicas && !served.replicas.placeOf(account).isHere) {
        redirect(served.replicas, account, request, response);
      } else {
        await send(request, response, { account });
      }
    })
    .all(['/metrics', '/metrics/agent', '/probe'], onlyAllow(READ));
}
