import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import type { Bounds, LogBound } from './bounds.ts';

/** Response statuses by error code; default: 400. */
const UNREADABLE: Readonly<Record<string, string>> = {
  HPE_HEADER_OVERFLOW: '431 Request Header Fields Too Large',
  HPE_CHUNK_EXTENSIONS_OVERFLOW: '413 Payload Too Large',
  ERR_HTTP_REQUEST_TIMEOUT: '408 Request Timeout',
};

/** Errors before TLS is established, when no response is possible. */
const IN_HANDSHAKE = /^ERR_(SSL|TLS)_/;

/** Limits the number of connections, and disconnects clients with invalid or incomplete requests. */
export function guardConnections(server: Server, bounds: Bounds, logBound: LogBound): void {
  server.maxConnections = bounds.maxConnections;
  server.keepAliveTimeout = bounds.keepAliveFor;
  // Each request adds three listeners to its connection.
  const listeners = 10 + 3 * bounds.pipelined;
  for (const event of ['connection', 'secureConnection']) {
    server.on(event, (socket: Socket) => void socket.setMaxListeners(listeners));
  }
  server.on('drop', () => {
    logBound(
      'connections',
      { limit: server.maxConnections },
      'server.maxConnections is reached: new connections are refused, idle ones are closed',
    );
    server.closeIdleConnections();
  });
  server.on('clientError', (error: NodeJS.ErrnoException, socket: Socket) => {
    const { code = '' } = error;
    if (code === 'ERR_HTTP_REQUEST_TIMEOUT') {
      logBound(
        'requests',
        { address: socket.remoteAddress },
        'clients that do not send a complete request in time are disconnected',
      );
    }
    if (IN_HANDSHAKE.test(code)) {
      const [bound, message] =
        code === 'ERR_TLS_HANDSHAKE_TIMEOUT'
          ? ['handshakes', 'clients that do not complete the TLS handshake in time are disconnected']
          : ['tls', 'clients that fail the TLS handshake are disconnected'];
      logBound(bound, { address: socket.remoteAddress, error: code }, message);
      socket.destroy();
      return;
    }
    // Respond only if nothing has been sent: after an earlier response, the client could misread this one as a part of it.
    if (socket.writable && socket.bytesWritten === 0) {
      socket.write(`HTTP/1.1 ${UNREADABLE[code] ?? '400 Bad Request'}\r\nConnection: close\r\n\r\n`);
    }
    socket.destroy();
  });
}
