import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import express, { type NextFunction, type Request, type Response } from 'express';
import type { Clock } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';
import type { AccountStatus } from '../model/status.ts';
import { type Answers, createAnswers } from './answers.ts';
import { BOUNDS, type Bounds, createSayHeld } from './bounds.ts';
import { createGate, guardConnections, sayCut } from './gate.ts';
import type { Format } from './negotiate.ts';
import { alertsRoutes } from './routes/alerts.ts';
import { autoCancelRoutes } from './routes/auto-cancel.ts';
import { healthRoutes } from './routes/health.ts';
import { metricsRoutes } from './routes/metrics.ts';
import { pageRoutes } from './routes/page.ts';
import { statusRoutes } from './routes/status.ts';

/** What the routes serve, as functions over what is in memory: no request here ever asks the service. */
export interface Served {
  readonly version: string;
  readonly externalUrl: string | null;
  readonly accounts: readonly string[];
  /** The exposition: everything, one account's families, or the agent's own. */
  exposition(scope: Scope, format: Format, gzip: boolean): Promise<{ contentType: string; body: Buffer }>;
  status(): readonly AccountStatus[];
  /** Why a failure callback is or is not acted upon, by every account that tracks it; JSON. */
  explain(id: string, account: string | undefined): readonly unknown[];
  /** Lines of the journal from a time on (milliseconds since the Unix epoch), the oldest first; JSON. */
  journal(since: number): Promise<readonly unknown[]>;
  /** Alerts of the agent itself that are pending, firing, or were resolved lately. */
  alerts(): readonly ShownAlert[];
  readonly clock: Clock;
}

/** An alert, as JSON. */
export interface ShownAlert {
  readonly state: 'pending' | 'firing' | 'resolved';
  /** `alertname` and `account` included. */
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  /** By which it was last judged true. */
  readonly value: number;
  /** Times, as ISO 8601. */
  readonly startsAt?: string;
  readonly endsAt?: string;
}

export type Scope = 'everything' | 'agent' | { readonly account: string };

export interface HttpServer {
  /** `http://host:port` of the open port. */
  readonly url: string;
  /** Stops accepting, lets answers under way end for a moment, then cuts the rest. */
  close(): Promise<void>;
}

function createApp(served: Served, answers: Answers, log: Log): express.Express {
  const app = express();
  app.disable('x-powered-by');
  app.disable('etag');
  app.use(metricsRoutes(served, answers));
  for (const routes of [healthRoutes, statusRoutes, alertsRoutes, autoCancelRoutes, pageRoutes])
    app.use(routes(served));
  app.use((_request: Request, response: Response) => void response.status(404).type('text').send('not found\n'));
  app.use((error: unknown, request: Request, response: Response, _next: NextFunction) => {
    const message = error instanceof Error ? error.message : String(error);
    log.error({ path: request.path, error: message }, 'a request failed');
    if (!response.headersSent) response.status(500).type('text').send('internal error\n');
  });
  return app;
}

/** Milliseconds that answers under way get to end when the server closes. */
const GRACE = 1000;

export interface ServerSettings extends Partial<Bounds> {
  readonly host: string;
  readonly port: number;
  readonly allowedHosts?: readonly string[];
}

/** How often connections are looked at that take too long to say what they want, milliseconds. */
const CHECK_EVERY = 1000;

/** Throws when the address can't be had, naming it. */
export async function startHttpServer(
  { host, port, allowedHosts = [], ...changed }: ServerSettings,
  served: Served,
  log: Log,
): Promise<HttpServer> {
  const bounds = { ...BOUNDS, ...changed };
  const sayHeld = createSayHeld(log, served.clock);
  const answers = createAnswers(bounds.unreadBytes, request => sayCut(sayHeld, request));
  const server = createServer(
    {
      headersTimeout: bounds.headersWithin,
      requestTimeout: bounds.requestWithin,
      connectionsCheckingInterval: CHECK_EVERY,
    },
    createGate({ bounds, answers, allowedHosts }, sayHeld, createApp(served, answers, log)),
  );
  guardConnections(server, bounds, sayHeld);
  await new Promise<void>((resolve, reject) => {
    server.once('error', cause => reject(new Error(`can't listen on ${host}:${port}: ${cause.message}`, { cause })));
    server.listen(port, host, resolve);
  });
  server.removeAllListeners('error').on('error', error => log.error({ error: error.message }, 'the port has a fault'));
  const { port: open, address, family } = server.address() as AddressInfo;
  const name = address === '0.0.0.0' || address === '::' ? 'localhost' : family === 'IPv6' ? `[${address}]` : address;
  return { url: `http://${name}:${open}`, close: () => closeServer(server, served.clock) };
}

async function closeServer(server: Server, clock: Clock): Promise<void> {
  const closed = new Promise<void>(resolve => server.close(() => resolve()));
  server.closeIdleConnections();
  const done = new AbortController();
  clock.sleep(GRACE, done.signal).then(
    () => server.closeAllConnections(),
    () => undefined,
  );
  await closed;
  done.abort();
}
