import { describe, expect, it } from 'vitest';
import { allKeys, allRows, createTestClient } from '../support/client.ts';
import { serve } from '../support/http-service.ts';

const signal = () => new AbortController().signal;
const EVERY = { name: 'new', maxAge: 30_000 };

/** Starts a service whose responses have these `Age` headers in order, and creates its client. */
async function setUp(ages: readonly (string | readonly string[] | undefined)[], status = 200) {
  const left = [...ages];
  const service = await serve((request, response) => {
    const age = left.shift();
    if (age !== undefined) response.setHeader('age', age);
    const isFirst = !request.url?.includes('cursor');
    const page = { flowControls: [], events: [], messages: [{ dlqId: isFirst ? '1-0' : '2-0' }] };
    response.writeHead(status).end(JSON.stringify(isFirst && ages.length > 1 ? { ...page, cursor: 'x' } : page));
  });
  return { service, ...createTestClient(service.url) };
}

describe('cached responses', () => {
  it('every read sends Cache-Control: no-cache', async () => {
    const { service, client } = await setUp([]);
    const reader = client.at('dlq', EVERY);
    await allRows(reader.dlqPages({}, signal()));
    await allRows(reader.eventPages({}, signal()));
    await allKeys(reader, signal());
    await client
      .at('look')
      .flowControlKey('k', signal())
      .catch(() => undefined);
    expect(service.headers.map(headers => headers['cache-control'])).toEqual(Array(4).fill('no-cache'));
  });

  it.each(['31', '7200', '7200.5', ' 31 ', '9'.repeat(30), '9'.repeat(400), '0, 7200', ['5', '7200'], '-1, 7200'])(
    'a response with Age %j fails a round with an interval of 30 s',
    async age => {
      const { client, counts } = await setUp([age]);
      await expect(allRows(client.at('dlq', EVERY).dlqPages({}, signal()))).rejects.toMatchObject({
        reason: 'invalid_response',
        message: 'GET /v2/dlq: a cached response, older than 30 s',
      });
      expect(counts).toMatchObject({ requests: { 'dlq invalid_response': 1 }, missing: { dlq: 1 } });
    },
  );

  it.each([undefined, '0', '1', '30', '-1', '-7200', 'abc', '', '1e9', '0x7fffffff', '7200 s', 'NaN', 'Infinity'])(
    'a response with Age %j is current for a round with an interval of 30 s',
    async age => {
      const { client } = await setUp([age]);
      expect(await allRows(client.at('dlq', EVERY).dlqPages({}, signal()))).toHaveLength(1);
    },
  );

  it('a cached second page fails the read', async () => {
    const { client } = await setUp(['0', '7200']);
    await expect(allRows(client.at('dlq', EVERY).dlqPages({}, signal()))).rejects.toMatchObject({
      reason: 'invalid_response',
    });
  });

  it('a read outside rounds accepts no cached response older than 1 s', async () => {
    const { client } = await setUp(['2']);
    await expect(allRows(client.at('action').dlqPages({}, signal()))).rejects.toThrow(
      'a cached response, older than 1 s',
    );
    expect(await allRows((await setUp(['1'])).client.at('action').dlqPages({}, signal()))).toHaveLength(1);
  });

  it.each([401, 404])('a cached status %i shows neither a rejected token nor a missing key', async status => {
    const { client, rejections, service } = await setUp(['7200', '7200'], status);
    const reader = client.at('flow_control', EVERY);
    await expect(reader.flowControlKey('k', signal())).rejects.toMatchObject({ reason: 'invalid_response' });
    await expect(allRows(reader.eventPages({}, signal()))).rejects.toMatchObject({ reason: 'invalid_response' });
    expect(rejections).not.toContain(true);
    expect(service.requests).toEqual(['GET /v2/flowControl/k', 'GET /v2/events?count=1000']);
  });
});
