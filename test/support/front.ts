import { request as ask, createServer, type IncomingHttpHeaders, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface FrontRequest {
  readonly method: string;
  /** Path and query of the request. */
  readonly path: string;
}

/** Hooks between a client and a service. The client waits until a hook resolves. */
export interface FrontHooks {
  /** Called before the request is forwarded. */
  before?(request: FrontRequest): Promise<unknown> | unknown;
  /** Called before the response is returned. May change its headers and body. */
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

/** Forwards every request to the service at `target` and returns its response. Connection resets are forwarded too. */
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
