import type { ServerResponse } from 'node:http';
import { describe, expect, it } from 'vitest';
import { Secret } from '../../src/kit/secret.ts';
import { createDispatcher } from '../../src/upstream/dispatcher.ts';
import { createRotator, MAX_RECORD_BYTES } from '../../src/upstream/rotator.ts';
import { afterThisTest } from '../support/client.ts';
import { serve } from '../support/http-service.ts';

/** Resets the token at a service that responds with `answer`. */
async function reset(
  answer: (response: ServerResponse) => void,
  { path = '', operation = '/svc/user/rotatetoken', timeout = 60_000 } = {},
) {
  const service = await serve((_request, response) => answer(response));
  const dispatcher = createDispatcher({ connectTimeout: 60_000 });
  afterThisTest(() => dispatcher.destroy());
  const rotator = createRotator({
    baseUrl: service.url + path,
    path: operation,
    username: 'owner@example.com',
    password: new Secret('pass:word'),
    dispatcher,
    timeout,
  });
  const chunks: Buffer[] = [];
  const end = await rotator.reset(bytes => void chunks.push(Buffer.from(bytes)));
  return { service, end, kept: Buffer.concat(chunks) };
}

describe('rotator', () => {
  it('the rotator sends one request with the login and without a body, and passes the response on unchanged', async () => {
    const odd = Buffer.from([0xff, 0x00, 0x7b]);
    const { service, end, kept } = await reset(response => response.end(odd), { path: '/below/' });
    expect(end).toEqual({ end: 'answered', bytes: odd });
    expect(kept).toEqual(odd);
    expect(service.requests).toEqual(['POST /below/svc/user/rotatetoken']);
    expect(service.headers[0]).toMatchObject({
      authorization: `Basic ${Buffer.from('owner@example.com:pass:word').toString('base64')}`,
      'accept-encoding': 'identity',
      'content-length': '0',
    });
  });

  it('the rotator sends the request to the configured path', async () => {
    const got = await reset(response => response.end('{}'), { operation: '/v2/qstash/rotate-token/acc-1' });
    expect(got.service.requests).toEqual(['POST /v2/qstash/rotate-token/acc-1']);
  });

  it.each([
    ['', '/v2/keys/rotate'],
    ['/v2/keys', '/rotate'],
    ['/v2', '/Keys/Rotate'],
  ])('the rotator never sends a request to %s%s', async (path, operation) => {
    const got = await reset(response => response.end('{}'), { path, operation });
    expect(got.end).toMatchObject({ end: 'not_done', error: { reason: 'refused' } });
    expect(got.service.requests).toEqual([]);
  });

  it.each([
    [400, 'not_done', 'refused'],
    [401, 'not_done', 'unauthorized'],
    [403, 'not_done', 'forbidden'],
    [404, 'not_done', 'not_found'],
    [429, 'not_done', 'rate_limited'],
    [302, 'unknown', 'invalid_response'],
    [408, 'unknown', 'timeout'],
    [500, 'unknown', 'server'],
    [503, 'unknown', 'server'],
  ])(
    'the rotator classifies status %i as %s, keeps the body, and sends no further request',
    async (status, end, reason) => {
      const got = await reset(response =>
        response.writeHead(status, { location: '/elsewhere', 'retry-after': '0' }).end('body-canary'),
      );
      expect(got.end).toMatchObject({
        end,
        error: { reason, message: `POST /svc/user/rotatetoken: status ${status}` },
        bytes: Buffer.from('body-canary'),
      });
      expect(got.kept.toString()).toBe('body-canary');
      expect(got.service.requests).toHaveLength(1);
    },
  );

  it('the rotator returns unknown if the response is cut off, late or too long, and passes the received part on', async () => {
    const cut = await reset(response => {
      response.writeHead(200, { 'content-length': '100' });
      response.write('half', () => response.socket?.destroy());
    });
    expect(cut.end).toMatchObject({ end: 'unknown', error: { reason: 'network' } });
    expect(cut.kept.toString()).toBe('half');
    const late = await reset(response => void response.write('begun'), { timeout: 500 });
    expect(late.end).toMatchObject({ end: 'unknown', error: { reason: 'timeout' } });
    expect(late.kept.toString()).toBe('begun');
    const long = await reset(response => response.end(Buffer.alloc(MAX_RECORD_BYTES + 1, 'x')));
    expect(long.end).toMatchObject({ end: 'unknown', error: { reason: 'invalid_response' } });
    expect(long.kept).toHaveLength(MAX_RECORD_BYTES);
    const silent = await reset(response => response.socket?.destroy());
    expect(silent.end).toMatchObject({ end: 'unknown', error: { reason: 'network' } });
  });
});
