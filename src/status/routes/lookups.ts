import type { Request, Response, Router } from 'express';
import type { z } from 'zod';
import { FORWARDED } from '../../http/peer.ts';
import { whenOver } from '../../http/response-limiter.ts';
import { onlyAllow, READ } from '../../http/routes/methods.ts';
import { holderUrl } from '../../http/routes/metrics.ts';
import { isSaneId } from '../../upstream/api.ts';
import { DlqLookupQuery, EventLookupQuery, MessageLookupQuery } from '../api/lookup.ts';
import { RequestError } from '../lookups.ts';
import type { Served } from '../served.ts';
import { INVALID_ID, noView, refuse, validQuery } from './query.ts';

export function addLookups(router: Router, served: Served): void {
  function add<T extends z.ZodObject>(
    path: string,
    schema: T,
    find: (account: string, query: z.output<T>, client: AbortSignal, id: string) => Promise<object>,
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
      if (!served.accounts.includes(account)) throw noView(served, account);
      const { replicas } = served;
      if (replicas && !replicas.placeOf(account).isHere) {
        const holder = holderUrl(replicas, account, request.originalUrl);
        if ('why' in holder) throw new RequestError(503, holder.why, 5000);
        return refuse(response.set('Location', holder.url), 307, 'another replica holds the account');
      }
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
