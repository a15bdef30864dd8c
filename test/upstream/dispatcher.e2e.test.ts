import { createServer, request as httpRequest } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { type AddressInfo, connect } from 'node:net';
import { describe, expect, it } from 'vitest';
import { parseConfig } from '../../src/config/load.ts';
import { Secret } from '../../src/kit/secret.ts';
import { createDispatcher, type DispatcherOptions } from '../../src/upstream/dispatcher.ts';
import { UpstreamError } from '../../src/upstream/errors.ts';
import { upstreamOptions } from '../../src/upstream/options.ts';
import { createCertificate } from '../hostile/certificate.ts';
import { afterThisTest, allKeys, createTestClient } from '../support/client.ts';
import { json, serve } from '../support/http-service.ts';

async function listening(server: ReturnType<typeof createServer>): Promise<number> {
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  afterThisTest(async () => {
    server.closeAllConnections();
    await new Promise(resolve => server.close(resolve));
  });
  return (server.address() as AddressInfo).port;
}

/** Starts a forward proxy that also supports tunnels. It records requests and credentials. */
async function startProxy() {
  const requests: (string | undefined)[] = [];
  const credentials: (string | undefined)[] = [];
  const server = createServer((request, response) => {
    requests.push(`${request.method} ${request.url}`);
    credentials.push(request.headers['proxy-authorization']);
    const { host: _host, 'proxy-authorization': _secret, ...headers } = request.headers;
    request.pipe(
      httpRequest(request.url ?? '', { method: request.method, headers }, answer => {
        response.writeHead(answer.statusCode ?? 502, answer.headers);
        answer.pipe(response);
      }),
    );
  });
  server.on('connect', (request, socket, head) => {
    requests.push(`CONNECT ${request.url}`);
    credentials.push(request.headers['proxy-authorization']);
    const [host, port] = String(request.url).split(':');
    const onward = connect(Number(port), host, () => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n');
      onward.write(head);
      onward.pipe(socket).pipe(onward);
    });
    for (const end of [socket, onward]) end.on('error', () => end.destroy());
  });
  return { port: await listening(server), requests, credentials };
}

async function read(url: string, options: Omit<DispatcherOptions, 'connectTimeout'>) {
  const dispatcher = createDispatcher({ connectTimeout: 1000, ...options });
  afterThisTest(() => dispatcher.destroy());
  return allKeys(createTestClient(url, { dispatcher }).reader, new AbortController().signal);
}

const ANSWER = { rows: [{ key: 'k', waitlistSize: 3 }], rejected: 0 };
const KEYS = [{ flowControlKey: 'k', waitListSize: 3 }];

describe('noProxy', () => {
  const accepts = (entry: string) => upstreamOptions.safeParse({ noProxy: [entry] }).success;

  it.each([
    '10.0.0.0/8',
    'fd00::/8',
    'http://a.example',
    'https://a.example:443/',
    'a.*.example',
    '*a.example',
    'a.*',
    '10.*',
    '10.',
    '.0.0.1',
    '10.0.0',
    '127.1',
    '010.0.0.1',
    '0:0::1',
    'a.example/x',
    'user@a.example',
    'a.example:99999',
    'a.example:http',
    'bücher.example',
    '<local>',
    '.',
    '',
    ' ',
  ])('the entry %j, which would match nothing, is refused', entry => expect(accepts(entry)).toBe(false));

  it.each([
    ['127.0.0.1', true],
    ['127.0.0.1:PORT', true],
    ['127.0.0.1:1', false],
    ['*', true],
    ['*:PORT', true],
    ['a.example, 127.0.0.1', true],
    ['localhost', false],
    ['*.example.com', false],
    ['.example.com', false],
    ['A_b-c.Example.com.', false],
    ['::1', false],
    ['[::1]:443', false],
    ['[2001:DB8::7]', false],
  ])('the entry %s is accepted; a service at 127.0.0.1 is then read directly: %s', async (text, isDirect) => {
    const service = await serve((_request, response) => json(response, KEYS));
    const proxy = await startProxy();
    const entry = text.replace('PORT', new URL(service.url).port);
    expect(accepts(entry)).toBe(true);
    await read(service.url, { proxy: new Secret(`http://127.0.0.1:${proxy.port}`), noProxy: [entry] });
    expect(proxy.requests).toHaveLength(isDirect ? 0 : 1);
  });

  it('the error about a refused noProxy entry contains its position and the allowed forms', () => {
    const upstream = { noProxy: ['a.example', '10.0.0.0/8'] };
    const accounts = [{ name: 'a', baseUrl: 'http://127.0.0.1:1', token: { env: 'T' }, upstream }];
    expect(() => parseConfig(JSON.stringify({ upstream, accounts }), 'x.yaml')).toThrow(
      /^x\.yaml:1:37: upstream\.noProxy\[1\]: must be a host, an address, \.domain or \*\.domain, .*\n.*: accounts\[0\]\.upstream\.noProxy\[1\]: must be/,
    );
  });
});

describe('proxies', () => {
  it('a proxy receives all requests, with its user and password, except those to excluded hosts', async () => {
    const service = await serve((_request, response) => json(response, KEYS));
    const proxy = await startProxy();
    const address = new Secret(`http://user:pass@127.0.0.1:${proxy.port}`);
    expect(await read(service.url, { proxy: address })).toEqual(ANSWER);
    expect(proxy.requests).toEqual([`GET ${service.url}/v2/flowControl`]);
    expect(proxy.credentials).toEqual([`Basic ${Buffer.from('user:pass').toString('base64')}`]);
    expect(await read(service.url, { proxy: address, noProxy: ['127.0.0.1'] })).toEqual(ANSWER);
    expect(proxy.requests).toHaveLength(1);
  });

  it('TLS connections through a proxy accept certificates of additional authorities', async () => {
    const { key, cert } = createCertificate();
    const port = await listening(createTlsServer({ key, cert }, (_request, response) => json(response, KEYS)));
    const proxy = await startProxy();
    const address = new Secret(`http://127.0.0.1:${proxy.port}`);
    expect(await read(`https://127.0.0.1:${port}`, { proxy: address, ca: cert.toString() })).toEqual(ANSWER);
    expect(proxy.requests).toEqual([`CONNECT 127.0.0.1:${port}`]);
  });

  it('an unreachable proxy causes a network error', async () => {
    const service = await serve((_request, response) => json(response, KEYS));
    await expect(read(service.url, { proxy: new Secret('http://127.0.0.1:1') })).rejects.toMatchObject({
      reason: 'network',
    });
    expect(service.requests).toEqual([]);
  });
});

describe('TLS', () => {
  it('an untrusted certificate causes a network error, and an additionally trusted one is accepted', async () => {
    const { key, cert } = createCertificate();
    const port = await listening(createTlsServer({ key, cert }, (_request, response) => json(response, KEYS)));
    const error = await read(`https://localhost:${port}`, {}).catch((error: unknown) => error);
    expect(error).toBeInstanceOf(UpstreamError);
    expect(error).toMatchObject({
      reason: 'network',
      message: expect.stringMatching(/: DEPTH_ZERO_SELF_SIGNED_CERT$/),
    });
    expect(await read(`https://localhost:${port}`, { ca: cert.toString() })).toEqual(ANSWER);
  });
});

it('a host name that does not resolve causes a network error', async () => {
  await expect(read('http://no-such-host.invalid', {})).rejects.toMatchObject({ reason: 'network' });
});
