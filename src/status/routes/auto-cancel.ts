import { type Request, type Response, Router } from 'express';
import pLimit from 'p-limit';
import { EXPLAIN_PATH } from '../../http/peer.ts';
import { onlyAllow, READ } from '../../http/routes/methods.ts';
import { timeOrAge } from '../api/lookup.ts';
import type { Served } from '../served.ts';
import { refuse } from './query.ts';

/** Returns a query parameter; undefined if it is missing, empty or repeated. */
const parameter = (value: unknown) => (typeof value === 'string' && value !== '' ? value : undefined);

const SINCE = '24h';

/** Serves GET /api/v1/explain?id=…[&account=…] and /api/v1/journal[?since=…] as JSON. */
export function autoCancelRoutes(served: Served): Router {
  // A response may have thousands of rows: concurrent responses would exhaust memory.
  const serially = pLimit(1);
  return Router()
    .get(EXPLAIN_PATH, async (request: Request, response: Response) => {
      const id = parameter(request.query.id);
      if (id === undefined) return refuse(response, 400, 'id must be the dlqId or messageId of an entry');
      const account = parameter(request.query.account);
      if (account !== undefined && !served.accounts.includes(account))
        return refuse(response, 404, 'no account with that name is configured');
      const found = await served.explain(id, account);
      if (found.length === 0) return refuse(response, 404, 'no failure callback of that entry is tracked');
      response.json(found);
    })
    .get('/api/v1/journal', async (request: Request, response: Response) => {
      const { since: text = SINCE } = request.query;
      const since = typeof text === 'string' ? timeOrAge(text, served.clock.now()) : undefined;
      if (since === undefined) return refuse(response, 400, 'since must be one duration such as 24h, or one time');
      await serially(async () => !response.destroyed && response.json(await served.journal(since)));
    })
    .all([EXPLAIN_PATH, '/api/v1/journal'], onlyAllow(READ));
}
