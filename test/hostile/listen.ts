import { createServer, type Server as HttpServer } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import { type AddressInfo, createServer as createTcpServer, type Server, type Socket } from 'node:net';
import { type Answer, type ListRequest, parseRequest, type Running, type Site } from './service.ts';

/** Listens on a loopback port. `close` also destroys open connections. */
async function open(server: Server, scheme: 'http' | 'https'): Promise<Running> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    // The agent may reset the connection at any time.
    socket.on('error', () => undefined);
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(0, '127.0.0.1', resolve);
  });
  return {
    url: `${scheme}://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close() {
      for (const socket of sockets) socket.destroy();
      return new Promise(resolve => server.close(() => resolve()));
    },
  };
}

function answering(site: Site, answer: Answer, server: HttpServer): HttpServer {
  server.keepAliveTimeout = 60_000;
  return server.on('request', (request, response) => {
    const { method, url, headers } = request;
    answer(parseRequest(site, method, url, headers.authorization), response, request);
  });
}

/** Serves valid HTTP; `answer` writes the response. */
export const listenHttp = (site: Site, answer: Answer): Promise<Running> =>
  open(answering(site, answer, createServer()), 'http');

/** Like `listenHttp`, with TLS and the certificate of the site. */
export const listenHttps = (site: Site, answer: Answer): Promise<Running> =>
  open(answering(site, answer, createHttpsServer(site.certificate) as unknown as HttpServer), 'https');

/** Accepts raw TCP connections. */
export const listenTcp = (connected: (socket: Socket) => void, scheme: 'http' | 'https' = 'http'): Promise<Running> =>
  open(createTcpServer(connected), scheme);

/** Parses requests from raw connections and calls `answer` for each complete one. */
export function listenRaw(site: Site, answer: (listRequest: ListRequest, socket: Socket) => void): Promise<Running> {
  return listenTcp(socket => {
    let head = '';
    socket.setEncoding('latin1');
    socket.on('data', text => {
      head += text;
      for (let end = head.indexOf('\r\n\r\n'); end !== -1; end = head.indexOf('\r\n\r\n')) {
        const [line = '', ...headers] = head.slice(0, end).split('\r\n');
        head = head.slice(end + 4);
        const [method, target] = line.split(' ');
        const authorization = headers.find(header => /^authorization:/i.test(header));
        answer(parseRequest(site, method, target, authorization?.replace(/^\w+: */, '')), socket);
      }
    });
  });
}

export function packet(body: string, headers: readonly string[] = [], status = '200 OK'): Buffer {
  const bytes = Buffer.from(body);
  const lines = [`HTTP/1.1 ${status}`, ...headers, `content-length: ${bytes.length}`, '', ''];
  return Buffer.concat([Buffer.from(lines.join('\r\n'), 'latin1'), bytes]);
}

/** Writes `block` repeatedly, as fast as the peer reads, until the connection closes. */
export function flood(socket: Socket, block: Buffer): void {
  const more = () => {
    while (!socket.destroyed && socket.writable) if (!socket.write(block)) return;
  };
  socket.on('drain', more);
  more();
}
