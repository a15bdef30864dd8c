import { Router } from 'express';
import type { ReadWebConfig } from '../http/access.ts';
import { hostOf } from '../http/options.ts';
import { onlyAllow, READ } from '../http/routes/methods.ts';
import { openHttpServer, type ServerSettings } from '../http/server.ts';
import type { Log } from '../kit/log.ts';
import { apiRoutes } from './routes/api.ts';
import { pageRoutes } from './routes/page.ts';
import type { Served } from './served.ts';

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

function discoveryRoutes(served: Served): Router {
  return Router()
    .get('/api/v1/sd', (request, response) => {
      const { group } = served;
      const { externalUrl, accounts } = served.views();
      const { host } = request.headers;
      const own = externalUrl ?? (hostOf(host) === undefined ? '' : `${request.protocol}://${host}`);
      const leader = group?.leader();
      if (group && !leader)
        return void response.status(503).set('Retry-After', '5').type('text').send('no process leads now\n');
      const url = URL.parse(leader?.url ?? own);
      if (!url) return void response.status(400).type('text').send('set server.externalUrl, or send a Host header\n');
      // No label names the leader, so that series continue after a takeover. Without a group, a label keeps agents apart.
      response.json(accounts.map(account => targetOf(account, url, leader ? {} : { replica: url.host })));
    })
    .all('/api/v1/sd', onlyAllow(READ));
}

/** Opens the HTTP server with all routes. Rejects like `openHttpServer`. */
export const startHttpServer = (settings: ServerSettings, served: Served, log: Log, readWebConfig?: ReadWebConfig) =>
  openHttpServer(
    settings,
    served,
    [discoveryRoutes(served), apiRoutes(served), pageRoutes(served)],
    log,
    readWebConfig,
  );
