import { once } from 'node:events';
import { request } from 'node:https';
import { connect, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { describe, expect, it } from 'vitest';
import type { Bounds } from '../../src/http/bounds.ts';
import type { ServedChanges } from '../status/empty-served.ts';
import { afterThisTest } from '../support/client.ts';
import { eventually } from '../support/eventually.ts';
import { CA, serve, tlsWith } from './protected-server.ts';

const MB = 1024 * 1024;

async function serveTls(bounds: Partial<Bounds>, overrides: ServedChanges = {}) {
  const served = await serve(tlsWith(), overrides, bounds);
  const port = Number(new URL(served.server.url).port);
  function open(): Socket {
    const socket = connect(port, '127.0.0.1').on('error', () => undefined);
    afterThisTest(async () => void socket.destroy());
    return socket;
  }
  const reported = () => served.log.lines.map(({ fields }) => (fields as { bound?: string }).bound);
  return { ...served, port, open, reported };
}

const closed = (socket: Socket) => (socket.destroyed ? Promise.resolve() : once(socket, 'close'));

/** The first bytes of a handshake. */
const HELLO = Buffer.from('160301020001000001fc0303', 'hex');

describe('hostile TLS clients', () => {
  it('clients that never complete a TLS handshake are disconnected and delay no other client', async () => {
    const { open, reported, status } = await serveTls({ headersWithin: 500 });
    const sockets = Array.from({ length: 200 }, (_, index) => {
      const socket = open();
      if (index % 2 === 0) socket.write(HELLO);
      return socket.resume();
    });
    // Keep sending the first byte of a handshake.
    const dripping = open().resume();
    const timer = setInterval(() => dripping.write(HELLO.subarray(0, 1)), 50);
    afterThisTest(async () => clearInterval(timer));
    expect(await status('/metrics')).toBe(200);
    await Promise.all([...sockets, dripping].map(closed));
    expect(reported()).toEqual([]);
    expect(await status('/metrics')).toBe(200);
  });

  it.each([
    ['plain HTTP', Buffer.from('GET / HTTP/1.1\r\nHost: x\r\n\r\n')],
    ['noise', Buffer.from('\0\u0001\u0002\n'.repeat(1000))],
    ['an alert', Buffer.from('15030300020100', 'hex')],
    ['nothing', Buffer.alloc(0)],
  ])(
    'a client that sends %s instead of a TLS handshake is disconnected and does not affect others',
    async (_name, bytes) => {
      const { open, status } = await serveTls({});
      const socket = open().resume();
      socket.end(bytes);
      await closed(socket);
      expect(await status('/metrics')).toBe(200);
    },
  );

  it('hundreds of TLS connections that clients drop do not affect later requests and are not logged individually', async () => {
    const { port, status, reported } = await serveTls({});
    for (let times = 0; times < 10; times += 1) {
      await Promise.all(
        Array.from({ length: 30 }, async (_, index) => {
          const socket = connectTls({ ...CA, host: '127.0.0.1', port }).on('error', () => undefined);
          // Half of them disconnect during the handshake, half after it.
          await once(socket, index % 2 === 0 ? 'connect' : 'secureConnect');
          socket.destroy();
        }),
      );
    }
    expect(await status('/metrics')).toBe(200);
    expect(reported().length).toBeLessThan(3);
  });

  it('unfinished TLS handshakes count towards maxConnections; once they are closed, new connections are accepted', async () => {
    const { open, reported, status } = await serveTls({ maxConnections: 5 });
    const sockets = Array.from({ length: 20 }, open);
    await eventually(() => expect(reported()).toContain('connections'));
    for (const socket of sockets) socket.destroy();
    await eventually(async () => expect(await status('/metrics')).toBe(200));
  });

  it('TLS clients that do not read responses are disconnected, while a client that reads is served completely', async () => {
    const exposition = async () => ({ contentType: 'text/plain', body: Buffer.alloc(8 * MB, 'a') });
    const { port, reported, ask } = await serveTls({ unreadBytes: 24 * MB }, { exposition });
    for (let count = 0; count < 10; count += 1) {
      const socket = connectTls({ ...CA, host: '127.0.0.1', port }).on('error', () => undefined);
      afterThisTest(async () => void socket.destroy());
      await once(socket, 'secureConnect');
      socket.write('GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n');
      await once(socket, 'readable');
    }
    expect((await ask('/metrics')).text.length).toBe(8 * MB);
    expect(reported()).toEqual(['answers']);
  });

  it('open TLS connections do not keep the server from closing', async () => {
    const { open, server, port } = await serveTls({});
    const silent = open().resume();
    await once(silent, 'connect');
    // A connection that stays open after its response.
    const kept = request({ ...CA, host: '127.0.0.1', port, path: '/-/healthy' }).end();
    const [response] = await once(kept, 'response');
    response.resume();
    await server.close();
    await closed(silent);
  });
});
