import { listenRaw, listenTcp, packet } from './listen.ts';
import { type Asked, type HostileService, LISTS, type List } from './service.ts';
import { WELL, wellAnswer } from './well-service.ts';

const well = (asked: Asked) => packet(JSON.stringify(wellAnswer(asked)));
const head = (...headers: string[]) => ['HTTP/1.1 200 OK', ...headers, '', ''].join('\r\n');

/** A service that answers every request with the same bytes and says no more. */
const saying = (name: string, outcome: HostileService['outcome'], bytes: string | Buffer): HostileService => ({
  name,
  outcome,
  start: site => listenRaw(site, (_asked, socket) => void socket.end(bytes)),
});

/** Faults of HTTP itself: framing, headers, statuses that are none, connections kept alive. */
export const protocolServices: readonly HostileService[] = [
  saying('not-http', 'invalid_response', 'SSH-2.0-OpenSSH_9.6\r\n'),
  saying('one-huge-header', 'invalid_response', `${head(`x: ${'y'.repeat(200_000)}`)}[]`),
  saying(
    'many-headers',
    'invalid_response',
    packet(
      '[]',
      Array.from({ length: 5000 }, (_, index) => `x-${index}: y`),
    ),
  ),
  saying('header-with-nul', 'invalid_response', packet('[]', ['x: \0'])),
  saying('two-lengths', 'network', packet('[]', ['content-length: 3'])),
  saying('length-and-chunks', 'invalid_response', packet('2\r\n[]\r\n0\r\n\r\n', ['transfer-encoding: chunked'])),
  saying('negative-length', 'invalid_response', `${head('content-length: -1')}[]`),
  saying('length-beyond-numbers', 'network', `${head('content-length: 99999999999999999999999')}[]`),
  saying('chunk-without-size', 'invalid_response', `${head('transfer-encoding: chunked')}zz\r\n[]\r\n0\r\n\r\n`),
  saying(
    'chunk-beyond-numbers',
    'invalid_response',
    `${head('transfer-encoding: chunked')}fffffffffffffffff\r\n[]\r\n0\r\n\r\n`,
  ),
  saying('says-less-than-it-sends', 'invalid_response', `${head('content-length: 1')}[]`),
  saying('switches-protocols', 'network', packet('', ['connection: upgrade', 'upgrade: x'], '101 Switching Protocols')),
  saying('continues', 'network', 'HTTP/1.1 100 Continue\r\n\r\n'.repeat(1000)),
  {
    name: 'thousands-of-hints',
    outcome: 'ok',
    start: site =>
      listenRaw(site, (asked, socket) => {
        socket.write('HTTP/1.1 103 Early Hints\r\nlink: <x>\r\n\r\n'.repeat(2000));
        socket.write(well(asked));
      }),
  },
  {
    name: 'hints-for-ever',
    outcome: 'timeout',
    start: site =>
      listenRaw(site, (_asked, socket) => {
        const hints = setInterval(() => socket.write('HTTP/1.1 102 Processing\r\n\r\n'.repeat(50)), 50);
        socket.once('close', () => clearInterval(hints));
      }),
  },
  {
    name: 'trailers-for-ever',
    outcome: 'invalid_response',
    start: site =>
      listenRaw(site, (_asked, socket) => {
        socket.write(`${head('transfer-encoding: chunked')}2\r\n[]\r\n0\r\n`);
        const trailers = setInterval(() => socket.write('x: y\r\n'.repeat(1000)), 50);
        socket.once('close', () => clearInterval(trailers));
      }),
  },
  {
    name: 'extension-for-ever',
    outcome: 'timeout',
    start: site =>
      listenRaw(site, (_asked, socket) => {
        socket.write(`${head('transfer-encoding: chunked')}2;x=`);
        const extension = setInterval(() => socket.write('y'.repeat(10_000)), 50);
        socket.once('close', () => clearInterval(extension));
      }),
  },
  {
    // Closing is the only end that HTTP/1.0 knows.
    name: 'http-1-0',
    outcome: 'ok',
    start: site =>
      listenRaw(
        site,
        (asked, socket) => void socket.end(`HTTP/1.0 200 OK\r\n\r\n${JSON.stringify(wellAnswer(asked))}`),
      ),
  },
  {
    name: 'answers-twice',
    outcome: 'ok',
    shows: { delivery_dlq_messages: WELL.deadLetters },
    start: site =>
      listenRaw(site, (asked, socket) => {
        socket.write(well(asked));
        socket.write(well({ ...asked, list: other(asked.list) }));
      }),
  },
  {
    // Nobody can tell that it came too early; the connection is good for one answer.
    name: 'answers-before-it-is-asked',
    outcome: 'ok',
    start: () => listenTcp(socket => void socket.write(packet('{"messages":[],"events":[],"flowControls":[]}'))),
  },
  {
    name: 'closes-kept-connections-at-random',
    outcome: 'ok',
    start: site =>
      listenRaw(site, (asked, socket) => {
        if (site.random() < 0.1) socket.destroy();
        else if (site.random() < 0.3) socket.end(well(asked));
        else socket.write(well(asked));
      }),
  },
];

/** The list that is read after this one. */
function other(list: List): List {
  return LISTS[(LISTS.indexOf(list) + 1) % LISTS.length] as List;
}
