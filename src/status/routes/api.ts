import { type NextFunction, type Request, type Response, Router } from 'express';
import pLimit from 'p-limit';
import { z } from 'zod';
import { whenOver } from '../../http/response-limiter.ts';
import { onlyAllow, READ } from '../../http/routes/methods.ts';
import { API_ENDPOINTS, type ApiEndpoint } from '../endpoints.ts';
import { clientClosed, RequestError } from '../lookups.ts';
import type { Served } from '../served.ts';
import { validQuery } from './query.ts';

function sendError(error: unknown, _request: Request, response: Response, next: NextFunction): void {
  if (error instanceof URIError) response.status(400).json({ error: 'the path must be UTF-8, percent-encoded' });
  else if (error instanceof RequestError) {
    if (error.retryAfter !== undefined) response.set('Retry-After', String(error.retryAfter));
    response.status(error.status).json({ error: error.message });
  } else next(error);
}

const NO_QUERY = z.object({});

/** Creates the routes of `API_ENDPOINTS`. */
export function apiRoutes(served: Served): Router {
  // A response may have thousands of rows: concurrent responses would exhaust memory.
  const serially = pLimit(1);
  const router = Router();

  function add({ path, query: schema = NO_QUERY, isLookup, view }: ApiEndpoint): void {
    async function respond(request: Request, response: Response): Promise<void> {
      response.set('Cache-Control', 'no-store');
      const query = validQuery(schema.strict(), request.query) as never;
      const client = new AbortController();
      whenOver(request, response, () => client.abort(clientClosed()));
      const params = request.params as Readonly<Record<string, string>>;
      const send = async () => {
        if (response.destroyed) return;
        const now = served.clock.now();
        response.json(await view(served.views(), { query, params, now, client: client.signal }));
      };
      await (isLookup ? send() : serially(send));
    }
    router
      .route(path.replaceAll(/\{(\w+)\}/g, ':$1'))
      .get(respond)
      .all(onlyAllow(READ));
  }

  for (const endpoint of API_ENDPOINTS) add(endpoint);
  return router.use(sendError);
}
