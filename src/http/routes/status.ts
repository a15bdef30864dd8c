import { Router } from 'express';
import type { Served } from '../server.ts';

/** GET /api/v1/status and /api/v1/sd, JSON. */
export function statusRoutes({ version, externalUrl, accounts, status, clock }: Served): Router {
  return Router()
    .get('/api/v1/status', (_request, response) => {
      response.json({ version, now: new Date(clock.now()).toISOString(), accounts: status() });
    })
    .get('/api/v1/sd', (request, response) => {
      // A Host header is only ever a host: what else it brings would end up in the path that is scraped.
      const host = /^[\w.:[\]-]+$/.exec(request.headers.host ?? '')?.[0];
      const url = URL.parse(externalUrl ?? `http://${host ?? ''}`);
      if (!url) {
        response.status(400).type('text').send('set server.externalUrl, or name a host in the request\n');
        return;
      }
      response.json(
        accounts.map(account => ({
          targets: [url.host],
          labels: {
            __scheme__: url.protocol.replace(':', ''),
            __metrics_path__: `${url.pathname.replace(/\/$/, '')}/probe`,
            __param_account: account,
            instance: `delivery-watch/${account}`,
          },
        })),
      );
    });
}
