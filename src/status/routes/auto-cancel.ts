import { type Request, type Response, Router } from 'express';
import { whenOver } from '../../http/answers.ts';
import { EXPLAIN, SENT_ON } from '../../http/peer.ts';
import { onlyAllow, READ } from '../../http/routes/methods.ts';
import { parseDuration } from '../../kit/duration.ts';
import { createSerially } from '../../kit/serially.ts';
import type { Served } from '../served.ts';

/** One parameter of the query; undefined if it is missing or repeated. */
const parameter = (value: unknown) => (typeof value === 'string' && value !== '' ? value : undefined);

/** Parses a time or an age (`24h`) to milliseconds since the Unix epoch; undefined if it is neither. */
function timeOf(text: string, now: number): number | undefined {
  const ago = parseDuration(text);
  const time = ago === undefined ? Date.parse(text) : now - ago;
  return Number.isFinite(time) ? time : undefined;
}

const SINCE = '24h';

/** GET /api/v1/explain?id=…[&account=…] and /api/v1/journal[?since=…], JSON. */
export function autoCancelRoutes(served: Served): Router {
  // A response may have thousands of rows: concurrent ones would exhaust the memory.
  const serially = createSerially();
  return Router()
    .get(EXPLAIN, async (request: Request, response: Response) => {
      const id = parameter(request.query.id);
      if (id === undefined) {
        response.status(400).json({ error: 'id must be the dlqId or messageId of an entry' });
        return;
      }
      const account = parameter(request.query.account);
      if (account !== undefined && !served.accounts.includes(account)) {
        response.status(404).json({ error: 'no account of that name is configured' });
        return;
      }
      const gone = new AbortController();
      whenOver(request, response, () => gone.abort());
      const isSentOn = request.query[SENT_ON] !== undefined;
      const found = await served.explain(id, account, { isSentOn, signal: gone.signal });
      if (found === 'busy') {
        const error = 'too many requests wait for other replicas: try again';
        response.status(503).set('Retry-After', '1').json({ error });
      } else if (found === 'no_agent')
        response.status(503).json({ error: 'the replica that holds the account did not answer' });
      else if (found.length > 0) response.json(found);
      else response.status(404).json({ error: 'no failure callback of that entry is tracked' });
    })
    .get('/api/v1/journal', async (request: Request, response: Response) => {
      const { since: text = SINCE } = request.query;
      const since = typeof text === 'string' ? timeOf(text, served.clock.now()) : undefined;
      if (since === undefined)
        response.status(400).json({ error: 'since must be one duration such as 24h, or one time' });
      else await serially(async () => !response.destroyed && response.json(await served.journal(since)));
    })
    .all([EXPLAIN, '/api/v1/journal'], onlyAllow(READ));
}
