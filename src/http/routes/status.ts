import { Router } from 'express';
import { hostOf } from '../host.ts';
import type { Served } from '../server.ts';

/** GET /api/v1/status and /api/v1/sd, JSON. */
export function statusRoutes({ version, externalUrl, accounts, status, clock }: Served): Router {
  return Router()
    .get('/api/v1/status', (_request, response) => {
      response.json({ version, now: new Date(clock.now()).toISOString(), accounts: status() });
    })
    .get('/api/v1/sd', (request, response) => {
      const { host } = request.headers;
      const url = URL.parse(externalUrl ?? (hostOf(host) === undefined ? '' : `http://${host}`));
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
            // Two replicas that are both discovered would else write to the same series.
            replica: url.host,
          },
        })),
      );
    });
}
