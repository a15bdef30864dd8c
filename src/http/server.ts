import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import express, { type NextFunction, type Request, type Response, type Router } from 'express';
import { systemClock } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';
import { createAccess, type ReadWebConfig } from './access.ts';
import { BOUNDS, type Bounds, createBoundLog } from './bounds.ts';
import { createGate, logCut, signIfPeer } from './gate.ts';
import { type Address, type Admission, openListener } from './listener.ts';
import { createPasswords } from './passwords.ts';
import { HEALTH_PATH, HEALTHY } from './peer.ts';
import { createResponseLimiter, type ResponseLimiter } from './response-limiter.ts';
import { type Lifecycle, lifecycleRoutes } from './routes/lifecycle.ts';
import { READ } from './routes/methods.ts';
import { metricsRoutes } from './routes/metrics.ts';
import { standbyRoutes } from './routes/standby.ts';
import type { HttpServed } from './served.ts';

export interface ServerSettings extends Partial<Bounds>, Address {
  readonly allowedHosts?: readonly string[];
  /** Additional port with only the probes, without the gate. */
  readonly probes?: Address | null;
  readonly lifecycle?: boolean;
  readonly webConfigFile?: string | null;
}

export type HttpServer = Awaited<ReturnType<typeof openHttpServer>>;

/** Probes always succeed. Readiness does not depend on the service, because an unready sidecar stops traffic to its application. */
const PROBES: Readonly<Record<string, string>> = {
  [HEALTH_PATH]: HEALTHY,
  '/-/ready': 'delivery-watch is ready\n',
};

/** Responds to probes, and with 404 to other paths. The probe port, which has no gate, serves only this. */
function sendProbe(request: IncomingMessage, response: ServerResponse): void {
  const text = PROBES[request.url?.split('?', 1)[0] ?? ''];
  const isRead = request.method === 'GET' || request.method === 'HEAD';
  response.statusCode = text === undefined ? 404 : isRead ? 200 : 405;
  response.setHeader('Content-Type', 'text/plain; charset=utf-8');
  response.setHeader('X-Content-Type-Options', 'nosniff');
  if (!isRead) response.setHeader('Allow', READ).setHeader('Connection', 'close');
  response.end(text === undefined ? 'not found\n' : isRead ? text : 'method not allowed\n');
}

/** `routes`: routes of other modules, which are tried last. */
function createApp(
  served: HttpServed,
  responses: ResponseLimiter,
  lifecycle: Lifecycle,
  routes: readonly Router[],
  log: Log,
): express.Express {
  const app = express();
  app.disable('x-powered-by');
  app.disable('etag');
  app.use(standbyRoutes(served));
  app.use(metricsRoutes(served, responses));
  app.use(lifecycleRoutes(served, lifecycle));
  app.all(Object.keys(PROBES), sendProbe);
  for (const router of routes) app.use(router);
  app.use((_request: Request, response: Response) => void response.status(404).type('text').send('not found\n'));
  app.use((error: unknown, request: Request, response: Response, _next: NextFunction) => {
    if (response.destroyed) return;
    if (!response.headersSent && served.group?.unavailableSince() !== undefined) {
      // Probably the database is unavailable: only data in memory can be served.
      response.status(503).set('Retry-After', '10').type('text').send('the database is unavailable: try again\n');
      return;
    }
    const message = error instanceof Error ? error.message : String(error);
    log.error({ path: request.path, error: message }, 'a request failed');
    if (!response.headersSent) response.status(500).type('text').send('internal error\n');
  });
  return app;
}

const neverRead: ReadWebConfig = file => {
  throw new Error(`${file} can't be read here`);
};

/**
 * Opens the HTTP server. Rejects if an address or the web-config file cannot be used. Calls `readWebConfig` again when a
 * file has changed.
 */
export async function openHttpServer(
  initial: ServerSettings,
  served: HttpServed,
  routes: readonly Router[],
  log: Log,
  readWebConfig: ReadWebConfig = neverRead,
) {
  const { clock } = served;
  const bounds = { ...BOUNDS, ...initial };
  const logBound = createBoundLog(log, clock);
  const onCut = (request: IncomingMessage) => logCut(logBound, request);
  const responses = createResponseLimiter(bounds.unreadBytes, onCut);
  // Client timeouts use real time, even if the agent's clock is accelerated.
  const { monotonic, sleep } = systemClock;
  const passwords = createPasswords({ now: clock.now, monotonic, sleep }, log);
  const callers = new WeakMap<IncomingMessage, string>();
  const admission: Admission = new WeakMap();
  const access = createAccess(initial.webConfigFile ?? null, { read: readWebConfig, clock, log });
  let settings = initial;
  let hosts = new Set(initial.allowedHosts);
  const lifecycle: Lifecycle = {
    isOn: () => settings.lifecycle ?? false,
    callerOf: request => callers.get(request),
  };
  const app = createApp(served, responses, lifecycle, routes, log);
  const deps = { bounds, logBound, log };
  const { peerKey } = served;
  const gateOptions = {
    bounds,
    responses,
    hosts: () => hosts,
    web: access,
    admission,
    passwords,
    peerKey,
    callers,
  };
  const main = await openListener(initial, deps, createGate(gateOptions, logBound, app), { access, admission });
  const answerProbe: RequestListener = (request, response) => {
    signIfPeer(request, response, peerKey);
    sendProbe(request, response);
  };
  const probes = await (initial.probes && openListener(initial.probes, deps, answerProbe))?.catch(async error => {
    await main.close();
    throw error;
  });

  return {
    /** `http://host:port` of the open port. */
    url: main.url,
    /** Applies `lifecycle`, `allowedHosts` and `maxConnections` to the next requests. Other changes need a restart. */
    apply(next: ServerSettings): void {
      settings = next;
      hosts = new Set(next.allowedHosts);
      main.setMaxConnections(next.maxConnections ?? BOUNDS.maxConnections);
    },
    /** Waits a moment for responses in flight, then destroys all connections. */
    async close(): Promise<void> {
      await Promise.all([main.close(), probes?.close()]);
      await passwords.close();
    },
  };
}
