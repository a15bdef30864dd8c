import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { afterThisTest, allKeys, allRows, createTestClient } from '../support/client.ts';
import { json, serve } from '../support/http-service.ts';

const signal = () => new AbortController().signal;

describe('bounds', () => {
  it('does not parse what would take far more memory than its bytes suggest, and asks for less', async () => {
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

  it('reads no further than ten times the rows that were asked for', async () => {
    const service = await serve((_request, response) => response.end(`{"messages":[${'{},'.repeat(3_000_000)}{}]}`));
    const { reader, counts } = createTestClient(service.url);
    await expect(allRows(reader.dlqPages({}, signal()))).rejects.toMatchObject({
      reason: 'invalid_response',
      message: 'GET /v2/dlq: more than 1000 rows',
    });
    expect(service.requests).toHaveLength(1);
    expect(counts.bytes).toBeLessThan(3_000_000);
  });

  it('reads a long page of ordinary rows, whatever their texts hold', async () => {
    const body = '{[,"\\'.repeat(10_000);
    const messages = Array.from({ length: 100 }, (_, index) => ({ dlqId: `${index}-0`, body, header: { a: ['b'] } }));
    const service = await serve((_request, response) => json(response, { messages }));
    expect(await allRows(createTestClient(service.url).reader.dlqPages({}, signal()))).toHaveLength(100);
  });

  it.each(['http', 'https'])(
    'ends in time, and at once when it is stopped, where %s accepts and says nothing',
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

  it('takes no cursor that is longer than an address may be', async () => {
    const service = await serve((_request, response) => json(response, { cursor: 'c'.repeat(5000), messages: [] }));
    const { reader } = createTestClient(service.url);
    await expect(allRows(reader.dlqPages({}, signal()))).rejects.toMatchObject({
      reason: 'invalid_response',
      message: 'GET /v2/dlq: a cursor of 5000 characters',
    });
  });

  it('asks for a smaller page when the service refuses the number of rows, and remembers', async () => {
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

  it('does not remember a smaller page that was refused, too', async () => {
    const service = await serve((_request, response) => json(response, { error: 'no' }, 400));
    const { reader } = createTestClient(service.url);
    for (let read = 0; read < 2; read += 1) {
      await expect(allRows(reader.eventPages({}, signal()))).rejects.toMatchObject({ reason: 'refused', status: 400 });
    }
    expect(service.requests[2]).toBe('GET /v2/events?count=1000');
  });
});

describe('a long answer is read as a short one is', () => {
  const padding = { body: 'x'.repeat(3000) };
  const rows = Array.from({ length: 200 }, (_, index) => ({
    ...padding,
    dlqId: `${index}-0`,
    messageId: index,
    flowControlKey: `k${index}`,
    state: 'CREATED',
    time: index,
  }));
  const broken = [...rows.slice(0, 100), null, { padding }, 7];
  const groups = rows.map(({ messageId, ...event }) => ({ messageId, events: [event, null] }));
  const bodies: Readonly<Record<string, object>> = {
    rows: { messages: rows, events: rows, flowControls: rows },
    bare: rows,
    logs: { logs: rows },
    groups: { messages: [...groups, 'none'] },
    'some that can not be read': { messages: broken, events: broken, flowControls: broken, cursor: '' },
    'a list under another name': { other: rows },
    'another type': { messages: { rows }, events: padding, flowControls: 'x'.repeat(300_000) },
    'beside an error': { error: rows, messages: null, events: null, flowControls: null },
  };

  it.each(Object.keys(bodies))('%s', async name => {
    const text = JSON.stringify(bodies[name]);
    // What is left of it in a short answer is the same, but for the texts that nothing is made of.
    const short = text.replaceAll(/x{100,}/g, 'x');
    expect([text.length > 300_000, short.length < 250_000]).toEqual([true, true]);
    const service = await serve((request, response) => response.end(request.url?.startsWith('/short') ? short : text));
    const read = async (length: string) => {
      const { reader, counts } = createTestClient(`${service.url}/${length}`);
      const lists = await Promise.allSettled([
        reader.dlqPages({}, signal()).next(),
        reader.eventPages({}, signal()).next(),
        allKeys(reader, signal()),
      ]);
      return [lists.map(list => (list.status === 'rejected' ? String(list.reason) : list.value)), counts.rejected];
    };
    expect(await read('long')).toEqual(await read('short'));
  });
});
