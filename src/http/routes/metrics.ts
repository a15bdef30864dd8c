import { type Request, type Response, Router } from 'express';
import type { Answers } from '../answers.ts';
import { createInTurn } from '../in-turn.ts';
import { negotiateFormat } from '../negotiate.ts';
import type { Scope, Served } from '../server.ts';

/** GET /metrics, /probe?account=NAME and /metrics/agent. */
export function metricsRoutes({ accounts, exposition, clock }: Served, { isCrowded }: Answers): Router {
  const inTurn = createInTurn<Awaited<ReturnType<Served['exposition']>>>(isCrowded, clock);

  async function send(request: Request, response: Response, scope: Scope): Promise<void> {
    const gzip = request.acceptsEncodings('gzip') === 'gzip';
    const format = negotiateFormat(request.headers.accept);
    const key = JSON.stringify([scope, format, gzip]);
    const { contentType, body } = await inTurn(key, () => exposition(scope, format, gzip));
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
      } else if (!accounts.includes(account)) {
        response.status(404).type('text').send('no account of that name is configured\n');
      } else {
        await send(request, response, { account });
      }
    });
}
