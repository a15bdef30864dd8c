import { createServer, type Server as HttpServer } from 'node:http';
import { createServer as createHttpsServer } from 'node:https';
import { type AddressInfo, createServer as createTcpServer, type Server, type Socket } from 'node:net';
import { type Answer, type Asked, type Running, type Site, toAsked } from './service.ts';

/** Opens a port on loopback, and closes it with every connection that is left. */
async function open(server: Server, scheme: 'http' | 'https'): Promise<Running> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    // Being cut off is what happens to a hostile service.
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
    answer(toAsked(site, method, url, headers.authorization), response, request);
  });
}

/** Correct HTTP; what it answers is `answer`'s affair. */
export const listenHttp = (site: Site, answer: Answer): Promise<Running> =>
  open(answering(site, answer, createServer()), 'http');

/** The same behind TLS, with the certificate of the site. */
export const listenHttps = (site: Site, answer: Answer): Promise<Running> =>
  open(answering(site, answer, createHttpsServer(site.certificate) as unknown as HttpServer), 'https');

/** Bare connections. */
export const listenTcp = (connected: (socket: Socket) => void, scheme: 'http' | 'https' = 'http'): Promise<Running> =>
  open(createTcpServer(connected), scheme);

/** Bytes as they are written, one call of `answer` for every request that has been received whole. */
export function listenRaw(site: Site, answer: (asked: Asked, socket: Socket) => void): Promise<Running> {
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
        answer(toAsked(site, method, target, authorization?.replace(/^\w+: */, '')), socket);
      }
    });
  });
}

/** A whole answer, as bytes on the wire. */
export function packet(body: string, headers: readonly string[] = [], status = '200 OK'): Buffer {
  const bytes = Buffer.from(body);
  const lines = [`HTTP/1.1 ${status}`, ...headers, `content-length: ${bytes.length}`, '', ''];
  return Buffer.concat([Buffer.from(lines.join('\r\n'), 'latin1'), bytes]);
}

/** Writes `block` again and again, as fast as it is read, for as long as the connection lives. */
export function flood(socket: Socket, block: Buffer): void {
  const more = () => {
    while (!socket.destroyed && socket.writable) if (!socket.write(block)) return;
  };
  socket.on('drain', more);
  more();
}
