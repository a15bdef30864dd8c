import { setImmediate } from 'node:timers/promises';
import { type Request, type Response, Router } from 'express';
import type { Clock } from '../../kit/clock.ts';
import type { Format, Scope } from '../../model/exposition.ts';
import type { ResponseLimiter } from '../response-limiter.ts';
import type { HttpServed } from '../served.ts';
import { onlyAllow, READ } from './methods.ts';

/** Returns the format of an element of an Accept header; undefined for an unsupported format. */
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

export function metricsRoutes(served: HttpServed, { isCrowded }: ResponseLimiter): Router {
  const shared = createSingleFlight<Awaited<ReturnType<HttpServed['exposition']>>>(isCrowded, served.clock);

  async function send(request: Request, response: Response, scope: Scope): Promise<void> {
    const gzip = request.acceptsEncodings('gzip') === 'gzip';
    const format = negotiateFormat(request.headers.accept);
    const key = JSON.stringify([scope, format, gzip]);
    const { contentType, body } = await shared(key, () => served.exposition(scope, format, gzip));
    response.setHeader('Content-Type', contentType);
    response.setHeader('Content-Length', body.length);
    response.setHeader('Vary', 'Accept, Accept-Encoding');
    if (gzip) response.setHeader('Content-Encoding', 'gzip');
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
      } else {
        await send(request, response, { account });
      }
    })
    .all(['/metrics', '/metrics/agent', '/probe'], onlyAllow(READ));
}
