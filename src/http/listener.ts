import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http';
import { createServer as createTlsServer, type Server as TlsServer } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { withDeadline } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';
import type { Access } from './access.ts';
import type { Bounds, LogBound } from './bounds.ts';
import { contextOf, type WebTls } from './options.ts';
import { whenOver } from './response-limiter.ts';

export interface Address {
  readonly host: string;
  readonly port: number;
}

export interface ListenerDeps {
  readonly bounds: Bounds;
  readonly logBound: LogBound;
  readonly log: Log;
}

/** How long a closing port waits for responses in flight (ms). */
const GRACE = 1000;

const CHECK_EVERY = 1000;

/** Opens a port. Rejects with an error that names the address; its cause has the error code. */
export async function listen(server: Server, { host, port }: Address): Promise<void> {
  server.listen(port, host);
  await once(server, 'listening').catch((cause: NodeJS.ErrnoException) => {
    const why = cause.code === 'EADDRINUSE' ? 'the address is in use' : cause.message;
    throw new Error(`can't listen on ${host}:${port}: ${why}`, { cause });
  });
}

const closeServer = (server: Server, sockets: () => Iterable<Socket>) =>
  withDeadline(GRACE, new AbortController().signal, signal => {
    signal.addEventListener('abort', () => {
      for (const socket of sockets()) socket.destroy();
    });
    return new Promise<void>(resolve => server.close(() => resolve()));
  });

/** Returns why a client is refused after its handshake, or undefined. */
function refusalOf(socket: TLSSocket, { clientAuth }: WebTls): string | undefined {
  if (clientAuth === 'NoClientCert') return undefined;
  if (!socket.getPeerX509Certificate()) return clientAuth.startsWith('Require') ? 'no client certificate' : undefined;
  if (clientAuth.includes('Verify') && !socket.authorized) {
    return `client certificate not verified: ${socket.authorizationError}`;
  }
  return undefined;
}

/**
 * Returns the name in a verified client certificate, or its serial number; undefined without a certificate. Without `clientCa`,
 * Node.js would accept the certificates of all public authorities.
 */
export function clientName(socket: Socket, { clientCa }: WebTls): string | undefined {
  if (clientCa === undefined || !(socket instanceof TLSSocket) || !socket.authorized) return undefined;
  const certificate = socket.getPeerX509Certificate();
  const name: string | string[] | undefined = socket.getPeerCertificate().subject?.CN;
  const common = Array.isArray(name) ? name[0] : name;
  return common ?? certificate?.subjectAltName ?? certificate?.serialNumber;
}

/**
 * Makes Node's parser ignore the rest of its input, as after an upgrade (return value 2). Thousands of pipelined requests
 * would otherwise stay in memory.
 */
function cutReading(socket: Socket & { parser?: { onIncoming?: unknown } | null }): void {
  if (socket.parser) socket.parser.onIncoming = () => 2;
  socket.destroy();
}

/** Identifies a connection. With TLS, a request and its connection have different socket objects. */
const clientOf = ({ remoteAddress, remotePort, localAddress }: Socket) =>
  `${remoteAddress} ${remotePort} ${localAddress}`;

interface Connection {
  readonly socket: Socket;
  /** Requests without a complete response. */
  readonly requests: Set<IncomingMessage>;
}

/** Whether no complete request of a connection is in progress. */
const isIncomplete = ({ requests }: Connection) => requests.values().every(({ complete }) => !complete);

/**
 * Limits the number of connections and of pipelined requests. At the limit, closes the connection that has been without a
 * complete request for the longest time, so that idle or slow clients never keep others out.
 */
function limitConnections(server: Server, bounds: Bounds, logBound: LogBound, onRequest: RequestListener) {
  let max = bounds.maxConnections;
  for (const event of ['connection', 'secureConnection']) {
    // Each request adds three listeners to its connection.
    server.on(event, (socket: Socket) => void socket.setMaxListeners(10 + 3 * bounds.pipelined));
  }
  /** Connections by client, ordered by the end of their last response or, before any response, by their start. */
  const open = new Map<string, Connection>();
  server.on('connection', (socket: Socket) => {
    if (open.size >= max) {
      const message =
        'server.maxConnections is reached: a new connection replaces the one that is idle for the longest time';
      logBound('connections', { limit: max }, message);
      const [client, oldest] = open.entries().find(([, connection]) => isIncomplete(connection)) ?? [];
      (oldest?.socket ?? socket).destroy();
      if (client === undefined) return;
      open.delete(client);
    }
    const [client, connection] = [clientOf(socket), { socket, requests: new Set<IncomingMessage>() }];
    open.set(client, connection);
    socket.once('close', () => {
      if (open.get(client) === connection) open.delete(client);
    });
  });
  server.on('request', (request, response) => {
    const client = clientOf(request.socket);
    const connection = open.get(client);
    // Ignore pipelined requests of a closed connection.
    if (request.socket.destroyed || !connection) return;
    if (connection.requests.size >= bounds.pipelined) {
      const message = 'clients that pipeline too many requests are disconnected';
      logBound('pipelined', { address: request.socket.remoteAddress }, message);
      cutReading(request.socket);
      return;
    }
    connection.requests.add(request);
    whenOver(request, response, () => {
      connection.requests.delete(request);
      if (open.get(client) !== connection) return;
      open.delete(client);
      open.set(client, connection);
    });
    onRequest(request, response);
  });
  return {
    sockets: () => open.values().map(({ socket }) => socket),
    setMax(connections: number): void {
      max = connections;
    },
  };
}

/** The TLS settings with which each connection was admitted. When the client CA changes, clients must reconnect. */
export type Admission = WeakMap<Socket, WebTls>;

export interface Tls {
  readonly access: Access;
  readonly admission: Admission;
}

/** Applies new certificates to new connections, and disconnects clients with a refused certificate. */
function keepCertificates(server: TlsServer, first: WebTls, { access, admission }: Tls, logBound: LogBound): void {
  let used = first;
  /** TLS settings at the start of each handshake, by client. The current settings may change during the handshake. */
  const begun = new Map<string, WebTls>();
  server.prependListener('connection', (socket: Socket) => {
    const now = access()?.tls;
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
    if (why === undefined) admission.set(socket, by);
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
  { bounds, logBound, log }: ListenerDeps,
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
  const first = tls?.access()?.tls;
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
    close: () => closeServer(server, connections.sockets),
  };
}
