import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterThisTest } from './client.ts';

/** Starts a server with this listener and returns its URL. The server is closed after the test. */
export async function openPort(listener: RequestListener): Promise<string> {
  const server = createServer(listener).listen(0, '127.0.0.1');
  afterThisTest(async () => {
    server.closeAllConnections();
    server.close();
  });
  await new Promise(resolve => server.once('listening', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}
