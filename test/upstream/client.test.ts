import { gzipSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { systemClock } from '../../src/kit/clock.ts';
import { Secret } from '../../src/kit/secret.ts';
import { MAX_LIST_BYTES, MAX_PAGE_BYTES } from '../../src/upstream/body.ts';
import { type Budget, createBudget } from '../../src/upstream/budget.ts';
import { UpstreamError } from '../../src/upstream/errors.ts';
import { allKeys, allRows, createTestClient, TOKEN } from '../support/client.ts';
import { emulate } from '../support/emulate.ts';
import { json, serve } from '../support/http-service.ts';

const signal = () => new AbortController().signal;

async function failure(url: string, overrides: Parameters<typeof createTestClient>[1] = {}) {
  const set = createTestClient(url, overrides);
  const error = await allKeys(set.reader, signal()).then(
    () => undefined,
    (error: unknown) => error,
  );
  expect(error).toBeInstanceOf(UpstreamError);
  return { error: error as UpstreamError, ...set };
}

const MIB = 1024 * 1024;

/** Returns `bytes` spaces as gzip data. Repeated gzip members make the data fast to create. */
function packedBlanks(bytes: number): Buffer {
  const member = gzipSync(Buffer.alloc(MIB, ' '));
  const members = Array.from({ length: Math.floor(bytes / MIB) }, () => member);
  return Buffer.concat([...members, gzipSync(Buffer.alloc(bytes % MIB, ' '))]);
}

/** Time of rows (ms since the Unix epoch). */
const T = 1_767_225_600_000;

describe('client', () => {
  it('the client sends the bearer token, accepts gzip, and counts calls, time and bytes', async () => {
    const body = gzipSync(JSON.stringify({ flowControls: [{ flowControlKey: 'k', waitListSize: 3 }] }));
    const service = await serve((_request, response) =>
      response.writeHead(200, { 'content-encoding': 'gzip' }).end(body),
    );
    const { reader, counts } = createTestClient(`${service.url}/base/`);
    expect(await allKeys(reader, signal())).toEqual({ rows: [{ key: 'k', waitlistSize: 3 }], rejected: 0 });
    expect(service.requests).toEqual(['GET /base/v2/flowControl']);
    expect(service.headers[0]).toMatchObject({ authorization: `Bearer ${TOKEN}`, 'accept-encoding': 'gzip' });
    expect(counts).toMatchObject({ requests: { 'flow_control ok': 1 }, rejected: {}, bytes: body.length, timed: 1 });
  });

  it('the client walks the DLQ by cursor with the given filters', async () => {
    const service = await serve((request, response) => {
      const cursor = new URL(request.url ?? '', 'http://x').searchParams.get('cursor');
      if (cursor === null) json(response, { cursor: 'a+b/c=', messages: [{ dlqId: '1-0', createdAt: T }] });
      else json(response, { messages: [{ dlqId: '2-0', createdAt: `${T + 1}` }, 'rubbish', { other: true }] });
    });
    const { reader, counts } = createTestClient(service.url);
    expect(await allRows(reader.dlqPages({ queueName: 'a b&c', responseStatus: 500 }, signal()))).toMatchObject([
      { id: '1-0', createdAt: T },
      { id: '2-0', createdAt: T + 1 },
    ]);
    expect(service.requests).toEqual([
      'GET /v2/dlq?queueName=a+b%26c&responseStatus=500&count=100',
      'GET /v2/dlq?queueName=a+b%26c&responseStatus=500&count=100&cursor=a%2Bb%2Fc%3D',
    ]);
    expect(counts.rejected).toEqual({ dlq: 2 });
  });

  it('the client reads events between two times', async () => {
    const service = await serve((_request, response) =>
      json(response, { cursor: '', events: [{ messageId: 'm', state: 'CANCELED', time: `${T}` }] }),
    );
    const { reader } = createTestClient(service.url);
    expect(await allRows(reader.eventPages({ fromDate: 1, toDate: 9 }, signal()))).toEqual([
      { messageId: 'm', state: 'cancelled', time: T },
    ]);
    expect(service.requests).toEqual(['GET /v2/events?fromDate=1&toDate=9&count=1000']);
  });

  it('the client counts a row with an unreadable value, and returns it without this value', async () => {
    const event = { messageId: 'm', state: 'ERROR', time: T };
    const service = await serve((request, response) => {
      if (request.url?.startsWith('/v2/dlq'))
        json(response, { messages: [{ dlqId: 'a', createdAt: 'soon' }, { dlqId: 'b' }, {}] });
      else if (request.url?.startsWith('/v2/events'))
        json(response, { events: [{ ...event, responseStatus: '' }, event] });
      else json(response, [{ flowControlKey: 'k', waitListSize: '' }]);
    });
    const { reader, counts } = createTestClient(service.url);
    const page = async (pages: AsyncIterator<unknown>) => (await pages.next()).value;
    expect(await page(reader.dlqPages({}, signal()))).toMatchObject({
      ...{ rejected: 1, incomplete: 1 },
      rows: [{ id: 'a', createdAt: undefined, isIncomplete: true }, { id: 'b' }],
    });
    expect(await page(reader.eventPages({}, signal()))).toMatchObject({ rejected: 0, incomplete: 1 });
    expect(await allKeys(reader, signal())).toEqual({ rows: [{ key: 'k', isIncomplete: true }], rejected: 0 });
    expect(counts.rejected).toEqual({ dlq: 2, events: 1, flow_control: 1 });
  });

  it('the client filters the event list by every supported parameter', async () => {
    const service = await serve((_request, response) => json(response, { events: [] }));
    const { reader } = createTestClient(service.url);
    const narrow = { messageId: 'm', state: 'IN_PROGRESS', url: 'u', topicName: 't', scheduleId: 's', queueName: 'q' };
    await allRows(reader.eventPages(narrow, signal()));
    expect(service.requests).toEqual([
      'GET /v2/events?messageId=m&state=IN_PROGRESS&url=u&topicName=t&scheduleId=s&queueName=q&count=1000',
    ]);
  });

  it.each([
    ['null', null],
    ['null for the list', { flowControls: null }],
    ['nothing', {}],
  ])('the client treats %s as an empty list of keys', async (_what, body) => {
    const service = await serve((_request, response) => json(response, body));
    const { reader, counts } = createTestClient(service.url);
    expect(await allKeys(reader, signal())).toEqual({ rows: [], rejected: 0 });
    expect(counts).toMatchObject({ missing: {}, rejected: {} });
  });

  it.each([
    ['no list', { message: 'maintenance' }],
    ['an error next to the list', { flowControls: [], messages: [], events: [], error: 'no' }],
    ['no readable rows', { flowControls: [null], messages: [null, {}], events: [{ id: 1 }] }],
  ])('the client counts a response with %s as a missing list and uses no data from it', async (_what, body) => {
    const service = await serve((_request, response) => json(response, body));
    const { reader, counts } = createTestClient(service.url);
    const bad = { reason: 'invalid_response' };
    await expect(allKeys(reader, signal())).rejects.toMatchObject(bad);
    await expect(allRows(reader.dlqPages({}, signal()))).rejects.toMatchObject(bad);
    await expect(allRows(reader.eventPages({}, signal()))).rejects.toMatchObject(bad);
    expect(counts).toMatchObject({ missing: { flow_control: 1, dlq: 1, events: 1 }, rejected: {} });
  });

  it('the client returns the number of unreadable rows of each page', async () => {
    const service = await serve((request, response) => {
      const isFirst = !request.url?.includes('cursor');
      json(response, { ...(isFirst ? { cursor: 'next' } : {}), messages: [{ dlqId: isFirst ? 'a' : 'b' }, null, {}] });
    });
    const pages = createTestClient(service.url).reader.dlqPages({}, signal());
    const rejected: unknown[] = [];
    for (let page = await pages.next(); !page.done; page = await pages.next()) rejected.push(page.value.rejected);
    expect(rejected).toEqual([2, 2]);
  });

  it('the client does not count a list as missing if the request failed', async () => {
    const service = await serve((_request, response) => json(response, { error: 'no' }, 503));
    const { reader, counts } = createTestClient(service.url);
    await expect(allKeys(reader, signal())).rejects.toMatchObject({ reason: 'server' });
    expect(counts.missing).toEqual({});
  });

  it.each([
    [401, 'unauthorized', 1],
    [403, 'forbidden', 1],
    [404, 'not_found', 1],
    [400, 'refused', 1],
    [500, 'server', 4],
    [503, 'server', 4],
    [302, 'invalid_response', 1],
  ] as const)('the client classifies status %i as %s after %i attempts', async (status, reason, tries) => {
    const service = await serve((_request, response) => json(response, { error: `no: ${TOKEN}` }, status));
    const { error, counts } = await failure(service.url);
    expect(error.reason).toBe(reason);
    expect(error.message).toBe(`GET /v2/flowControl: status ${status}: no: <secret>`);
    expect(error.serviceError).toBe('no: <secret>');
    expect(service.requests).toHaveLength(tries);
    expect(counts.requests).toEqual({ [`flow_control ${reason}`]: tries });
  });

  it.each([
    ['not JSON', '<html>down</html>'],
    ['JSON of another shape', '{"error":{"text":"down"}}'],
    ['an empty text', '{"error":" "}'],
    ['more than 16 KiB', JSON.stringify({ error: 'down', more: ' '.repeat(16_384) })],
    ['more than 32 MiB', Buffer.alloc(33 * MIB, ' ')],
    ['gzip of more than 16 KiB', packedBlanks(20 * MIB)],
  ])('the client keeps the status of an error response if its body is %s', async (_what, body) => {
    const service = await serve((_request, response) => {
      const encoding = Buffer.isBuffer(body) && body[0] === 0x1f ? { 'content-encoding': 'gzip' } : {};
      response.writeHead(403, encoding).end(body);
    });
    const { error } = await failure(service.url);
    expect(error).toMatchObject({ message: 'GET /v2/flowControl: status 403', reason: 'forbidden' });
    expect(error.serviceError).toBeUndefined();
  });

  it('the client keeps the status of an error response in an unknown encoding', async () => {
    const service = await serve((_request, response) =>
      response.writeHead(403, { 'content-encoding': 'br' }).end('{"error":"no"}'),
    );
    expect((await failure(service.url)).error.message).toBe('GET /v2/flowControl: status 403');
  });

  it.each([
    ['text/plain', 'Method Not Allowed', 'Method Not Allowed'],
    ['text/plain; charset=utf-8', '404 page not found\n', '404 page not found'],
    ['TEXT/PLAIN;charset=UTF-8', '\ufeffno\r\nroute', 'no route'],
    [undefined, 'upstream request timeout', 'upstream request timeout'],
    [undefined, '"quota exceeded"', 'quota exceeded'],
    [undefined, `no: ${TOKEN}`, 'no: <secret>'],
    [undefined, 'Authorization: Bearer abcdef0123456789', 'Authorization: Bearer <secret>'],
    [undefined, 'a\u001b[31mb\u202ec', 'ab\u{fffd}c'],
    ['text/plain', 'expected <nil>, got 5 < 6', 'expected <nil>, got 5 < 6'],
    ['text/plain', 'x y '.repeat(100), `${'x y '.repeat(50).slice(0, 199)}…`],
    ['text/plain', '{"error":"no"}', 'no'],
    ['text/plain', '{"error":"no', undefined],
    ['text/plain', '{"message":"no"}', undefined],
    ['text/plain', '<!DOCTYPE html>down', undefined],
    ['text/plain', 'down <p>here</p>', undefined],
    ['text/plain', 'a\0b', undefined],
    ['text/plain', '', undefined],
    ['text/html', 'Method Not Allowed', undefined],
    ['application/json', 'Method Not Allowed', undefined],
    ['text/plainer', 'Method Not Allowed', undefined],
  ])('the client reads an error response of the type %s with the body %j as %j', async (type, body, shown) => {
    const service = await serve((_request, response) =>
      response.writeHead(405, type === undefined ? {} : { 'content-type': type }).end(body),
    );
    const { error } = await failure(service.url);
    expect(error.serviceError).toBe(shown);
    expect(error.message).toBe(`GET /v2/flowControl: status 405${shown === undefined ? '' : `: ${shown}`}`);
  });

  it('the client decompresses the error text of a gzipped response', async () => {
    const service = await serve((_request, response) =>
      response.writeHead(403, { 'content-encoding': 'gzip' }).end(gzipSync('{"error":"read only"}')),
    );
    expect((await failure(service.url)).error.message).toBe('GET /v2/flowControl: status 403: read only');
  });

  it('the client reports the status of an error response if its body is not complete within the timeout', async () => {
    const service = await serve((_request, response) => {
      response.writeHead(403).write('{"error":"');
      const drip = setInterval(() => response.write('x'), 20);
      response.on('close', () => clearInterval(drip));
    });
    const start = performance.now();
    const { error } = await failure(service.url, { timeout: 300 });
    expect(error).toMatchObject({ message: 'GET /v2/flowControl: status 403', reason: 'forbidden' });
    expect(performance.now() - start).toBeLessThan(2000);
  });

  it('the client repeats the error text of a rejected token in every failure until the token is retried', async () => {
    const service = await serve((_request, response) => json(response, { error: 'token expired' }, 401));
    const { reader } = createTestClient(service.url);
    await expect(allKeys(reader, signal())).rejects.toThrow('GET /v2/flowControl: status 401: token expired');
    await expect(allKeys(reader, signal())).rejects.toMatchObject({
      message: 'the service rejects the token; it is retried every minute: status 401: token expired',
      serviceError: 'token expired',
    });
    expect(service.requests).toHaveLength(1);
  });

  it('the client follows no redirect, so the token is sent to no other host', async () => {
    const elsewhere = await serve((_request, response) => json(response, []));
    const service = await serve((_request, response) =>
      response.writeHead(307, { location: `${elsewhere.url}/v2/flowControl` }).end(),
    );
    const { error } = await failure(service.url);
    expect(error.reason).toBe('invalid_response');
    expect(elsewhere.requests).toEqual([]);
  });

  it('the client retries after a temporary error with increasing delays, and succeeds', async () => {
    let calls = 0;
    const service = await serve((_request, response) => {
      calls += 1;
      if (calls < 4) json(response, {}, 502);
      else json(response, []);
    });
    const { reader, waits, counts } = createTestClient(service.url);
    expect((await allKeys(reader, signal())).rows).toEqual([]);
    expect(waits).toEqual([125, 250, 500]);
    expect(counts.requests).toEqual({ 'flow_control server': 3, 'flow_control ok': 1 });
  });

  it('the client waits for Retry-After, pauses the whole account, and fails immediately if the delay is too long', async () => {
    let header = '7';
    const service = await serve((_request, response) => response.writeHead(429, { 'retry-after': header }).end());
    const pauses: number[] = [];
    const budget: Budget = {
      run: (_priority, _signal, work) => work(),
      pause: ms => void pauses.push(ms),
      wait: () => 0,
      remaining: () => 1,
      spent: () => ({ day: 0, requests: 0 }),
    };
    expect((await failure(service.url, { budget })).waits).toEqual([7125, 7250, 7500]);
    expect(pauses).toEqual([7000, 7000, 7000, 7000]);
    header = '60';
    const { error: limited, waits: none } = await failure(service.url, { budget });
    expect(limited.reason).toBe('rate_limited');
    expect(none).toEqual([]);
    header = new Date(Date.now() + 3_600_000).toUTCString();
    const { error, waits } = await failure(service.url, { budget });
    expect(waits).toEqual([]);
    expect(error.retryAfter).toBeGreaterThan(3_500_000);
    expect(pauses.slice(4)).toEqual([60_000, error.retryAfter]);
  });

  it.each([
    ['no HTTP', 'nonsense\r\n\r\n'],
    ['endless headers', `HTTP/1.1 200 OK\r\nx: ${'y'.repeat(100_000)}\r\n\r\n`],
  ])('the client classifies %s as an invalid response', async (_what, bytes) => {
    const service = await serve(request => request.socket.end(bytes));
    expect((await failure(service.url)).error).toMatchObject({ reason: 'invalid_response' });
  });

  it('the client rejects a page with far more rows than requested', async () => {
    const service = await serve((_request, response) =>
      json(response, { messages: Array(1001).fill({ dlqId: '1-0' }) }),
    );
    const { reader } = createTestClient(service.url);
    await expect(allRows(reader.dlqPages({}, signal()))).rejects.toMatchObject({
      reason: 'invalid_response',
      message: 'GET /v2/dlq: 1001 rows, only 100 were requested',
    });
  });

  it.each([
    ['HTML', '<html>secret-body</html>'],
    ['truncated JSON', '{"flowControls": [{"secret-body'],
    ['a number', '5'],
    ['a wrong type', '{"flowControls": "secret-body"}'],
    ['nothing', ''],
  ])('the client classifies %s as an invalid response and does not quote it', async (_what, body) => {
    const service = await serve((_request, response) => response.end(body));
    const { error } = await failure(service.url);
    expect(error.reason).toBe('invalid_response');
    expect(`${error.stack} ${error.cause}`).not.toContain('secret-body');
    expect(service.requests).toHaveLength(1);
  });

  it('the client stops reading a body at the size limit, whether plain or decompressed', async () => {
    const chunk = Buffer.alloc(1024 * 1024, ' ');
    let sent = 0;
    const endless = await serve((_request, response) => {
      const more = () => {
        while (!response.destroyed && sent < 4 * MAX_LIST_BYTES) {
          sent += chunk.length;
          if (!response.write(chunk)) return response.once('drain', more);
        }
        return response.end();
      };
      more();
    });
    expect((await failure(endless.url, { timeout: 30_000 })).error.message).toContain(
      `the limit is ${MAX_LIST_BYTES} bytes`,
    );
    expect(sent).toBeLessThan(2 * MAX_LIST_BYTES);

    const tooLarge = packedBlanks(MAX_LIST_BYTES + 1);
    const service = await serve((_request, response) =>
      response.writeHead(200, { 'content-encoding': 'gzip' }).end(tooLarge),
    );
    expect((await failure(service.url, { timeout: 30_000 })).error.message).toContain(
      `the limit is ${MAX_LIST_BYTES} bytes`,
    );
  });

  it('the client requests half as many rows when a page is too large to read, and keeps the smaller size', async () => {
    // A compressed page of spaces that exceeds the limit is cheap to send.
    const tooLarge = packedBlanks(17 * MIB);
    const service = await serve((request, response) => {
      const query = new URL(request.url ?? '', 'http://x').searchParams;
      if (Number(query.get('count')) > 12) response.writeHead(200, { 'content-encoding': 'gzip' }).end(tooLarge);
      else
        json(
          response,
          query.has('cursor') ? { messages: [{ dlqId: '2-0' }] } : { cursor: 'c', messages: [{ dlqId: '1-0' }] },
        );
    });
    const { reader, client } = createTestClient(service.url);
    expect(await allRows(reader.dlqPages({ label: 'l' }, signal()))).toHaveLength(2);
    expect(service.requests.map(request => request.replace('GET /v2/dlq?label=l&', ''))).toEqual([
      'count=100',
      'count=50',
      'count=25',
      'count=12',
      'count=12&cursor=c',
    ]);
    await allRows(client.at('background').dlqPages({}, signal()));
    expect(service.requests[5]).toBe('GET /v2/dlq?count=12');
  });

  it('the client fails and counts an unreadable row when a page of one row is too large', async () => {
    const tooLarge = packedBlanks(MAX_PAGE_BYTES + 1);
    const service = await serve((_request, response) =>
      response.writeHead(200, { 'content-encoding': 'gzip' }).end(tooLarge),
    );
    const { reader, counts } = createTestClient(service.url);
    await expect(allRows(reader.dlqPages({}, signal()))).rejects.toMatchObject({
      reason: 'invalid_response',
      message: expect.stringMatching(
        `^GET /v2/dlq: response body of at least \\d{8} bytes; the limit is ${MAX_PAGE_BYTES} bytes$`,
      ),
    });
    expect(counts.rejected).toEqual({ dlq: 1 });
    expect(service.requests.at(-1)).toBe('GET /v2/dlq?count=1');
    expect(service.requests).toHaveLength(7);
  });

  it('the client fails after the timeout if a service never responds or sends its response too slowly', async () => {
    const hanging = await serve(() => undefined);
    const { error, counts } = await failure(hanging.url, { timeout: 20 });
    expect(error.reason).toBe('timeout');
    expect(counts.requests).toEqual({ 'flow_control timeout': 1 });

    const drops: NodeJS.Timeout[] = [];
    const dripping = await serve((_request, response) => {
      response.writeHead(200);
      drops.push(setInterval(() => response.write(' '), 5));
    });
    const drip = await failure(dripping.url, { timeout: 500 });
    expect(drip.error.reason).toBe('timeout');
    expect(drip.counts.bytes).toBeGreaterThan(0);
    for (const drop of drops) clearInterval(drop);
  });

  it('the client classifies refused and reset connections as network errors', async () => {
    const reset = await serve(request => request.socket.resetAndDestroy());
    expect((await failure(reset.url)).error.reason).toBe('network');
    const gone = await serve();
    await gone.close();
    const { error, counts } = await failure(gone.url);
    expect(error.message).toBe('GET /v2/flowControl: ECONNREFUSED');
    expect(counts.requests).toEqual({ 'flow_control network': 4 });
  });

  it('the client stops immediately when aborted, without counting a failure', async () => {
    const stop = new AbortController();
    const service = await serve(() => stop.abort(new Error('stopping')));
    const { reader, counts } = createTestClient(service.url);
    await expect(allKeys(reader, stop.signal)).rejects.toThrow('stopping');
    expect(counts.requests).toEqual({});
  });
});

it('the client exceeds the service’s limit per second at most once', async () => {
  const emulator = await emulate({ dialect: { requestsPerSecond: 3, burstReset: 'milliseconds' } });
  const limits = { requestsPerSecond: 1000, burst: 1000, concurrency: 1, requestsPerDay: 1_000_000 };
  const { reader, counts } = createTestClient(emulator.url, {
    token: async () => new Secret(emulator.token),
    budget: createBudget(limits, systemClock, () => undefined),
    clock: systemClock,
  });
  for (let call = 0; call < 8; call += 1) await allKeys(reader, signal());
  expect(counts.requests['flow_control ok']).toBe(8);
  expect(counts.requests['flow_control rate_limited'] ?? 0).toBeLessThanOrEqual(1);
});
