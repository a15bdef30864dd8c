import { Router } from 'express';
import { hostOf } from '../options.ts';
import type { Served } from '../served.ts';

/**
 * GET /-/healthy and /-/ready; /api/v1/status, /alerts and /sd, JSON. Routes are served only once configuration, store and
 * port are there, and readiness never waits for the service: an unready sidecar would take its application out of service.
 */
export function statusRoutes({ version, externalUrl, accounts, status, alerts, clock }: Served): Router {
  return Router()
    .get('/-/healthy', (_request, response) => void response.type('text').send('delivery-watch is healthy\n'))
    .get('/-/ready', (_request, response) => void response.type('text').send('delivery-watch is ready\n'))
    .get('/api/v1/alerts', (_request, response) => void response.json(alerts()))
    .get('/api/v1/status', (_request, response) => {
      response.json({ version, now: new Date(clock.now()).toISOString(), accounts: status() });
    })
    .get('/api/v1/sd', (request, response) => {
      const { host } = request.headers;
      const url = URL.parse(externalUrl ?? (hostOf(host) === undefined ? '' : `http://${host}`));
      if (!url) {
        response.status(400).type('text').send('set server.externalUrl, or send a Host header\n');
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
