import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { describe, expect, it } from 'vitest';
import type { ServerSettings } from '../../src/http/server.ts';
import type { Served } from '../../src/status/served.ts';
import { startHttpServer } from '../../src/status/server.ts';
import { emptyServed } from '../status/empty-served.ts';
import { afterThisTest } from '../support/client.ts';
import { eventually } from '../support/eventually.ts';
import { createTestLog } from '../support/silent.ts';

const MB = 1024 * 1024;

async function serve(overrides: Partial<Served> = {}, settings: Partial<ServerSettings> = {}) {
  const log = createTestLog();
  const server = await startHttpServer(
    { host: '127.0.0.1', port: 0, ...settings },
    { ...emptyServed, ...overrides },
    log,
  );
  afterThisTest(() => server.close());
  const { port } = new URL(server.url);
  const open = (): Socket => {
    const socket = connect(Number(port), '127.0.0.1').on('error', () => undefined);
    afterThisTest(async () => void socket.destroy());
    return socket;
  };
  const held = () => log.lines.map(({ fields }) => (fields as { bound?: string }).bound);
  return { url: server.url, open, held, log };
}

/** Also where the other side cut it. */
const closed = (socket: Socket) => new Promise<void>(resolve => socket.once('close', () => resolve()));

/** A scrape that does not ask for gzip, as these servers have none. */
const scrape = async (url: string) => {
  const response = await fetch(`${url}/metrics`, { headers: { 'accept-encoding': 'identity' } });
  return { status: response.status, text: await response.text() };
};

/** The status lines of everything that a connection gets until it ends. */
async function statuses(socket: Socket): Promise<string[]> {
  let text = '';
  socket.on('data', chunk => {
    text += chunk;
  });
  await closed(socket);
  return text.match(/^HTTP\/1\.1 \d+/gm) ?? [];
}

const GET = (path: string, headers = '') => `GET ${path} HTTP/1.1\r\nHost: x\r\n${headers}\r\n`;

describe('requests that mean no good', () => {
  it.each([
    ['a long path', `GET /${'a'.repeat(20_000)}`, '431'],
    ['a long header', `GET / HTTP/1.1\r\nHost: x\r\nA: ${'a'.repeat(20_000)}`, '431'],
    ['many headers', `GET / HTTP/1.1\r\nHost: x\r\n${'A: b\r\n'.repeat(4000)}`, '431'],
    ['no HTTP', '\0\u0001\u0002\n'.repeat(1000), '400'],
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
  ])('%s', async (_name, bytes, status) => {
    const { url, open } = await serve();
    const socket = open();
    socket.write(bytes);
    expect(await statuses(socket)).toEqual([`HTTP/1.1 ${status}`]);
    expect((await fetch(`${url}/-/healthy`)).status).toBe(200);
  });

  it.each([
    ['a path', 'GET /', 'a'],
    ['a header', 'GET / HTTP/1.1\r\nHost: x\r\nA: ', 'a'],
    ['headers', 'GET / HTTP/1.1\r\nHost: x\r\n', 'A: b\r\n'],
  ])('%s without an end', async (_name, start, more) => {
    const { url, open } = await serve();
    const socket = open();
    socket.write(start + more.repeat(MB));
    // Whether the status arrives before the cut is the network's to say.
    await statuses(socket);
    expect((await fetch(`${url}/-/healthy`)).status).toBe(200);
  });

  it.each([
    ['none', 'GET /metrics HTTP/1.0\r\n\r\n', '421'],
    ['an empty one', 'GET /metrics HTTP/1.0\r\nHost:\r\n\r\n', '421'],
    ['two', 'GET /metrics HTTP/1.0\r\nHost: good\r\nHost: evil\r\n\r\n', '421'],
    ['the one', 'GET /metrics HTTP/1.0\r\nHost: good\r\n\r\n', '200'],
  ])('where hosts are named, %s is taken as one', async (_name, bytes, status) => {
    const { open } = await serve({}, { allowedHosts: ['good'] });
    const socket = open();
    socket.write(bytes);
    expect(await statuses(socket)).toEqual([`HTTP/1.1 ${status}`]);
  });

  it('answers a few requests that come at once in their order, and cuts a connection that sends thousands', async () => {
    const { url, open, held } = await serve();
    const [few, many] = [open(), open()];
    few.write(`${GET('/-/healthy')}${GET('/nowhere')}${GET('/metrics', 'Connection: close\r\n')}`);
    expect(await statuses(few)).toEqual(['HTTP/1.1 200', 'HTTP/1.1 404', 'HTTP/1.1 200']);
    many.write(GET('/-/healthy').repeat(100_000));
    expect((await statuses(many)).length).toBeLessThan(100);
    expect(held()).toEqual(['pipelined']);
    expect((await fetch(`${url}/-/healthy`)).status).toBe(200);
  });

  it('says nothing of a connection that asks for as much as it may at once', async () => {
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

  it('holds answers that are not taken to a sum, cuts those that stand still, and says so once', async () => {
    const bodies: number[] = [];
    const { url, open, held } = await serve(
      {
        async exposition() {
          bodies.push(bodies.length);
          return { contentType: 'text/plain', body: Buffer.alloc(20 * MB, 'a') };
        },
      },
      { unreadBytes: 100 * MB },
    );
    const socks = [];
    for (let count = 0; count < 12; count += 1) {
      const socket = open();
      socket.write(GET('/metrics'));
      await once(socket, 'readable');
      socks.push(socket);
    }
    // One that reads is served whole meanwhile.
    expect((await scrape(url)).text.length).toBe(20 * MB);
    await eventually(() => expect(held()).toEqual(['answers']));
    // What was cut ends when it is read; the newest get all of theirs.
    const sizes = await Promise.all(
      socks.map(async socket => {
        let size = 0;
        let isWhole = false;
        socket.on('data', chunk => {
          size += chunk.length;
          isWhole = size > 20 * MB;
          if (isWhole) socket.destroy();
        });
        await closed(socket);
        return isWhole;
      }),
    );
    expect(sizes.filter(Boolean).length).toBeLessThanOrEqual(5);
    expect(sizes.at(-1)).toBe(true);
    expect(sizes[0]).toBe(false);
  });

  it('holds nothing for clients that left while their answer was made', async () => {
    const gone: Promise<unknown>[] = [];
    const { promise: isOver, resolve: release } = Promise.withResolvers<void>();
    const accounts = ['a', 'b', 'c', 'd'];
    let asked = 0;
    const { url, open, held } = await serve(
      {
        accounts,
        async exposition() {
          asked += 1;
          await isOver;
          return { contentType: 'text/plain', body: Buffer.alloc(MB, 'a') };
        },
      },
      { unreadBytes: MB },
    );
    for (const account of accounts) {
      const socket = open();
      gone.push(closed(socket));
      socket.write(GET(`/probe?account=${account}`));
      await eventually(() => expect(asked).toBe(gone.length));
      socket.resetAndDestroy();
    }
    await Promise.all(gone);
    // Answered by the same process: it has heard by now that they left.
    for (let times = 0; times < 20; times += 1) await (await fetch(`${url}/-/healthy`)).text();
    release();
    expect((await scrape(url)).status).toBe(200);
    expect(held()).toEqual([]);
  });

  it('renders once for all who ask at the same time, with what was true when they asked', async () => {
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
    // Answered by the same process in between: their requests have arrived by now, and none got the first one's.
    for (let times = 0; times < 20; times += 1) await (await fetch(`${url}/-/healthy`)).text();
    expect([rendered, answered]).toEqual([1, 0]);
    release();
    expect((await first).text).toBe('1');
    const texts = await Promise.all(later);
    expect(texts).not.toContain('1');
    expect(rendered).toBeLessThan(10);
  });

  it('an answer that fails is no other one’s', async () => {
    let asked = 0;
    const { url } = await serve({
      exposition: async () => {
        asked += 1;
        if (asked === 1) throw new Error('once');
        return { contentType: 'text/plain', body: Buffer.from('well') };
      },
    });
    expect((await scrape(url)).status).toBe(500);
    expect(await scrape(url)).toEqual({ status: 200, text: 'well' });
  });

  it('answers HEAD without a body', async () => {
    const { url } = await serve();
    const response = await fetch(`${url}/metrics`, { method: 'HEAD' });
    expect([response.status, response.headers.get('content-length'), await response.text()]).toEqual([200, '6', '']);
  });
});
