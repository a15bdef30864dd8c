import { createServer as createTlsServer } from 'node:tls';
import { flood, listenHttp, listenHttps, listenRaw, listenTcp, packet } from './listen.ts';
import { type HostileService, json } from './service.ts';
import { wellAnswer } from './well-service.ts';

const nothing = () => Promise.resolve();

/** Faults below HTTP: names, ports, TLS, connections that break or stand still. */
export const connectionServices: readonly HostileService[] = [
  {
    name: 'refused-connection',
    outcome: 'network',
    // A port that only the system could open, and that no service of a system uses any more.
    start: async () => ({ url: 'http://127.0.0.1:1', close: nothing }),
  },
  {
    name: 'unknown-host',
    outcome: 'network',
    start: async () => ({ url: 'http://no-such-host.invalid', close: nothing }),
  },
  {
    name: 'tls-of-nobody',
    outcome: 'network',
    tls: true,
    start: site =>
      listenHttps(site, (asked, response) => {
        site.complain('a request over TLS that nobody vouches for');
        json(response, wellAnswer(asked));
      }),
  },
  {
    name: 'plain-on-https',
    outcome: 'network',
    async start(site) {
      const plain = await listenHttp(site, () => site.complain('a request in the clear'));
      return { ...plain, url: plain.url.replace('http:', 'https:') };
    },
  },
  {
    name: 'tls-on-http',
    outcome: 'network',
    tls: true,
    start(site) {
      const tls = createTlsServer(site.certificate);
      return listenTcp(socket => void tls.emit('connection', socket));
    },
  },
  {
    name: 'tls-never-shakes-hands',
    outcome: 'timeout',
    start: () => listenTcp(() => undefined, 'https'),
  },
  {
    name: 'reset-at-once',
    outcome: 'network',
    start: () => listenTcp(socket => void socket.resetAndDestroy()),
  },
  {
    name: 'closes-at-once',
    outcome: 'network',
    start: () => listenTcp(socket => void socket.end()),
  },
  {
    name: 'reset-when-asked',
    outcome: 'network',
    start: site => listenRaw(site, (_asked, socket) => void socket.resetAndDestroy()),
  },
  {
    name: 'reset-in-the-body',
    outcome: 'network',
    start: site =>
      listenRaw(site, (asked, socket) => {
        const whole = packet(JSON.stringify(wellAnswer(asked)));
        socket.write(whole.subarray(0, whole.length / 2), () => socket.resetAndDestroy());
      }),
  },
  {
    name: 'cut-short-of-its-length',
    outcome: 'network',
    start: site =>
      listenRaw(site, (asked, socket) => void socket.end(packet(JSON.stringify(wellAnswer(asked))).subarray(0, -9))),
  },
  {
    name: 'cut-between-chunks',
    outcome: 'network',
    start: site =>
      listenRaw(
        site,
        (_asked, socket) =>
          void socket.end('HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nd\r\n{"messages":[\r\n'),
      ),
  },
  {
    name: 'hangs',
    outcome: 'timeout',
    start: site => listenHttp(site, () => undefined),
  },
  {
    name: 'hangs-in-the-body',
    outcome: 'timeout',
    start: site => listenHttp(site, (_asked, response) => void response.writeHead(200).write('{"messages":')),
  },
  {
    name: 'drips',
    outcome: 'timeout',
    start: site =>
      listenHttp(site, (_asked, response) => {
        response.writeHead(200).write('[');
        const drops = setInterval(() => response.write(' '), 1000);
        response.once('close', () => clearInterval(drops));
      }),
  },
  {
    name: 'drips-headers',
    outcome: 'timeout',
    start: site =>
      listenRaw(site, (_asked, socket) => {
        socket.write('HTTP/1.1 200 OK\r\n');
        const drops = setInterval(() => socket.write('x: y\r\n'), 200);
        socket.once('close', () => clearInterval(drops));
      }),
  },
  {
    name: 'floods-unasked',
    outcome: 'invalid_response',
    start: () => listenTcp(socket => flood(socket, Buffer.alloc(65_536, 'x'))),
  },
];
