import { createServer, type RequestListener, type Server } from 'node:http';
import { createServer as createTlsServer, type Server as TlsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import type { Clock } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';
import type { Access } from './access.ts';
import type { Bounds, LogBound } from './bounds.ts';
import { type Admission, refusalOf } from './client-certs.ts';
import { clientOf, limitConnections } from './connections.ts';
import { contextOf, type WebTls } from './options.ts';

export interface Address {
  readonly host: string;
  readonly port: number;
}

export interface ListenerDeps {
  readonly bounds: Bounds;
  readonly logBound: LogBound;
  readonly clock: Clock;
  readonly log: Log;
}

/** How long a closing port waits for responses in flight (ms). */
const GRACE = 1000;

const CHECK_EVERY = 1000;

/** Opens a port. Rejects with an error that names the address, and whose cause has the error code. */
export function listen(server: Server, { host, port }: Address): Promise<void> {
  return new Promise<void>((resolve, reject) => {
    const fail = (cause: NodeJS.ErrnoException) => {
      const why = cause.code === 'EADDRINUSE' ? 'the address is in use' : cause.message;
      reject(new Error(`can't listen on ${host}:${port}: ${why}`, { cause }));
    };
    server.once('error', fail);
    server.listen(port, host, () => {
      server.off('error', fail);
      resolve();
    });
  });
}

async function closeServer(server: Server, sockets: () => Iterable<Socket>, clock: Clock): Promise<void> {
  const closed = new Promise<void>(resolve => server.close(() => resolve()));
  server.closeIdleConnections();
  const done = new AbortController();
  clock.sleep(GRACE, done.signal).then(
    () => {
      for (const socket of sockets()) socket.destroy();
    },
    () => undefined,
  );
  await closed;
  done.abort();
}

export interface Tls {
  readonly access: Access;
  readonly admission: Admission;
}

/** Applies new certificates to new connections, and disconnects clients whose certificate is refused. */
function keepCertificates(server: TlsServer, first: WebTls, { access, admission }: Tls, logBound: LogBound): void {
  let used = first;
  /** TLS settings at the start of each handshake, by client. The current settings may change during the handshake. */
  const begun = new Map<string, WebTls>();
  server.prependListener('connection', (socket: Socket) => {
    const now = access.current()?.tls;
    if (now && now !== used) {
      server.setSecureContext(contextOf(now));
      used = now;
    }
    const client = clientOf(socket);
    begun.set(client, used);
    socket.once('close', () => begun.delete(client));
  });
  server.prependListener('secureConnection', (socket: TLSSocket) => {
    const by = begun.get(clientOf(socket));
    if (!by) {
      socket.destroy();
      return;
    }
    const why = refusalOf(socket, by);
    if (why === undefined) admission.admit(socket, by);
    else {
      logBound(
        'tls',
        { address: socket.remoteAddress, error: why },
        'clients are disconnected because of their certificate',
      );
      socket.destroy();
    }
  });
}

/** Opens a port, with TLS if the web-config file requires it. Rejects with an error that names the address. */
export async function openListener(
  address: Address,
  { bounds, logBound, clock, log }: ListenerDeps,
  onRequest: RequestListener,
  tls?: Tls,
) {
  const options = {
    headersTimeout: bounds.headersWithin,
    requestTimeout: bounds.requestWithin,
    connectionsCheckingInterval: CHECK_EVERY,
    keepAliveTimeout: bounds.keepAliveFor,
    insecureHTTPParser: false,
  };
  const first = tls?.access.current()?.tls;
  const server = first
    ? createTlsServer({
        ...options,
        ...contextOf(first),
        handshakeTimeout: bounds.headersWithin,
        requestCert: first.clientAuth !== 'NoClientCert',
        rejectUnauthorized: first.clientAuth === 'RequireAndVerifyClientCert',
      })
    : createServer(options);
  if (tls && first) keepCertificates(server as TlsServer, first, tls, logBound);
  const connections = limitConnections(server, bounds, logBound, onRequest);
  await listen(server, address);
  server.on('error', error => log.error({ error: error.message }, 'the HTTP server reports an error'));
  const { port, address: ip, family } = server.address() as AddressInfo;
  const name = ip === '0.0.0.0' || ip === '::' ? 'localhost' : family === 'IPv6' ? `[${ip}]` : ip;
  return {
    url: `${first ? 'https' : 'http'}://${name}:${port}`,
    setMaxConnections: connections.setMax,
    /** Waits a moment for responses in flight, then destroys all connections. */
    close: () => closeServer(server, connections.sockets, clock),
  };
}
