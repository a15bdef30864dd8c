import { createServer, type RequestListener } from 'node:http';
import { type AddressInfo, Socket } from 'node:net';

/** A request that a client sent through its proxy. Times: milliseconds of this process's monotonic clock. */
export interface Passed {
  /** Name of the proxy, and so of its client. */
  readonly by: string;
  readonly authorization: string;
  readonly method: string;
  readonly path: string;
  /** Its headers were here. */
  readonly start: number;
  /** Its answer was sent, or its connection was gone; infinity until then. */
  end: number;
}

export interface ServiceProxy {
  readonly url: string;
  close(): Promise<void>;
}

/**
 * An HTTP proxy in front of an emulated service, for one client: it writes every request into `log`, in the order of their
 * start. What it is asked for, `answer` answers, wherever the request would go: requests cost no second connection.
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
  // Inside of the tunnel the client speaks to the service.
  server.on('connect', (_request, socket) => {
    if (!(socket instanceof Socket)) throw new Error('the tunnel is no TCP connection');
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
