import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import { describe, expect, it } from 'vitest';
import type { ServerSettings } from '../../src/http/server.ts';
import type { ServedChanges } from '../status/empty-served.ts';
import { afterThisTest } from '../support/client.ts';
import { eventually } from '../support/eventually.ts';
import { ALICE, CA, serve, tlsWith, USERS } from './protected-server.ts';

async function start(web: object, settings: Partial<ServerSettings> = {}, overrides: ServedChanges = {}) {
  const served = await serve(web, overrides, settings);
  const port = Number(new URL(served.server.url).port);

  /** Opens a connection, and sends `text` to it. */
  async function open(text: string | Buffer = ''): Promise<Socket> {
    const socket = connect(port, '127.0.0.1').on('error', () => undefined);
    afterThisTest(async () => void socket.destroy());
    await once(socket, 'connect');
    socket.write(text);
    return socket;
  }

  async function openTls(): Promise<TLSSocket> {
    const socket = connectTls({ ...CA, host: '127.0.0.1', port }).on('error', () => undefined);
    afterThisTest(async () => void socket.destroy());
    await once(socket, 'secureConnect');
    return socket;
  }

  /** Sends scrapes over separate connections, and returns the number of successful ones. */
  async function scrape(times: number): Promise<number> {
    let good = 0;
    for (let time = 0; time < times; time += 1)
      if ((await served.status('/metrics', web === USERS ? ALICE : {})) === 200) good += 1;
    return good;
  }

  const bounds = () => new Set(served.log.lines.map(({ fields }) => (fields as { bound?: string }).bound));
  return { ...served, open, openTls, scrape, bounds };
}

const repeat = <T>(times: number, work: () => Promise<T>) => Promise.all(Array.from({ length: times }, work));
const GET = (path: string) => `GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`;
const HALF = 'GET /metrics HTTP/1.1\r\nHost: x\r\nX-Half:';
const [PLAIN, TLS] = [{}, tlsWith()];

/** Sends a request over an open connection, and waits for its response. */
async function ask(socket: Socket): Promise<void> {
  socket.write(GET('/-/ready'));
  await once(socket, 'data');
}

describe('clients that occupy all connections', () => {
  it('700 connections with half-sent headers do not keep a scraper out', async () => {
    const { open, scrape, bounds } = await start(PLAIN);
    const sockets = await repeat(700, () => open(HALF));
    expect(await scrape(18)).toBe(18);
    expect([...bounds()]).toEqual(['connections']);
    // The oldest were closed.
    await eventually(() => expect(sockets.slice(0, 188).every(({ destroyed }) => destroyed)).toBe(true));
    expect(sockets.slice(-400).some(({ destroyed }) => destroyed)).toBe(false);
  });

  it('connections with half-sent headers do not keep a scraper out while a client opens them continuously', async () => {
    const { open, scrape } = await start(PLAIN, { maxConnections: 100 });
    let isOver = false;
    const flood = (async () => {
      while (!isOver) await open(HALF);
    })();
    const good = await scrape(18).finally(() => {
      isOver = true;
    });
    expect(good).toBe(18);
    await flood;
  });

  it.each([
    ['nothing', ''],
    ['the first bytes', Buffer.from('160301020001000001fc0303', 'hex')],
  ])('700 TLS connections that send %s of a handshake do not keep a scraper out', async (_name, bytes) => {
    const { open, scrape, bounds } = await start(TLS);
    await repeat(700, () => open(bytes));
    expect(await scrape(18)).toBe(18);
    expect(bounds()).toContain('connections');
  });

  it('TLS connections with half-sent headers do not keep a scraper out', async () => {
    const { openTls, scrape } = await start(TLS, { maxConnections: 100 });
    for (let times = 0; times < 7; times += 1) {
      await repeat(20, async () => {
        (await openTls()).write(HALF);
      });
    }
    expect(await scrape(18)).toBe(18);
  });

  it('requests with a half-sent body do not keep a scraper out', async () => {
    const { open, scrape } = await start(USERS, { maxConnections: 20, lifecycle: true });
    const headers = [
      'POST /api/v1/auto-cancel/pause HTTP/1.1',
      'Host: x',
      `Authorization: Basic ${btoa(ALICE.auth)}`,
      'Content-Type: application/json',
      'Content-Length: 100',
      'Expect: 100-continue',
    ];
    await repeat(20, async () => {
      const socket = await open(`${headers.join('\r\n')}\r\n\r\n`);
      // The server has read the headers.
      expect(String((await once(socket, 'data'))[0])).toMatch(/^HTTP\/1\.1 100 /);
      socket.write('{');
    });
    expect(await scrape(18)).toBe(18);
  });

  it.each([
    ['512 idle connections', PLAIN, 512],
    ['idle TLS connections', TLS, 50],
  ])(
    '%s do not keep a scraper out, and the connection with the longest idle time is closed first',
    async (_name, web, max) => {
      const { open, openTls, scrape } = await start(web, { maxConnections: max });
      const sockets = await repeat<Socket>(max, web === TLS ? openTls : open);
      for (const socket of sockets) await ask(socket);
      const [first, second] = sockets as [Socket, Socket];
      await ask(first);
      const closed = once(second.resume(), 'close');
      expect(await scrape(1)).toBe(1);
      await closed;
      await ask(first);
      expect(await scrape(18)).toBe(18);
    },
  );
});

describe('connections with a request in progress', () => {
  it.each([
    ['connections', PLAIN],
    ['TLS connections', TLS],
  ])('%s with a request in progress are never closed for a new one, which is refused', async (_name, web) => {
    const { promise: isOver, resolve: release } = Promise.withResolvers<void>();
    let renderings = 0;
    const accounts = ['a', 'b', 'c', 'd', 'e'];
    const { open, openTls, status, scrape } = await start(
      web,
      { maxConnections: accounts.length },
      {
        accounts,
        async exposition() {
          renderings += 1;
          await isOver;
          return { contentType: 'text/plain', body: Buffer.from('x 1\n') };
        },
      },
    );
    const sockets = await repeat<Socket>(accounts.length, web === TLS ? openTls : open);
    const texts = sockets.map(async socket => String((await once(socket, 'data'))[0]));
    for (const [index, socket] of sockets.entries()) socket.write(GET(`/probe?account=${accounts[index]}`));
    await eventually(() => expect(renderings).toBe(accounts.length));
    for (let times = 0; times < 3; times += 1) await expect(status('/-/ready')).rejects.toThrow();
    release();
    for (const text of await Promise.all(texts)) expect(text).toMatch(/^HTTP\/1\.1 200 /);
    expect(await scrape(3)).toBe(3);
  });

  it('a changed maxConnections applies to new connections', async () => {
    const { server, settings, open, scrape } = await start(PLAIN, { maxConnections: 5 });
    const sockets = await repeat(5, () => open(HALF));
    server.apply({ ...settings, maxConnections: 10 });
    await repeat(5, () => open(HALF));
    expect(sockets.filter(({ destroyed }) => destroyed)).toEqual([]);
    server.apply({ ...settings, maxConnections: 1 });
    expect(await scrape(5)).toBe(5);
  });
});
