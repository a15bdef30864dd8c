import type { IncomingMessage, ServerResponse } from 'node:http';
import express, { type NextFunction, type Request, type Response, type Router } from 'express';
import { systemClock } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';
import { type Access, createAccess, type ReadWebConfig } from './access.ts';
import { createAuthentication } from './authentication.ts';
import { BOUNDS, type Bounds, createBoundLog } from './bounds.ts';
import { createAdmission } from './client-certs.ts';
import { createGate, logCut, signIfPeer } from './gate.ts';
import { type Address, type Listener, openListener } from './listener.ts';
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

interface AppDeps {
  readonly responses: ResponseLimiter;
  readonly lifecycle: Lifecycle;
  readonly routes: RouterFactory;
  readonly log: Log;
}

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

/** Creates the routes of other modules, which are tried last. */
export type RouterFactory = (lifecycle: Lifecycle) => readonly Router[];

function createApp(served: HttpServed, { responses, lifecycle, routes, log }: AppDeps): express.Express {
  const app = express();
  app.disable('x-powered-by');
  app.disable('etag');
  app.use(standbyRoutes(served, lifecycle));
  app.use(metricsRoutes(served, responses));
  app.use(lifecycleRoutes(served, lifecycle));
  app.all(Object.keys(PROBES), sendProbe);
  for (const router of routes(lifecycle)) app.use(router);
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

interface Ports {
  readonly main: Listener;
  readonly probes: Listener | undefined;
}

/** Opens the ports that `before` lacks. If it rejects, or after `undo`, only the ports of `before` are open. */
async function openPorts(
  next: ServerSettings,
  before: { readonly settings: ServerSettings; readonly ports: Ports } | undefined,
  open: (what: keyof Ports, address: Address) => Promise<Listener>,
): Promise<{ readonly ports: Ports; undo(): Promise<void> }> {
  const steps: (() => Promise<void>)[] = [];
  async function undo(): Promise<void> {
    for (const step of steps.splice(0).reverse()) await step();
  }
  async function port(what: keyof Ports, address: Address, was: Address | null | undefined): Promise<Listener> {
    const old = before?.ports[what];
    // An open port cannot change its TLS or certificate rules.
    const isSame = what === 'probes' || before?.settings.webConfigFile === next.webConfigFile;
    if (old && isSame && address.host === was?.host && address.port === was.port) return old;
    let wanted = address;
    if (old && [0, old.port].includes(address.port)) {
      // Both addresses may include the same interface, where only one socket can use the port.
      old.pause();
      steps.push(old.resume);
      wanted = { ...address, port: old.port };
    }
    const opened = await open(what, wanted);
    steps.push(opened.close);
    return opened;
  }
  try {
    const main = await port('main', next, before?.settings);
    const probes = next.probes ? await port('probes', next.probes, before?.settings.probes) : undefined;
    return { ports: { main, probes }, undo };
  } catch (error) {
    await undo();
    throw error;
  }
}

/**
 * Opens the HTTP server. Rejects if an address or the web-config file cannot be used. Calls `readWebConfig` again when a
 * file has changed.
 */
export async function openHttpServer(
  initial: ServerSettings,
  served: HttpServed,
  routes: RouterFactory,
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
  const admission = createAdmission();
  const open = ({ webConfigFile = null }: ServerSettings) =>
    createAccess(webConfigFile, { read: readWebConfig, clock, log });
  let state = { settings: initial, hosts: new Set(initial.allowedHosts), access: open(initial) };
  const lifecycle: Lifecycle = {
    isOn: () => state.settings.lifecycle ?? false,
    callerOf: request => callers.get(request),
  };
  const app = createApp(served, { responses, lifecycle, routes, log });
  const authenticate = createAuthentication(passwords);
  const identify = (request: IncomingMessage, caller: string) => void callers.set(request, caller);
  const deps = { bounds, logBound, log, clock };
  const openPort = (access: Access) => (what: keyof Ports, address: Address) => {
    const { peerKey } = served;
    if (what === 'probes') {
      return openListener(address, deps, (request, response) => {
        signIfPeer(request, response, peerKey);
        sendProbe(request, response);
      });
    }
    // Each port keeps the web-config file with which it was opened.
    const gateOptions = {
      bounds,
      responses,
      hosts: () => state.hosts,
      web: access.current,
      admission,
      authenticate,
      peerKey,
      identify,
    };
    return openListener(address, deps, createGate(gateOptions, logBound, app), { access, admission });
  };
  let { ports } = await openPorts(initial, undefined, openPort(state.access));
  /** Replaced ports with responses in flight. */
  const closing = new Set<Promise<void>>();
  function retire(listener: Listener): void {
    const closed = listener.close().finally(() => closing.delete(closed));
    closing.add(closed);
  }

  return {
    /** `http://host:port` of the open port. */
    get url(): string {
      return ports.main.url;
    },
    /** Opens ports for new settings (of the bounds, only `maxConnections`). If it rejects, nothing has changed. */
    async prepare(next: ServerSettings) {
      const before = { ...state, ports };
      // Access control itself detects changes in the content of its files.
      const access = (next.webConfigFile ?? null) === before.access.file ? before.access : open(next);
      const opened = await openPorts(next, before, openPort(access));
      return {
        discard: opened.undo,
        commit(): void {
          ports = opened.ports;
          state = { settings: next, hosts: new Set(next.allowedHosts), access };
          ports.main.setMaxConnections(next.maxConnections ?? BOUNDS.maxConnections);
          // Do not wait: the request for this reload may be in flight.
          for (const what of ['main', 'probes'] as const) {
            const old = before.ports[what];
            if (old && old !== ports[what]) retire(old);
          }
        },
      };
    },
    /** Waits a moment for responses in flight, then destroys all connections. */
    async close(): Promise<void> {
      await Promise.all([ports.main.close(), ports.probes?.close(), ...closing]);
      await passwords.close();
    },
  };
}
