import { once } from 'node:events';
import { request } from 'node:https';
import { connect, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { describe, expect, it } from 'vitest';
import type { Bounds } from '../../src/http/bounds.ts';
import type { Served } from '../../src/status/served.ts';
import { afterThisTest } from '../support/client.ts';
import { eventually } from '../support/eventually.ts';
import { CA, serve, tlsWith } from './protected-server.ts';

const MB = 1024 * 1024;

async function serveTls(bounds: Partial<Bounds>, overrides: Partial<Served> = {}) {
  const served = await serve(tlsWith(), overrides, bounds);
  const port = Number(new URL(served.server.url).port);
  function open(): Socket {
    const socket = connect(port, '127.0.0.1').on('error', () => undefined);
    afterThisTest(async () => void socket.destroy());
    return socket;
  }
  const held = () => served.log.lines.map(({ fields }) => (fields as { bound?: string }).bound);
  return { ...served, port, open, held };
}

const closed = (socket: Socket) => (socket.destroyed ? Promise.resolve() : once(socket, 'close'));

/** The first bytes of a handshake, and no more. */
const HELLO = Buffer.from('160301020001000001fc0303', 'hex');

describe('TLS clients that mean no good', () => {
  it('that never come to the end of a handshake are cut, and hold up no other', async () => {
    const { open, held, status } = await serveTls({ headersWithin: 500 });
    const sockets = Array.from({ length: 200 }, (_, index) => {
      const socket = open();
      if (index % 2 === 0) socket.write(HELLO);
      return socket.resume();
    });
    // One byte of the handshake at a time.
    const dripping = open().resume();
    const timer = setInterval(() => dripping.write(HELLO.subarray(0, 1)), 50);
    afterThisTest(async () => clearInterval(timer));
    expect(await status('/metrics')).toBe(200);
    await Promise.all([...sockets, dripping].map(closed));
    expect([...new Set(held())].sort()).toEqual(['handshakes', 'tls']);
    expect(held().length).toBeLessThan(5);
    expect(await status('/metrics')).toBe(200);
  });

  it.each([
    ['plain HTTP', Buffer.from('GET / HTTP/1.1\r\nHost: x\r\n\r\n')],
    ['noise', Buffer.from('\0\u0001\u0002\n'.repeat(1000))],
    ['an alert', Buffer.from('15030300020100', 'hex')],
    ['nothing', Buffer.alloc(0)],
  ])('%s instead of a handshake', async (_name, bytes) => {
    const { open, status } = await serveTls({});
    const socket = open().resume();
    socket.end(bytes);
    await closed(socket);
    expect(await status('/metrics')).toBe(200);
  });

  it('that open a thousand connections and leave are forgotten', async () => {
    const { port, status, held } = await serveTls({});
    for (let times = 0; times < 10; times += 1) {
      await Promise.all(
        Array.from({ length: 30 }, async (_, index) => {
          const socket = connectTls({ ...CA, host: '127.0.0.1', port }).on('error', () => undefined);
          // Some in the middle of the handshake, some after it.
          await once(socket, index % 2 === 0 ? 'connect' : 'secureConnect');
          socket.destroy();
        }),
      );
    }
    expect(await status('/metrics')).toBe(200);
    expect(held().length).toBeLessThan(3);
  });

  it('are refused beyond maxConnections, also while they shake hands', async () => {
    const { open, held, status } = await serveTls({ maxConnections: 5 });
    const sockets = Array.from({ length: 20 }, open);
    await eventually(() => expect(held()).toContain('connections'));
    for (const socket of sockets) socket.destroy();
    await eventually(async () => expect(await status('/metrics')).toBe(200));
  });

  it('that do not take their answers are cut, and one that reads is served whole meanwhile', async () => {
    const exposition = async () => ({ contentType: 'text/plain', body: Buffer.alloc(8 * MB, 'a') });
    const { port, held, ask } = await serveTls({ unreadBytes: 24 * MB }, { exposition });
    for (let count = 0; count < 10; count += 1) {
      const socket = connectTls({ ...CA, host: '127.0.0.1', port }).on('error', () => undefined);
      afterThisTest(async () => void socket.destroy());
      await once(socket, 'secureConnect');
      socket.write('GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n');
      await once(socket, 'readable');
    }
    expect((await ask('/metrics')).text.length).toBe(8 * MB);
    expect(held()).toEqual(['answers']);
  });

  it('do not keep the server from closing', async () => {
    const { open, server, port } = await serveTls({});
    const silent = open().resume();
    await once(silent, 'connect');
    // A connection that is used again and again.
    const kept = request({ ...CA, host: '127.0.0.1', port, path: '/-/healthy' }).end();
    const [response] = await once(kept, 'response');
    response.resume();
    await server.close();
    await closed(silent);
  });
});
