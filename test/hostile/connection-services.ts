import { createServer as createTlsServer } from 'node:tls';
import { healthyResponse } from './healthy-service.ts';
import { flood, listenHttp, listenHttps, listenRaw, listenTcp, packet } from './listen.ts';
import { type HostileService, json } from './service.ts';

const nothing = () => Promise.resolve();

/** Errors below HTTP: host names, ports, TLS, broken or stalled connections. */
export const connectionServices: readonly HostileService[] = [
  {
    name: 'refused-connection',
    outcome: 'network',
    // A privileged port without a listener.
    start: async () => ({ url: 'http://127.0.0.1:1', close: nothing }),
  },
  {
    name: 'unknown-host',
    outcome: 'network',
    start: async () => ({ url: 'http://no-such-host.invalid', close: nothing }),
  },
  {
    name: 'untrusted-tls',
    outcome: 'network',
    tls: true,
    start: site =>
      listenHttps(site, (listRequest, response) => {
        site.complain('a request over TLS with an untrusted certificate');
        json(response, healthyResponse(listRequest));
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
    name: 'reset-on-request',
    outcome: 'network',
    start: site => listenRaw(site, (_listRequest, socket) => void socket.resetAndDestroy()),
  },
  {
    name: 'reset-in-the-body',
    outcome: 'network',
    start: site =>
      listenRaw(site, (listRequest, socket) => {
        const whole = packet(JSON.stringify(healthyResponse(listRequest)));
        socket.write(whole.subarray(0, whole.length / 2), () => socket.resetAndDestroy());
      }),
  },
  {
    name: 'cut-short-of-its-length',
    outcome: 'network',
    start: site =>
      listenRaw(
        site,
        (listRequest, socket) => void socket.end(packet(JSON.stringify(healthyResponse(listRequest))).subarray(0, -9)),
      ),
  },
  {
    name: 'cut-between-chunks',
    outcome: 'network',
    start: site =>
      listenRaw(
        site,
        (_listRequest, socket) =>
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
    start: site => listenHttp(site, (_listRequest, response) => void response.writeHead(200).write('{"messages":')),
  },
  {
    name: 'drips',
    outcome: 'timeout',
    start: site =>
      listenHttp(site, (_listRequest, response) => {
        response.writeHead(200).write('[');
        const drops = setInterval(() => response.write(' '), 1000);
        response.once('close', () => clearInterval(drops));
      }),
  },
  {
    name: 'drips-headers',
    outcome: 'timeout',
    start: site =>
      listenRaw(site, (_listRequest, socket) => {
        socket.write('HTTP/1.1 200 OK\r\n');
        const drops = setInterval(() => socket.write('x: y\r\n'), 200);
        socket.once('close', () => clearInterval(drops));
      }),
  },
  {
    name: 'floods-without-request',
    outcome: 'invalid_response',
    start: () => listenTcp(socket => flood(socket, Buffer.alloc(65_536, 'x'))),
  },
];
