import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterThisTest } from './client.ts';

export interface HttpService {
  readonly url: string;
  /** All requests in order, as `METHOD path?query`. */
  readonly requests: string[];
  readonly headers: IncomingMessage['headers'][];
  close(): Promise<void>;
}

/** Starts an HTTP service on a real socket. */
export async function startHttpService(
  handle: (request: IncomingMessage, response: ServerResponse) => void,
): Promise<HttpService> {
  const requests: string[] = [];
  const headers: IncomingMessage['headers'][] = [];
  const server = createServer((request, response) => {
    requests.push(`${request.method} ${request.url}`);
    headers.push(request.headers);
    handle(request, response);
  });
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    headers,
    close() {
      server.closeAllConnections();
      return new Promise(resolve => server.close(() => resolve()));
    },
  };
}

/** Starts a service that is closed after the test. */
export async function serve(handle: Parameters<typeof startHttpService>[0] = () => undefined): Promise<HttpService> {
  const service = await startHttpService(handle);
  afterThisTest(service.close);
  return service;
}

export function json(response: ServerResponse, body: unknown, status = 200): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}
