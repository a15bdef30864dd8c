import type { Request, Response, Router } from 'express';
import type { z } from 'zod';
import { FORWARDED } from '../../http/peer.ts';
import { whenOver } from '../../http/response-limiter.ts';
import { onlyAllow, READ } from '../../http/routes/methods.ts';
import { holderUrl } from '../../http/routes/metrics.ts';
import type { ServedReplicas } from '../../http/served.ts';
import { isSaneId } from '../../upstream/api.ts';
import { DlqLookupQuery, EventLookupQuery, MessageLookupQuery } from '../api/lookup.ts';
import { type Lookups, RequestError } from '../lookups.ts';
import type { Served } from '../served.ts';
import { INVALID_ID, refuse, validQuery } from './query.ts';

/** Redirects to the replica that holds the account, or responds with 503. */
function redirect(replicas: ServedReplicas, account: string, path: string, response: Response): void {
  const holder = holderUrl(replicas, account, path);
  if ('why' in holder) refuse(response.set('Retry-After', '5'), 503, holder.why);
  else refuse(response.set('Location', holder.url), 307, 'another replica holds the account');
}

interface Asked<T extends z.ZodObject> {
  readonly query: z.output<T>;
  readonly id: string;
  /** Aborted when the response is complete or the client disconnects. */
  readonly client: AbortSignal;
}

export function addLookups(router: Router, served: Served): void {
  function add<T extends z.ZodObject>(
    path: string,
    schema: T,
    find: (lookups: Lookups, account: string, of: Asked<T>) => Promise<object>,
  ): void {
    async function respond(request: Request<{ id?: string }>, response: Response): Promise<void> {
      response.set('Cache-Control', 'no-store');
      const { [FORWARDED]: _, ...given } = request.query;
      const query = validQuery(schema.strict(), given) as { readonly account?: string };
      const { id = '' } = request.params;
      if (path.endsWith(':id') && !isSaneId(id)) throw new RequestError(400, INVALID_ID);
      const [only, ...more] = served.accounts;
      const { account = more.length === 0 ? only : undefined, ...rest } = query;
      if (account === undefined) throw new RequestError(400, 'account is required, because several are configured');
      if (!served.accounts.includes(account)) throw new RequestError(404, 'no account with that name is configured');
      if (served.replicas && !served.replicas.placeOf(account).isHere)
        return redirect(served.replicas, account, request.originalUrl, response);
      const gone = new AbortController();
      whenOver(request, response, () => gone.abort());
      response.json(await find(served.lookups, account, { query: rest as z.output<T>, id, client: gone.signal }));
    }
    router.route(path).get(respond).all(onlyAllow(READ));
  }

  add('/api/v1/dlq', DlqLookupQuery, (lookups, account, { query, client }) => lookups.dlq(account, query, client));
  add('/api/v1/events', EventLookupQuery, (lookups, account, { query, client }) =>
    lookups.events(account, query, client),
  );
  add('/api/v1/messages/:id', MessageLookupQuery, (lookups, account, { id, client }) =>
    lookups.message(account, id, client),
  );
}
