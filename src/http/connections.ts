import type { IncomingMessage, RequestListener, Server } from 'node:http';
import type { Socket } from 'node:net';
import type { Bounds, LogBound } from './bounds.ts';
import { whenOver } from './response-limiter.ts';

/**
 * Makes Node's parser ignore the rest of its input, as after an upgrade (return value 2). Thousands of pipelined requests
 * would otherwise stay in memory.
 */
function cutReading(socket: Socket & { parser?: { onIncoming?: unknown } | null }): void {
  if (socket.parser) socket.parser.onIncoming = () => 2;
  socket.destroy();
}

/** Identifies a connection. With TLS, a request has another socket object than its connection. */
export const clientOf = ({ remoteAddress, remotePort, localAddress }: Socket) =>
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
export function limitConnections(server: Server, bounds: Bounds, logBound: LogBound, onRequest: RequestListener) {
  let max = bounds.maxConnections;
  for (const event of ['connection', 'secureConnection']) {
    // Each request adds three listeners to its connection.
    server.on(event, (socket: Socket) => void socket.setMaxListeners(10 + 3 * bounds.pipelined));
  }
  /** Connections by client, in the order in which they were opened or their last response ended. */
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
