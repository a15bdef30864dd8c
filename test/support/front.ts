import { request as ask, createServer, type IncomingHttpHeaders, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface FrontRequest {
  readonly method: string;
  /** Path and query. */
  readonly path: string;
}

/** What stands between a client and a service. What it waits for, the client waits for; what never comes, never. */
export interface FrontHooks {
  /** A request has come, and the service knows nothing of it. */
  before?(request: FrontRequest): Promise<unknown> | unknown;
  /** The service has answered, and the client knows nothing of it. The headers, and the body, may be changed. */
  after?(
    request: FrontRequest,
    answer: { readonly headers: IncomingHttpHeaders; body: Buffer },
  ): Promise<unknown> | unknown;
}

export interface Front {
  readonly url: string;
  close(): Promise<void>;
}

async function bodyOf(message: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of message) chunks.push(chunk);
  return Buffer.concat(chunks);
}

/** Passes every request on to the service at `target`, and its answer back. A connection that the service resets is reset. */
export async function startFront(target: string, hooks: FrontHooks): Promise<Front> {
  const server = createServer(async (incoming, response) => {
    const { method = '', url: path = '', headers } = incoming;
    const request = { method, path };
    try {
      await hooks.before?.(request);
      const passed = ask(target + path, { method, headers: { ...headers, host: new URL(target).host }, agent: false });
      response.once('close', () => passed.destroy());
      const answered = Promise.withResolvers<IncomingMessage>();
      passed.once('response', answered.resolve).once('error', answered.reject).end();
      const answer = await answered.promise;
      const { connection: _, ...received } = answer.headers;
      const held = { headers: received as IncomingHttpHeaders, body: await bodyOf(answer) };
      await hooks.after?.(request, held);
      const { 'transfer-encoding': __, 'content-length': ___, ...kept } = held.headers;
      response.writeHead(answer.statusCode ?? 500, kept).end(held.body);
    } catch {
      incoming.socket.resetAndDestroy();
    }
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
