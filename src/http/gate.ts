import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { withDeadline } from '../kit/clock.ts';
import { type Answers, whenOver } from './answers.ts';
import type { Bounds, LogBound } from './bounds.ts';
import { hostOf } from './options.ts';

/** Statuses of requests that can't be read; any other fault is 400. */
const UNREADABLE: Readonly<Record<string, string>> = {
  HPE_HEADER_OVERFLOW: '431 Request Header Fields Too Large',
  HPE_CHUNK_EXTENSIONS_OVERFLOW: '413 Payload Too Large',
  ERR_HTTP_REQUEST_TIMEOUT: '408 Request Timeout',
};

/** Logs that a connection is cut, with its route: no query. */
export function logCut(logBound: LogBound, { url = '', socket }: IncomingMessage): void {
  const path = url.split('?', 1)[0]?.slice(0, 100);
  logBound(
    'answers',
    { path, address: socket.remoteAddress },
    'clients that do not read their response in time are disconnected',
  );
}

/** Lets a server refuse connections beyond the bound, and those that take too long to say what they want. */
export function guardConnections(server: Server, bounds: Bounds, logBound: LogBound): void {
  server.maxConnections = bounds.maxConnections;
  server.keepAliveTimeout = bounds.keepAliveFor;
  // Each request listens for the end of its connection, three times, and Node.js itself.
  const listeners = 10 + 3 * bounds.pipelined;
  server.on('connection', (socket: Socket) => void socket.setMaxListeners(listeners));
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
    // Behind a first answer it would be taken for a part of it.
    if (socket.writable && socket.bytesWritten === 0) {
      socket.write(`HTTP/1.1 ${UNREADABLE[code] ?? '400 Bad Request'}\r\nConnection: close\r\n\r\n`);
    }
    socket.destroy();
  });
}

/**
 * Cuts a connection in the middle of what was read of it. Node.js would make a request of each of the thousands that may
 * stand there, and keep them until the connection is closed; 2 tells its parser to leave the rest alone, as for an upgrade.
 */
function cutReading(socket: Socket & { parser?: { onIncoming?: unknown } | null }): void {
  if (socket.parser) socket.parser.onIncoming = () => 2;
  socket.destroy();
}

export interface GateOptions {
  readonly bounds: Bounds;
  readonly answers: Answers;
  /** The hosts in use now, as `hostOf` gives them; none: any. */
  readonly hosts: () => ReadonlySet<string>;
}

/** What every request passes on its way to the routes, whichever it is for. */
export function createGate(
  { bounds, answers, hosts }: GateOptions,
  logBound: LogBound,
  routes: RequestListener,
): RequestListener {
  /** Requests of each connection that have no answer yet. */
  const unanswered = new WeakMap<Socket, number>();

  function isAllowed({ headersDistinct: { host = [] } }: IncomingMessage): boolean {
    const allowed = hosts();
    return allowed.size === 0 || (host.length === 1 && allowed.has(hostOf(host[0]) ?? ''));
  }

  function setDeadline(request: IncomingMessage, response: ServerResponse): void {
    void withDeadline(bounds.answerWithin, new AbortController().signal, signal => {
      signal.addEventListener('abort', () => {
        logCut(logBound, request);
        request.socket.destroy();
      });
      return new Promise<void>(resolve => whenOver(request, response, resolve));
    });
  }

  /** Every body that a route ends its answer with goes by `answers`. From then on it is the client that has to take it. */
  function sendBounded(request: IncomingMessage, response: ServerResponse): void {
    const end = response.end.bind(response) as (...args: unknown[]) => ServerResponse;
    response.end = ((...args: unknown[]) => {
      response.end = end as ServerResponse['end'];
      setDeadline(request, response);
      const [body] = args;
      if (!Buffer.isBuffer(body) || request.method === 'HEAD') return end(...args);
      answers.send(request, response, body, end);
      return response;
    }) as ServerResponse['end'];
  }

  return (request, response) => {
    const { socket } = request;
    // What stood behind the request that a connection was cut for.
    if (socket.destroyed) return;
    const open = (unanswered.get(socket) ?? 0) + 1;
    if (open > bounds.pipelined) {
      logBound(
        'pipelined',
        { address: socket.remoteAddress },
        'clients that pipeline too many requests are disconnected',
      );
      cutReading(socket);
      return;
    }
    unanswered.set(socket, open);
    whenOver(request, response, () => unanswered.set(socket, (unanswered.get(socket) ?? 1) - 1));
    response.setHeader('X-Content-Type-Options', 'nosniff');
    // No route reads a body, and its end is not waited for.
    const { 'transfer-encoding': chunked, 'content-length': length = '0' } = request.headers;
    if (chunked !== undefined || length !== '0') response.setHeader('Connection', 'close');
    sendBounded(request, response);
    if (!isAllowed(request)) {
      response.writeHead(421, { 'Content-Type': 'text/plain; charset=utf-8' }).end('not a host of this server\n');
      return;
    }
    routes(request, response);
  };
}
