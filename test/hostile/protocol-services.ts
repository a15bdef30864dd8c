import { HEALTHY, healthyResponse } from './healthy-service.ts';
import { listenRaw, listenTcp, packet } from './listen.ts';
import { type HostileService, LISTS, type List, type ListRequest } from './service.ts';

const healthy = (listRequest: ListRequest) => packet(JSON.stringify(healthyResponse(listRequest)));
const head = (...headers: string[]) => ['HTTP/1.1 200 OK', ...headers, '', ''].join('\r\n');

/** Returns a service that responds to every request with `bytes` and closes the connection. */
const responding = (name: string, outcome: HostileService['outcome'], bytes: string | Buffer): HostileService => ({
  name,
  outcome,
  start: site => listenRaw(site, (_listRequest, socket) => void socket.end(bytes)),
});

/** HTTP protocol errors: framing, headers, invalid statuses, persistent connections. */
export const protocolServices: readonly HostileService[] = [
  responding('not-http', 'invalid_response', 'SSH-2.0-OpenSSH_9.6\r\n'),
  responding('one-huge-header', 'invalid_response', `${head(`x: ${'y'.repeat(200_000)}`)}[]`),
  responding(
    'many-headers',
    'invalid_response',
    packet(
      '[]',
      Array.from({ length: 5000 }, (_, index) => `x-${index}: y`),
    ),
  ),
  responding('header-with-nul', 'invalid_response', packet('[]', ['x: \0'])),
  responding('two-lengths', 'network', packet('[]', ['content-length: 3'])),
  responding('length-and-chunks', 'invalid_response', packet('2\r\n[]\r\n0\r\n\r\n', ['transfer-encoding: chunked'])),
  responding('negative-length', 'invalid_response', `${head('content-length: -1')}[]`),
  responding('length-beyond-numbers', 'network', `${head('content-length: 99999999999999999999999')}[]`),
  responding('chunk-without-size', 'invalid_response', `${head('transfer-encoding: chunked')}zz\r\n[]\r\n0\r\n\r\n`),
  responding(
    'chunk-beyond-numbers',
    'invalid_response',
    `${head('transfer-encoding: chunked')}fffffffffffffffff\r\n[]\r\n0\r\n\r\n`,
  ),
  responding('content-length-below-body', 'invalid_response', `${head('content-length: 1')}[]`),
  responding(
    'switches-protocols',
    'network',
    packet('', ['connection: upgrade', 'upgrade: x'], '101 Switching Protocols'),
  ),
  responding('continues', 'network', 'HTTP/1.1 100 Continue\r\n\r\n'.repeat(1000)),
  {
    name: 'thousands-of-hints',
    outcome: 'ok',
    start: site =>
      listenRaw(site, (listRequest, socket) => {
        socket.write('HTTP/1.1 103 Early Hints\r\nlink: <x>\r\n\r\n'.repeat(2000));
        socket.write(healthy(listRequest));
      }),
  },
  {
    name: 'endless-hints',
    outcome: 'timeout',
    start: site =>
      listenRaw(site, (_listRequest, socket) => {
        const hints = setInterval(() => socket.write('HTTP/1.1 102 Processing\r\n\r\n'.repeat(50)), 50);
        socket.once('close', () => clearInterval(hints));
      }),
  },
  {
    name: 'endless-trailers',
    outcome: 'invalid_response',
    start: site =>
      listenRaw(site, (_listRequest, socket) => {
        socket.write(`${head('transfer-encoding: chunked')}2\r\n[]\r\n0\r\n`);
        const trailers = setInterval(() => socket.write('x: y\r\n'.repeat(1000)), 50);
        socket.once('close', () => clearInterval(trailers));
      }),
  },
  {
    name: 'endless-chunk-extension',
    outcome: 'timeout',
    start: site =>
      listenRaw(site, (_listRequest, socket) => {
        socket.write(`${head('transfer-encoding: chunked')}2;x=`);
        const extension = setInterval(() => socket.write('y'.repeat(10_000)), 50);
        socket.once('close', () => clearInterval(extension));
      }),
  },
  {
    // HTTP/1.0 without a length ends the response by closing the connection.
    name: 'http-1-0',
    outcome: 'ok',
    start: site =>
      listenRaw(
        site,
        (listRequest, socket) =>
          void socket.end(`HTTP/1.0 200 OK\r\n\r\n${JSON.stringify(healthyResponse(listRequest))}`),
      ),
  },
  {
    name: 'responds-twice',
    outcome: 'ok',
    shows: { delivery_dlq_messages: HEALTHY.deadLetters },
    start: site =>
      listenRaw(site, (listRequest, socket) => {
        socket.write(healthy(listRequest));
        socket.write(healthy({ ...listRequest, list: other(listRequest.list) }));
      }),
  },
  {
    // The client cannot detect that the response came before the request. Each connection carries only one response.
    name: 'responds-before-the-request',
    outcome: 'ok',
    start: () => listenTcp(socket => void socket.write(packet('{"messages":[],"events":[],"flowControls":[]}'))),
  },
  {
    name: 'closes-kept-connections-at-random',
    outcome: 'ok',
    start: site =>
      listenRaw(site, (listRequest, socket) => {
        if (site.random() < 0.1) socket.destroy();
        else if (site.random() < 0.3) socket.end(healthy(listRequest));
        else socket.write(healthy(listRequest));
      }),
  },
];

/** Returns the list after `list` in `LISTS`; the first list follows the last one. */
function other(list: List): List {
  return LISTS[(LISTS.indexOf(list) + 1) % LISTS.length] as List;
}
