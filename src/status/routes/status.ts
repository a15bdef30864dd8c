import { Router } from 'express';
import { hostOf } from '../../http/options.ts';
import { onlyAllow, READ } from '../../http/routes/methods.ts';
import type { ReplicaAddress } from '../../http/served.ts';
import type { Served } from '../served.ts';

/** Returns a target of Prometheus' HTTP service discovery. */
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
 * Returns the target of an account at its current or last holder. Scrapes of it fail while no replica holds the account. No
 * label of its series names the replica, so the series continue after a handover.
 */
const sharedTarget = (account: string, { id, url }: ReplicaAddress) =>
  targetOf(account, new URL(url), { __meta_delivery_watch_replica: id });

export function statusRoutes(served: Served): Router {
  return Router()
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
      if (replicas)
        return void response.json(accounts.map(account => sharedTarget(account, replicas.placeOf(account).last)));
      const { host } = request.headers;
      const url = URL.parse(externalUrl ?? (hostOf(host) === undefined ? '' : `${request.protocol}://${host}`));
      if (!url) return void response.status(400).type('text').send('set server.externalUrl, or send a Host header\n');
      // If two replicas are discovered, this label keeps their series apart.
      response.json(accounts.map(account => targetOf(account, url, { replica: url.host })));
    })
    .all(['/api/v1/alerts', '/api/v1/status', '/api/v1/sd'], onlyAllow(READ));
}
