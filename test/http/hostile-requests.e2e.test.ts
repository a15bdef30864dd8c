import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { describe, expect, it } from 'vitest';
import type { ServerSettings } from '../../src/http/server.ts';
import { startHttpServer } from '../../src/status/server.ts';
import { type ServedChanges, servedWith } from '../status/empty-served.ts';
import { afterThisTest } from '../support/client.ts';
import { eventually } from '../support/eventually.ts';
import { createTestLog } from '../support/silent.ts';

const MB = 1024 * 1024;

async function serve(overrides: ServedChanges = {}, settings: Partial<ServerSettings> = {}) {
  const log = createTestLog();
  const server = await startHttpServer({ host: '127.0.0.1', port: 0, ...settings }, servedWith(overrides), log);
  afterThisTest(() => server.close());
  const { port } = new URL(server.url);
  const open = (): Socket => {
    const socket = connect(Number(port), '127.0.0.1').on('error', () => undefined);
    afterThisTest(async () => void socket.destroy());
    return socket;
  };
  const bounds = () => log.lines.map(({ fields }) => (fields as { bound?: string }).bound);
  return { url: server.url, open, bounds, log };
}

/** Resolves when either side has closed the connection. */
const closed = (socket: Socket) => new Promise<void>(resolve => socket.once('close', () => resolve()));

/** Scrapes without gzip: the bodies in these tests are never compressed. */
const scrape = async (url: string) => {
  const response = await fetch(`${url}/metrics`, { headers: { 'accept-encoding': 'identity' } });
  return { status: response.status, text: await response.text() };
};

/** Returns the status lines of all responses until the connection closes. */
async function statuses(socket: Socket): Promise<string[]> {
  let text = '';
  socket.on('data', chunk => {
    text += chunk;
  });
  await closed(socket);
  return text.match(/^HTTP\/1\.1 \d+/gm) ?? [];
}

const GET = (path: string, headers = '') => `GET ${path} HTTP/1.1\r\nHost: x\r\n${headers}\r\n`;

describe('hostile requests', () => {
  it.each([
    ['a long path', `GET /${'a'.repeat(20_000)}`, '431'],
    ['a long header', `GET / HTTP/1.1\r\nHost: x\r\nA: ${'a'.repeat(20_000)}`, '431'],
    ['many headers', `GET / HTTP/1.1\r\nHost: x\r\n${'A: b\r\n'.repeat(4000)}`, '431'],
    ['not HTTP', '\0\u0001\u0002\n'.repeat(1000), '400'],
    ['two lengths', GET('/metrics', 'Content-Length: 1\r\nContent-Length: 2\r\n'), '400'],
    ['a length and chunks', GET('/metrics', 'Content-Length: 1\r\nTransfer-Encoding: chunked\r\n'), '400'],
    ['no host', 'GET /metrics HTTP/1.1\r\n\r\n', '400'],
    ['a bad encoding', GET('/%ff%c0%af%', 'Connection: close\r\n'), '404'],
    ['a bad encoding in a query', GET('/probe?account=%ff%zz%', 'Connection: close\r\n'), '404'],
    ['a prototype in a query', GET('/probe?__proto__[a]=b&account=constructor', 'Connection: close\r\n'), '404'],
    ['an upgrade', GET('/-/ready', 'Connection: Upgrade, close\r\nUpgrade: websocket\r\n'), '200'],
    ['a body', GET('/metrics', 'Content-Length: 1000000\r\n'), '200'],
    ['a body in chunks', `${GET('/nowhere', 'Transfer-Encoding: chunked\r\n')}fffff\r\n${'a'.repeat(1000)}`, '404'],
    [
      'odd weights',
      GET('/metrics', 'Connection: close\r\nAccept: ;q=,,*;q=NaN\r\nAccept-Encoding: ;q=,gzip;q\r\n'),
      '200',
    ],
  ])('hostile requests get the expected status: %s', async (_name, bytes, status) => {
    const { url, open } = await serve();
    const socket = open();
    socket.write(bytes);
    expect(await statuses(socket)).toEqual([`HTTP/1.1 ${status}`]);
    expect((await fetch(`${url}/-/healthy`)).status).toBe(200);
  });

  it.each([
    ['path', 'GET /', 'a'],
    ['header', 'GET / HTTP/1.1\r\nHost: x\r\nA: ', 'a'],
    ['headers', 'GET / HTTP/1.1\r\nHost: x\r\n', 'A: b\r\n'],
  ])('clients that send an endless %s are disconnected', async (_name, start, more) => {
    const { url, open } = await serve();
    const socket = open();
    socket.write(start + more.repeat(MB));
    // The status may be lost when the server disconnects, so it is not checked.
    await statuses(socket);
    expect((await fetch(`${url}/-/healthy`)).status).toBe(200);
  });

  it.each([
    ['a missing', 'GET /metrics HTTP/1.0\r\n\r\n', '421'],
    ['an empty', 'GET /metrics HTTP/1.0\r\nHost:\r\n\r\n', '421'],
    ['a duplicate', 'GET /metrics HTTP/1.0\r\nHost: good\r\nHost: evil\r\n\r\n', '421'],
    ['an allowed', 'GET /metrics HTTP/1.0\r\nHost: good\r\n\r\n', '200'],
  ])('requests with %s Host header get the expected status if hosts are restricted', async (_name, bytes, status) => {
    const { open } = await serve({}, { allowedHosts: ['good'] });
    const socket = open();
    socket.write(bytes);
    expect(await statuses(socket)).toEqual([`HTTP/1.1 ${status}`]);
  });

  it('the server responds to pipelined requests in order, and closes a connection that pipelines thousands', async () => {
    const { url, open, bounds } = await serve();
    const [few, many] = [open(), open()];
    few.write(`${GET('/-/healthy')}${GET('/nowhere')}${GET('/metrics', 'Connection: close\r\n')}`);
    expect(await statuses(few)).toEqual(['HTTP/1.1 200', 'HTTP/1.1 404', 'HTTP/1.1 200']);
    many.write(GET('/-/healthy').repeat(100_000));
    expect((await statuses(many)).length).toBeLessThan(100);
    expect(bounds()).toEqual(['pipelined']);
    expect((await fetch(`${url}/-/healthy`)).status).toBe(200);
  });

  it('pipelining the maximum number of requests on a connection causes no process warning', async () => {
    const warnings: string[] = [];
    const take = ({ message }: Error) => warnings.push(message);
    process.on('warning', take);
    afterThisTest(async () => void process.off('warning', take));
    const { open } = await serve();
    const socket = open();
    socket.write(`${GET('/metrics').repeat(3)}${GET('/metrics', 'Connection: close\r\n')}`);
    expect(await statuses(socket)).toHaveLength(4);
    expect(warnings).toEqual([]);
  });

  it('the total size of unread responses is limited: the oldest stalled clients are disconnected, which is logged once', async () => {
    const { url, open, bounds } = await serve(
      { exposition: async () => ({ contentType: 'text/plain', body: Buffer.alloc(20 * MB, 'a') }) },
      { unreadBytes: 100 * MB },
    );
    const sockets = [];
    for (let count = 0; count < 12; count += 1) {
      const socket = open();
      socket.write(GET('/metrics'));
      await once(socket, 'readable');
      sockets.push(socket);
    }
    // At the same time, a client that reads gets its complete response.
    expect((await scrape(url)).text.length).toBe(20 * MB);
    await eventually(() => expect(bounds()).toEqual(['answers']));
    // Drain all sockets: the oldest were disconnected, the newest get complete responses.
    const sizes = await Promise.all(
      sockets.map(async socket => {
        let size = 0;
        let isComplete = false;
        socket.on('data', chunk => {
          size += chunk.length;
          isComplete = size > 20 * MB;
          if (isComplete) socket.destroy();
        });
        await closed(socket);
        return isComplete;
      }),
    );
    expect(sizes.filter(Boolean).length).toBeLessThanOrEqual(5);
    expect(sizes.at(-1)).toBe(true);
    expect(sizes[0]).toBe(false);
  });

  it('the response to a client that has disconnected does not count towards the limit of unread bytes', async () => {
    const clientsClosed: Promise<unknown>[] = [];
    const { promise: isOver, resolve: release } = Promise.withResolvers<void>();
    const accounts = ['a', 'b', 'c', 'd'];
    let renderings = 0;
    const { url, open, bounds } = await serve(
      {
        accounts,
        async exposition() {
          renderings += 1;
          await isOver;
          return { contentType: 'text/plain', body: Buffer.alloc(MB, 'a') };
        },
      },
      { unreadBytes: MB },
    );
    for (const account of accounts) {
      const socket = open();
      clientsClosed.push(closed(socket));
      socket.write(GET(`/probe?account=${account}`));
      await eventually(() => expect(renderings).toBe(clientsClosed.length));
      socket.resetAndDestroy();
    }
    await Promise.all(clientsClosed);
    // After these responses, the server has also processed the disconnects.
    for (let times = 0; times < 20; times += 1) await (await fetch(`${url}/-/healthy`)).text();
    release();
    expect((await scrape(url)).status).toBe(200);
    expect(bounds()).toEqual([]);
  });

  it('concurrent requests share a rendering, but never one that started before they arrived', async () => {
    let rendered = 0;
    let release = () => {};
    const { url } = await serve({
      async exposition() {
        rendered += 1;
        const number = rendered;
        if (number === 1) {
          await new Promise<void>(resolve => {
            release = resolve;
          });
        }
        return { contentType: 'text/plain', body: Buffer.from(String(number)) };
      },
    });
    const first = scrape(url);
    await eventually(() => expect(rendered).toBe(1));
    let answered = 0;
    const later = Array.from({ length: 20 }, async () => {
      const { text } = await scrape(url);
      answered += 1;
      return text;
    });
    // Once these requests are answered, the server has also received the later scrapes, which must not get the first rendering.
    for (let times = 0; times < 20; times += 1) await (await fetch(`${url}/-/healthy`)).text();
    expect([rendered, answered]).toEqual([1, 0]);
    release();
    expect((await first).text).toBe('1');
    const texts = await Promise.all(later);
    expect(texts).not.toContain('1');
    expect(rendered).toBeLessThan(10);
  });

  it('a failed rendering is not reused by later requests', async () => {
    let renderings = 0;
    const { url } = await serve({
      exposition: async () => {
        renderings += 1;
        if (renderings === 1) throw new Error('once');
        return { contentType: 'text/plain', body: Buffer.from('well') };
      },
    });
    expect((await scrape(url)).status).toBe(500);
    expect(await scrape(url)).toEqual({ status: 200, text: 'well' });
  });

  it('HEAD requests get headers without a body', async () => {
    const { url } = await serve();
    const response = await fetch(`${url}/metrics`, { method: 'HEAD' });
    expect([response.status, response.headers.get('content-length'), await response.text()]).toEqual([200, '6', '']);
  });
});
