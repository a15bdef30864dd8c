import type { IncomingMessage, ServerResponse } from 'node:http';
import { Router } from 'express';
import { hostOf } from '../options.ts';
import type { Place, Served } from '../served.ts';
import { onlyAllow, READ } from './methods.ts';

const PROBES: Readonly<Record<string, string>> = {
  '/-/healthy': 'delivery-watch is healthy\n',
  '/-/ready': 'delivery-watch is ready\n',
};

/** Serves only GET /-/healthy and /-/ready, for a port without a gate. */
export function answerProbe(request: IncomingMessage, response: ServerResponse): void {
  const text = PROBES[request.url?.split('?', 1)[0] ?? ''];
  const isRead = request.method === 'GET' || request.method === 'HEAD';
  response.writeHead(text === undefined ? 404 : isRead ? 200 : 405, {
    'Content-Type': 'text/plain; charset=utf-8',
    'X-Content-Type-Options': 'nosniff',
    ...(isRead ? {} : { Allow: READ, Connection: 'close' }),
  });
  response.end(text === undefined ? 'not found\n' : isRead ? text : 'method not allowed\n');
}

/** An account as a target of Prometheus' HTTP service discovery. */
const targetOf = (account: string, url: URL, labels: Readonly<Record<string, string>>) => ({
  targets: [url.host],
  labels: {
    __scheme__: url.protocol.replace(':', ''),
    __metrics_path__: `${url.pathname.replace(/\/$/, '')}/probe`,
    __param_account: account,
    instance: `delivery-watch/${account}`,
    ...labels,
  },
});

/**
 * The target of an account at the replica that holds it or held it last, so that a scrape fails while no replica holds it. No label
 * of its series names the replica: they continue after a handover.
 */
const sharedTarget = (account: string, { id, url }: Place) =>
  targetOf(account, new URL(url), { __meta_delivery_watch_replica: id });

/**
 * Probes, and the JSON of status, alerts and service discovery. The port opens after configuration and store are loaded. Readiness
 * never waits for the service: an unready sidecar would take its application out of service.
 */
export function statusRoutes(served: Served): Router {
  return Router()
    .all(Object.keys(PROBES), (request, response) => answerProbe(request, response))
    .get('/api/v1/alerts', async (_request, response) => {
      await served.replicas?.refresh();
      response.json(served.alerts());
    })
    .get('/api/v1/status', async (_request, response) => {
      const { version, clock } = served;
      await served.replicas?.refresh();
      response.json({ version, now: new Date(clock.now()).toISOString(), accounts: served.status() });
    })
    .get('/api/v1/sd', (request, response) => {
      const { externalUrl, accounts, replicas } = served;
      if (replicas) {
        response.json(accounts.map(account => sharedTarget(account, replicas.placeOf(account).last)));
        return;
      }
      const { host } = request.headers;
      const url = URL.parse(externalUrl ?? (hostOf(host) === undefined ? '' : `${request.protocol}://${host}`));
      if (!url) {
        response.status(400).type('text').send('set server.externalUrl, or send a Host header\n');
        return;
      }
      // Otherwise two discovered replicas would write to the same series.
      response.json(accounts.map(account => targetOf(account, url, { replica: url.host })));
    })
    .all(['/api/v1/alerts', '/api/v1/status', '/api/v1/sd'], onlyAllow(READ));
}
