import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { PassThrough } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { createStreams } from '../../src/http/routes/stream.ts';
import { startHttpServer } from '../../src/status/server.ts';
import { servedWith } from '../status/empty-served.ts';
import { afterThisTest } from '../support/client.ts';
import { createManualClock, settle } from '../support/manual-clock.ts';
import { createTestLog } from '../support/silent.ts';

/** Creates event streams on a manual clock. `seen` counts the checks for changes and the disconnected clients. */
async function open() {
  const clock = createManualClock();
  const seen = { changed: false, checks: 0, cut: 0 };
  const streams = createStreams({
    clock,
    readWithin: 30_000,
    onCut: () => {
      seen.cut += 1;
    },
    watch: () => () => {
      seen.checks += 1;
      const { changed } = seen;
      seen.changed = false;
      return changed;
    },
  });
  const server = createServer((request, response) => streams.open(request, response));
  await once(server.listen(0, '127.0.0.1'), 'listening');
  afterThisTest(async () => {
    streams.close();
    server.closeAllConnections();
    await new Promise(resolve => server.close(resolve));
  });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  async function listen() {
    const response = await fetch(url);
    if (!response.body) throw new Error('there is no body');
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    /** Returns the next part that arrives, or undefined at the end of the stream. */
    const next = async () => (await reader.read()).value;
    return { response, next, leave: () => reader.cancel(undefined) };
  }
  return { clock, streams, seen, listen };
}

const event = (at: string) => `event: changed\ndata: {"at":"${at}"}\n\n`;

describe('server-sent events', () => {
  it('the event stream sends changes at most every two seconds, and an event at least every 15 seconds', async () => {
    const { clock, seen, listen } = await open();
    const { response, next } = await listen();
    expect(Object.fromEntries(response.headers)).toMatchObject({
      'content-type': 'text/event-stream',
      'cache-control': 'no-store',
      'x-accel-buffering': 'no',
    });
    expect(await next()).toBe('retry: 3000\n\n');
    seen.changed = true;
    await clock.advance(1999);
    expect(seen.checks).toBe(0);
    await clock.advance(1);
    expect(await next()).toBe(event('2026-01-01T00:00:02.000Z'));
    // An event is sent even without a change, because data becomes stale as time passes.
    await clock.advance(16_000);
    expect(await next()).toBe(event('2026-01-01T00:00:18.000Z'));
  });

  it('the event stream uses no timer without clients, and one timer for any number of clients', async () => {
    const { clock, seen, listen } = await open();
    await clock.advance(60_000);
    expect([seen.checks, clock.sleepers]).toEqual([0, 0]);
    const listeners = await Promise.all([listen(), listen(), listen()]);
    expect(clock.sleepers).toBe(1);
    await clock.advance(2000);
    expect(seen.checks).toBe(1);
    for (const { leave } of listeners) await leave();
    while (clock.sleepers > 0) await settle();
    await clock.advance(60_000);
    expect(seen.checks).toBe(1);
    const again = await listen();
    await again.next();
    seen.changed = true;
    await clock.advance(2000);
    expect(await again.next()).toContain('changed');
  });

  it('the event stream is limited to 64 clients, and accepts another client when one disconnects', async () => {
    const { listen } = await open();
    const all = await Promise.all(Array.from({ length: 64 }, () => listen()));
    const { response, next } = await listen();
    expect([response.status, response.headers.get('retry-after')]).toEqual([503, '10']);
    expect(await next()).toBe('there are 64 open streams: no more are opened\n');
    await all[0]?.leave();
    let status = 503;
    while (status === 503) status = (await listen()).response.status;
    expect(status).toBe(200);
  });

  it('the event stream is not opened for a client that disconnected before its password was checked', async () => {
    const { clock, streams } = await open();
    const left = Promise.withResolvers<void>();
    const late = createServer(async (request, response) => {
      await once(request.socket, 'close');
      await settle();
      streams.open(request, response);
      left.resolve();
    });
    await once(late.listen(0, '127.0.0.1'), 'listening');
    afterThisTest(async () => void late.close());
    const client = connect((late.address() as AddressInfo).port, '127.0.0.1');
    client.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n', () => client.destroy());
    await left.promise;
    expect(clock.sleepers).toBe(0);
  });

  it('closing the event streams stops their timer', async () => {
    const { clock, streams, listen } = await open();
    await listen();
    expect(clock.sleepers).toBe(1);
    streams.close();
    expect(clock.sleepers).toBe(0);
  });

  it('the event stream ends immediately when the port closes', async () => {
    const server = await startHttpServer({ host: '127.0.0.1', port: 0 }, servedWith(), createTestLog());
    const response = await fetch(`${server.url}/api/v1/stream`);
    const text = response.text();
    await server.close();
    expect(await text).toBe('retry: 3000\n\n');
  });

  it('the event stream rejects POST, and responds to HEAD without a body', async () => {
    const server = await startHttpServer({ host: '127.0.0.1', port: 0 }, servedWith(), createTestLog());
    afterThisTest(() => server.close());
    const ask = async (method: string) => (await fetch(`${server.url}/api/v1/stream`, { method })).status;
    expect([await ask('HEAD'), await ask('POST')]).toEqual([200, 405]);
  });

  it('the event stream disconnects a client that reads nothing for half a minute, but not a client that reads slowly', async () => {
    const { clock, streams, seen } = await open();
    const client = (unread: () => number) => {
      const socket = new PassThrough();
      const request = { socket, method: 'GET' } as unknown as IncomingMessage;
      const response = Object.assign(new PassThrough(), { writeHead: () => response });
      Object.defineProperty(response, 'writableLength', { get: unread });
      streams.open(request, response as unknown as ServerResponse);
      return socket;
    };
    let turn = 0;
    const [stuck, slow] = [client(() => 1), client(() => (turn++ % 5 === 0 ? 0 : 1))];
    await clock.advance(31_000);
    expect([stuck.destroyed, slow.destroyed, seen.cut]).toEqual([false, false, 0]);
    await clock.advance(3000);
    expect([stuck.destroyed, slow.destroyed, seen.cut]).toEqual([true, false, 1]);
    await clock.advance(60_000);
    expect([slow.destroyed, seen.cut]).toEqual([false, 1]);
  });
});
