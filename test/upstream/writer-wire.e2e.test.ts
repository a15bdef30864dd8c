import { EventEmitter, once } from 'node:events';
import { constants, createSecureServer, type ServerHttp2Stream } from 'node:http2';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer, type TLSSocket } from 'node:tls';
import { beforeAll, describe, expect, it } from 'vitest';
import { createCertificate } from '../hostile/certificate.ts';
import { afterThisTest, TOKEN } from '../support/client.ts';
import { atThisLoad } from '../support/eventually.ts';
import { settle } from '../support/manual-clock.ts';
import { createTestWriter, ID } from './writing.ts';

const OK = 'HTTP/1.1 204 No Content\r\n\r\n';

async function listen(server: Server): Promise<string> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.on('error', () => undefined);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  afterThisTest(async () => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Starts a server that responds to each request with `answer`. `received` counts connections and requests. */
async function startRaw(answer: (socket: Socket, request: number) => void, greeting = '') {
  const received = { connections: 0, requests: 0, text: '' };
  const host = await listen(
    createServer(socket => {
      received.connections += 1;
      socket.write(greeting);
      socket.on('data', chunk => {
        received.text += chunk;
        const requests = received.text.split('DELETE /').length - 1;
        for (; received.requests < requests; ) answer(socket, ++received.requests);
      });
    }),
  );
  return { url: `http://${host}`, received };
}

describe('one request per cancel', () => {
  it.each([
    ['a connection reset', (socket: Socket) => void socket.resetAndDestroy()],
    ['a closed connection', (socket: Socket) => void socket.end()],
    ['half of the headers', (socket: Socket) => void socket.end('HTTP/1.1 302 Fo')],
    ['a response that is not HTTP', (socket: Socket) => void socket.end('nonsense\r\n\r\n')],
    ['endless headers', (socket: Socket) => void socket.end(`HTTP/1.1 200 OK\r\nx: ${'y'.repeat(100_000)}\r\n\r\n`)],
    [
      'another protocol',
      (socket: Socket) => void socket.write('HTTP/1.1 101 x\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n'),
    ],
    ['only early hints', (socket: Socket) => void socket.end('HTTP/1.1 103 Early Hints\r\n\r\n')],
  ])(
    'exactly one request is sent and its result is unknown after %s, on a fresh and on a used connection',
    async (_what, disrupt) => {
      const { url, received } = await startRaw((socket, request) => (request % 2 ? socket.write(OK) : disrupt(socket)));
      const used = createTestWriter(url);
      expect(await used.cancel()).toEqual({ kind: 'accepted', status: 204 });
      await settle();
      expect(await used.cancel()).toEqual({ kind: 'unknown', status: undefined });
      expect(received).toMatchObject({ connections: 1, requests: 2 });
      // A retry would have been sent before this request.
      expect(await used.cancel()).toEqual({ kind: 'accepted', status: 204 });
      expect(received.requests).toBe(3);
      const fresh = createTestWriter(url);
      expect(await fresh.cancel()).toEqual({ kind: 'unknown', status: undefined });
      expect(await fresh.cancel()).toEqual({ kind: 'accepted', status: 204 });
      expect(received.requests).toBe(5);
    },
  );

  it('a cancel is not sent on a connection that was closed while idle', async () => {
    const closed = new EventEmitter();
    const { url, received } = await startRaw(socket => {
      socket.end(OK);
      socket.on('close', () => closed.emit('close'));
    });
    const { cancel } = createTestWriter(url);
    expect(await cancel()).toMatchObject({ kind: 'accepted' });
    await once(closed, 'close');
    expect(await cancel()).toMatchObject({ kind: 'accepted' });
    expect(received).toMatchObject({ connections: 2, requests: 2 });
  });

  it('a cancel whose response body is cut off is unknown, with the status of the response', async () => {
    const { url, received } = await startRaw(socket => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n1234'));
    const { cancel, seen } = createTestWriter(url);
    expect(await cancel()).toEqual({ kind: 'unknown', status: 200 });
    expect([received.requests, seen.requests, seen.bytes]).toEqual([1, { 'cancel network': 1 }, 4]);
  });

  it('a cancel is accepted after early hints', async () => {
    const { url } = await startRaw(socket => socket.write(`HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n${OK}`));
    expect(await createTestWriter(url).cancel()).toEqual({ kind: 'accepted', status: 204 });
  });

  it('a cancel is accepted because of the response status even if the response body is endless', async () => {
    const closed = new EventEmitter();
    const { url } = await startRaw(socket => {
      socket.write('HTTP/1.1 302 Found\r\ntransfer-encoding: chunked\r\n\r\n');
      const piece = `1000\r\n${'x'.repeat(0x1000)}\r\n`;
      const more = () => {
        while (!socket.destroyed && socket.write(piece));
      };
      socket.on('drain', more).on('close', () => closed.emit('close'));
      more();
    });
    const { cancel, seen } = createTestWriter(url);
    const left = once(closed, 'close');
    expect(await cancel()).toEqual({ kind: 'accepted', status: 302 });
    await left;
    expect(seen.bytes).toBeGreaterThan(64 * 1024);
    expect(seen.bytes).toBeLessThan(64 * 1024 + 128 * 1024);
    expect(seen.requests).toEqual({ 'cancel ok': 1 });
  });

  it('a cancel without a complete response is unknown after the timeout', async () => {
    for (const [sent, status] of [
      ['', undefined],
      ['HTTP/1.1 302 Found\r\ncontent-length: 9\r\n\r\n1', 302],
    ] as const) {
      const closed = new EventEmitter();
      const { url, received } = await startRaw(socket => {
        socket.on('close', () => closed.emit('close')).write(sent);
      });
      const { cancel, seen } = createTestWriter(url, { timeout: 200 });
      const left = once(closed, 'close');
      expect(await cancel()).toEqual({ kind: 'unknown', status });
      await left;
      expect([received.requests, seen.requests]).toEqual([1, { 'cancel timeout': 1 }]);
    }
  });

  it('a cancel is unknown if it is aborted after sending', async () => {
    const controller = new AbortController();
    const { url, received } = await startRaw(() => controller.abort());
    const { cancel, seen } = createTestWriter(url);
    expect(await cancel(ID, controller.signal)).toEqual({ kind: 'unknown', status: undefined });
    expect([received.requests, seen.requests]).toEqual([1, { 'cancel timeout': 1 }]);
  });
});

describe('unsent cancels', () => {
  it('no cancel is sent to a closed port or an unknown host', async () => {
    const server = createServer();
    const host = await listen(server);
    server.close();
    for (const url of [`http://${host}`, 'http://nowhere.invalid', `https://${host}`]) {
      const { cancel, seen } = createTestWriter(url);
      const answer = await cancel();
      expect(answer).toMatchObject({ kind: 'not_sent', why: expect.stringMatching(/^DELETE .*: E[A-Z_]+$/) });
      expect(JSON.stringify(answer)).not.toContain(TOKEN);
      expect(seen.requests).toEqual({ 'cancel network': 1 });
    }
  });

  it('no cancel is sent to a server without TLS or with an untrusted certificate', async () => {
    const { url, received } = await startRaw(() => undefined, OK);
    expect(await createTestWriter(url.replace('http', 'https')).cancel()).toMatchObject({ kind: 'not_sent' });
    const tls = createTlsServer(createCertificate());
    const host = await listen(tls);
    expect(await createTestWriter(`https://${host}`).cancel()).toMatchObject({ kind: 'not_sent' });
    expect(received.text).not.toContain('DELETE');
  });

  it('no cancel is sent if the TLS handshake is not complete within the timeout', async () => {
    const { url, received } = await startRaw(() => undefined);
    const { cancel, seen } = createTestWriter(url.replace('http', 'https'), { timeout: 200 });
    expect(await cancel()).toMatchObject({ kind: 'not_sent', why: expect.stringContaining('no response in time') });
    expect(received.text).not.toContain('DELETE');
    expect(seen.requests).toEqual({ 'cancel timeout': 1 });
  });

  it('no cancel is sent if it is aborted while connecting, even if the connection is established later', async () => {
    const certificate = createCertificate();
    const tls = createTlsServer(certificate);
    const gate = createServer();
    const [host, inner] = [await listen(gate), await listen(tls)];
    let sent = '';
    tls.on('secureConnection', (secured: TLSSocket) => {
      secured
        .on('error', () => undefined)
        .on('data', chunk => {
          sent += chunk;
        });
    });
    const controller = new AbortController();
    const { cancel, seen } = createTestWriter(`https://${host}`, { ca: certificate.cert });
    const asked = cancel(ID, controller.signal);
    const [socket] = (await once(gate, 'connection')) as [Socket];
    controller.abort();
    expect(await asked).toEqual({ kind: 'not_sent', why: 'stopped while connecting' });
    const closed = once(socket, 'close');
    const behind = connect(Number(inner.split(':')[1]));
    socket.pipe(behind.on('error', () => undefined)).pipe(socket);
    await closed;
    expect([sent, seen.requests]).toEqual(['', {}]);
  });
});

describe('HTTP/2', () => {
  let certificate: ReturnType<typeof createCertificate>;
  beforeAll(() => {
    certificate = createCertificate();
  });

  async function startHttp2(answer: (stream: ServerHttp2Stream, request: number) => void) {
    const received = { requests: 0 };
    const server = createSecureServer(certificate);
    server.on('stream', stream => {
      stream.on('error', () => undefined);
      answer(stream, ++received.requests);
    });
    return { url: `https://${await listen(server as unknown as Server)}`, received };
  }

  it('a cancel over HTTP/2 is accepted', async () => {
    const { url, received } = await startHttp2(stream => stream.respond({ ':status': 302 }, { endStream: true }));
    expect(await createTestWriter(url, { ca: certificate.cert }).cancel()).toEqual({ kind: 'accepted', status: 302 });
    expect(received.requests).toBe(1);
  });

  it('a cancel over HTTP/2 is not retried after a refused stream', async () => {
    const { url, received } = await startHttp2((stream, request) => {
      if (request === 1) stream.close(constants.NGHTTP2_REFUSED_STREAM);
      else stream.respond({ ':status': 302 }, { endStream: true });
    });
    const { cancel } = createTestWriter(url, { ca: certificate.cert });
    expect(await cancel()).toEqual({ kind: 'unknown', status: undefined });
    expect(received.requests).toBe(1);
    expect(await cancel()).toMatchObject({ kind: 'accepted' });
    expect(received.requests).toBe(2);
  });

  it('a cancel over HTTP/2 is not retried after GOAWAY', async () => {
    const { url, received } = await startHttp2((stream, request) => {
      if (request === 1) stream.session?.goaway(constants.NGHTTP2_NO_ERROR, 0);
      else stream.respond({ ':status': 302 }, { endStream: true });
    });
    const { cancel } = createTestWriter(url, { ca: certificate.cert, timeout: atThisLoad(1000) });
    expect(await cancel()).toEqual({ kind: 'unknown', status: undefined });
    expect(received.requests).toBe(1);
  });
});
