import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { afterThisTest, allKeys, allRows, createTestClient } from '../support/client.ts';
import { json, serve } from '../support/http-service.ts';

const signal = () => new AbortController().signal;

describe('bounds', () => {
  it('the client does not parse a body with too many values or nesting levels, and requests a smaller page instead', async () => {
    const bombs = {
      100: `{"messages":[{"a":[${'{},'.repeat(3_000_000)}{}]}]}`,
      50: `{"messages":${'['.repeat(2_000_000)}`,
    };
    const service = await serve((request, response) => {
      const count = new URL(request.url ?? '', 'http://x').searchParams.get('count');
      const bomb = bombs[Number(count) as 100 | 50];
      if (bomb) response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync(bomb));
      else json(response, { messages: [{ dlqId: '1-0' }] });
    });
    const { reader } = createTestClient(service.url);
    expect(await allRows(reader.dlqPages({}, signal()))).toHaveLength(1);
    expect(service.requests).toEqual(['GET /v2/dlq?count=100', 'GET /v2/dlq?count=50', 'GET /v2/dlq?count=25']);
  });

  it('the client reads a long page of rows regardless of brackets and quotes in their texts', async () => {
    const body = '{[,"\\'.repeat(10_000);
    const messages = Array.from({ length: 100 }, (_, index) => ({ dlqId: `${index}-0`, body, header: { a: ['b'] } }));
    const service = await serve((_request, response) => json(response, { messages }));
    expect(await allRows(createTestClient(service.url).reader.dlqPages({}, signal()))).toHaveLength(100);
  });

  it.each(['http', 'https'])(
    'the client times out, or stops immediately when aborted, if an %s server accepts a connection but never responds',
    async scheme => {
      const sockets = new Set<Socket>();
      const server = createServer(socket => void sockets.add(socket.on('error', () => undefined))).listen(
        0,
        '127.0.0.1',
      );
      await once(server, 'listening');
      afterThisTest(async () => {
        for (const socket of sockets) socket.destroy();
        await new Promise(resolve => server.close(resolve));
      });
      const url = `${scheme}://127.0.0.1:${(server.address() as AddressInfo).port}`;
      const { reader } = createTestClient(url, { timeout: 100, connectTimeout: 60_000, random: () => 0 });
      await expect(allKeys(reader, signal())).rejects.toMatchObject({ reason: 'timeout' });
      const stop = new AbortController();
      const slow = allKeys(createTestClient(url, { timeout: 60_000, connectTimeout: 60_000 }).reader, stop.signal);
      stop.abort(new Error('stopping'));
      await expect(slow).rejects.toThrow('stopping');
    },
  );

  it('the client rejects a cursor that is too long for a URL', async () => {
    const service = await serve((_request, response) => json(response, { cursor: 'c'.repeat(5000), messages: [] }));
    const { reader } = createTestClient(service.url);
    await expect(allRows(reader.dlqPages({}, signal()))).rejects.toMatchObject({
      reason: 'invalid_response',
      message: 'dlq: a cursor of 5000 characters',
    });
  });

  it('the client requests a smaller page when the service rejects the number of rows, and keeps the smaller size', async () => {
    const service = await serve((request, response) => {
      const count = new URL(request.url ?? '', 'http://x').searchParams.get('count');
      if (count === '100') json(response, { events: [] });
      else json(response, { error: 'invalid count' }, 400);
    });
    const { reader } = createTestClient(service.url);
    for (let read = 0; read < 2; read += 1) await allRows(reader.eventPages({}, signal()));
    expect(service.requests).toEqual([
      'GET /v2/events?count=1000',
      'GET /v2/events?count=100',
      'GET /v2/events?count=100',
    ]);
  });

  it('the client does not keep a smaller page size that was rejected as well', async () => {
    const service = await serve((_request, response) => json(response, { error: 'no' }, 400));
    const { reader } = createTestClient(service.url);
    for (let read = 0; read < 2; read += 1) {
      await expect(allRows(reader.eventPages({}, signal()))).rejects.toMatchObject({ reason: 'refused', status: 400 });
    }
    expect(service.requests[2]).toBe('GET /v2/events?count=1000');
  });
});
