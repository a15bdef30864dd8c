import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Clock } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';
import type { Bounds, LogBound } from './bounds.ts';
import { guardConnections } from './gate.ts';

export interface Address {
  readonly host: string;
  readonly port: number;
}

/** An open port. */
export interface Listener {
  /** `http://host:port`, or https. */
  readonly url: string;
  readonly port: number;
  setMaxConnections(most: number): void;
  /** Frees the address; answers under way go on. */
  pause(): void;
  /** Takes the address again. Rejects when it can't be had. */
  resume(): Promise<void>;
  /** Stops accepting, lets answers under way end for a moment, then cuts the rest. */
  close(): Promise<void>;
}

export interface ListenerDeps {
  readonly bounds: Bounds;
  readonly logBound: LogBound;
  readonly clock: Clock;
  readonly log: Log;
}

/** Milliseconds that answers under way get to end when a port closes. */
const GRACE = 1000;

/** How often connections are looked at that take too long to say what they want, milliseconds. */
const CHECK_EVERY = 1000;

function listen(server: Server, { host, port }: Address): Promise<void> {
  return new Promise<void>((resolve, reject) => {
    const fail = (cause: Error) => reject(new Error(`can't listen on ${host}:${port}: ${cause.message}`, { cause }));
    server.once('error', fail);
    server.listen(port, host, () => {
      server.off('error', fail);
      resolve();
    });
  });
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

/** Rejects when the address can't be had, naming it. */
export async function openListener(
  address: Address,
  { bounds, logBound, clock, log }: ListenerDeps,
  onRequest: RequestListener,
): Promise<Listener> {
  const server = createServer(
    {
      headersTimeout: bounds.headersWithin,
      requestTimeout: bounds.requestWithin,
      connectionsCheckingInterval: CHECK_EVERY,
    },
    onRequest,
  );
  guardConnections(server, bounds, logBound);
  await listen(server, address);
  server.on('error', error => log.error({ error: error.message }, 'the HTTP server reports an error'));
  const { port, address: ip, family } = server.address() as AddressInfo;
  const name = ip === '0.0.0.0' || ip === '::' ? 'localhost' : family === 'IPv6' ? `[${ip}]` : ip;
  return {
    url: `http://${name}:${port}`,
    port,
    setMaxConnections(most) {
      server.maxConnections = most;
    },
    pause: () => void server.close(),
    resume: () => listen(server, { host: address.host, port }),
    close: () => closeServer(server, clock),
  };
}
