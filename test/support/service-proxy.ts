import { createServer, type RequestListener } from 'node:http';
import { type AddressInfo, Socket } from 'node:net';

/** A request through the proxy. Times are in milliseconds of this process's monotonic clock. */
export interface Passed {
  /** Name of the proxy and its client. */
  readonly by: string;
  readonly authorization: string;
  readonly method: string;
  readonly path: string;
  /** When its headers were received. */
  readonly start: number;
  /** When its response was sent or its connection was closed; infinity until then. */
  end: number;
}

export interface ServiceProxy {
  readonly url: string;
  close(): Promise<void>;
}

/**
 * Starts an HTTP proxy for one client in front of an emulated service. The proxy adds every request to `log` in order of
 * arrival. It opens no connections: `answer` serves all requests, regardless of their target.
 */
export async function startServiceProxy(by: string, answer: RequestListener, log: Passed[]): Promise<ServiceProxy> {
  const server = createServer((request, response) => {
    const { method = '', url = '', headers } = request;
    const { pathname, search } = new URL(url, 'http://service');
    const passed: Passed = {
      by,
      authorization: headers.authorization ?? '',
      method,
      path: pathname + search,
      start: performance.now(),
      end: Number.POSITIVE_INFINITY,
    };
    log.push(passed);
    response.once('close', () => {
      passed.end = performance.now();
    });
    request.url = passed.path;
    answer(request, response);
  });
  // The client sends its requests through the tunnel: handle them here, too.
  server.on('connect', (_request, socket) => {
    if (!(socket instanceof Socket)) throw new Error('the tunnel is not a TCP connection');
    socket.write('HTTP/1.1 200 Connection established\r\n\r\n');
    server.emit('connection', socket);
  });
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close() {
      server.closeAllConnections();
      return new Promise(resolve => server.close(() => resolve()));
    },
  };
}
