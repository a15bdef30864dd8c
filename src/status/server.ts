import type { ReadWebConfig } from '../http/access.ts';
import { type HttpServer, openHttpServer, type ServerSettings } from '../http/server.ts';
import type { Log } from '../kit/log.ts';
import { apiRoutes } from './routes/api.ts';
import { discoveryRoutes } from './routes/discovery.ts';
import { pageRoutes } from './routes/page.ts';
import type { Served } from './served.ts';

/** Opens the HTTP server with all routes. Rejects like `openHttpServer`. */
export const startHttpServer = (
  settings: ServerSettings,
  served: Served,
  log: Log,
  readWebConfig?: ReadWebConfig,
): Promise<HttpServer> =>
  openHttpServer(
    settings,
    served,
    lifecycle => [discoveryRoutes(served), apiRoutes(served), pageRoutes(served, lifecycle)],
    log,
    readWebConfig,
  );
