import { request } from 'node:http';
import { afterEach, describe, expect, it } from 'vitest';
import { parseListen, serverOptions } from '../../src/http/options.ts';
import type { HttpServer, ServerSettings } from '../../src/http/server.ts';
import { systemClock } from '../../src/kit/clock.ts';
import { version } from '../../src/kit/version.ts';
import type { AccountStatus, RoundStatus } from '../../src/model/status.ts';
import type { Served } from '../../src/status/served.ts';
import { startHttpServer } from '../../src/status/server.ts';
import { type ServedChanges, servedWith } from '../status/empty-served.ts';
import { freePort } from '../support/prometheus.ts';
import { createTestLog } from '../support/silent.ts';

const HOUR = 3_600_000;
const NOW = Date.UTC(2026, 5, 1);

const round = (more: Partial<RoundStatus>): RoundStatus => ({
  round: 'list',
  every: 15_000,
  success: true,
  complete: true,
  durationSeconds: 0.25,
  dataAt: Date.UTC(2026, 0, 1),
  consecutiveFailures: 0,
  idle: undefined,
  stale: false,
  failure: undefined,
  ...more,
});
const statuses: AccountStatus[] = [
  { account: 'good', up: true, collectors: [{ collector: 'dlq', withdrawn: false, rounds: [round({})] }] },
  {
    account: 'bad',
    up: false,
    collectors: [
      {
        collector: 'dlq',
        withdrawn: true,
        rounds: [
          round({ stale: true, success: false, failure: { reason: 'server', message: '<script>alert(1)</script>' } }),
        ],
      },
      {
        collector: 'events',
        withdrawn: false,
        rounds: [round({ success: undefined, dataAt: undefined, durationSeconds: undefined })],
      },
    ],
  },
];

const servers: HttpServer[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
});

async function serve(overrides: ServedChanges = {}, settings: Partial<ServerSettings> = {}) {
  const log = createTestLog();
  const server = await startHttpServer(
    { host: '127.0.0.1', port: 0, ...settings },
    servedWith({
      accounts: ['good', 'bad'],
      exposition: async (scope, format, gzip) => ({
        contentType: `x/${format}`,
        body: Buffer.from(`${JSON.stringify(scope)} ${gzip}`),
      }),
      status: () => statuses,
      ...overrides,
    }),
    log,
  );
  servers.push(server);
  const get = async (path: string, init: RequestInit = {}) => {
    const response = await fetch(server.url + path, init);
    return { response, status: response.status, text: await response.text() };
  };
  return { get, log, server };
}

describe('routes', () => {
  it.each([
    ['/metrics', '"everything"'],
    ['/metrics/agent', '"agent"'],
    ['/probe?account=bad', '{"account":"bad"}'],
  ])('GET %s serves only its part of the exposition', async (path, scope) => {
    const { get } = await serve();
    const { response, text } = await get(path, { headers: { 'accept-encoding': 'identity', accept: '*/*' } });
    expect(text).toBe(`${scope} false`);
    expect(response.headers.get('content-type')).toBe('x/text');
    expect(response.headers.get('vary')).toBe('Accept, Accept-Encoding');
    expect(response.headers.get('content-length')).toBe(String(text.length));
  });

  it('/probe accepts only configured accounts', async () => {
    const { get } = await serve();
    expect((await get('/probe?account=other')).status).toBe(404);
    expect((await get('/probe?account=http://127.0.0.1/')).status).toBe(404);
    expect((await get('/probe')).status).toBe(400);
    expect((await get('/probe?account=good&account=bad')).status).toBe(400);
  });

  it('/-/healthy and /-/ready respond with 200 regardless of the accounts', async () => {
    const { get } = await serve({
      status: () => {
        throw new Error('must not be called');
      },
    });
    expect([(await get('/-/healthy')).status, (await get('/-/ready')).status]).toEqual([200, 200]);
  });

  it.each([
    ['', NOW - 24 * HOUR],
    ['?since=90m', NOW - 1.5 * HOUR],
    ['?since=0s', NOW],
    ['?since=2026-01-02T03:04:05Z', Date.UTC(2026, 0, 2, 3, 4, 5)],
  ])('GET /api/v1/journal returns the entries since the time in the query "%s"', async (query, expected) => {
    const { get } = await serve({ clock: { ...systemClock, now: () => NOW }, journal: async since => [{ since }] });
    const { status, text } = await get(`/api/v1/journal${query}`);
    expect([status, JSON.parse(text)]).toEqual([200, [{ since: expected }]]);
  });

  it.each(['since=', 'since=yesterday', 'since=-1h', 'since=1h2m'])(
    'GET /api/v1/journal rejects the query %s',
    async query => {
      const { get } = await serve({ journal: async () => [{ secret: 1 }] });
      const { status, text } = await get(`/api/v1/journal?${query}`);
      expect([status, JSON.parse(text)]).toEqual([
        400,
        { error: 'since must be one duration such as 24h, or one time' },
      ]);
    },
  );

  it('GET /api/v1/status returns the status as JSON', async () => {
    const { get } = await serve();
    const body = JSON.parse((await get('/api/v1/status')).text);
    expect(body).toMatchObject({ version, accounts: JSON.parse(JSON.stringify(statuses)) });
    expect(Date.parse(body.now)).toBeGreaterThan(Date.UTC(2026, 0, 1));
  });

  it('GET /api/v1/sd returns one target per account for Prometheus service discovery', async () => {
    const { get, server } = await serve();
    const target = (host: string, account: string, scheme = 'http', path = '/probe') => ({
      targets: [host],
      labels: {
        __scheme__: scheme,
        __metrics_path__: path,
        __param_account: account,
        instance: `delivery-watch/${account}`,
        replica: host,
      },
    });
    const { host } = new URL(server.url);
    expect(JSON.parse((await get('/api/v1/sd')).text)).toEqual([target(host, 'good'), target(host, 'bad')]);
    const external = await serve({ externalUrl: 'https://dw.example.com/watch/' });
    expect(JSON.parse((await external.get('/api/v1/sd')).text)).toEqual([
      target('dw.example.com', 'good', 'https', '/watch/probe'),
      target('dw.example.com', 'bad', 'https', '/watch/probe'),
    ]);
  });

  it('the server rejects a Host header that contains a path, query or user', async () => {
    const { server } = await serve();
    const { hostname, port } = new URL(server.url);
    const ask = (host: string) =>
      new Promise<number | undefined>((resolve, reject) => {
        request({ hostname, port, path: '/api/v1/sd', headers: { host } }, response => {
          response.resume();
          resolve(response.statusCode);
        })
          .on('error', reject)
          .end();
      });
    expect(await ask('evil.example/x?y#z')).toBe(400);
    expect(await ask('user@evil.example')).toBe(400);
    expect([await ask('dw.example.com:80'), await ask('DW.example.com'), await ask('[::1]:10922')]).toEqual([
      200, 200, 200,
    ]);
  });

  it.each([
    ['dw.example.com', 200],
    ['DW.Example.COM:10922', 200],
    ['[::1]', 200],
    ['[0:0::1]:80', 200],
    ['127.0.0.1:9', 200],
    ['evil.example', 421],
    ['dw.example.com.evil.example', 421],
    ['evil.example:dw.example.com', 421],
    ['dw.example.com@evil.example', 421],
    ['evil.example/dw.example.com', 421],
    ['[::2]', 421],
    ['dw.example.com.', 200],
    ['DW.example.com.:10922', 200],
  ])('with allowedHosts, every request with the Host header %s gets status %d', async (host, expected) => {
    const { allowedHosts } = serverOptions.parse({ allowedHosts: ['dw.example.com', '::1', '127.0.0.1'] });
    const { server } = await serve({}, { allowedHosts });
    const { hostname, port } = new URL(server.url);
    const ask = (path: string, method = 'GET') =>
      new Promise<number | undefined>((resolve, reject) => {
        request({ hostname, port, path, method, headers: { host } }, response => {
          response.resume();
          resolve(response.statusCode);
        })
          .on('error', reject)
          .end();
      });
    for (const path of ['/', '/metrics', '/probe?account=good', '/api/v1/status', '/api/v1/journal', '/-/healthy']) {
      expect([path, await ask(path)]).toEqual([path, expected]);
    }
    expect([await ask('/nowhere'), await ask('/-/reload', 'POST')]).toEqual(expected === 200 ? [404, 403] : [421, 421]);
  });

  it.each([['dw.example.com:80'], ['http://dw.example.com'], ['a/b'], [''], ['a b'], ['[::1]:80'], ['a:b:c']])(
    'the configuration rejects %j in allowedHosts',
    host => expect(serverOptions.safeParse({ allowedHosts: [host] }).success).toBe(false),
  );

  it('the server responds with 404 to unknown paths, and with 500 without the reason if a handler fails', async () => {
    const { get, log } = await serve({ exposition: async () => Promise.reject(new Error('inner detail')) });
    expect(await get('/nowhere')).toMatchObject({ status: 404, text: 'not found\n' });
    expect(await get('/metrics')).toMatchObject({ status: 500, text: 'internal error\n' });
    expect(log.lines).toMatchObject([{ level: 'error', fields: { path: '/metrics', error: 'inner detail' } }]);
  });

  it('startup fails with an error that contains the address if the port is in use', async () => {
    const { server } = await serve();
    const port = Number(new URL(server.url).port);
    await expect(
      startHttpServer({ host: '127.0.0.1', port }, { clock: systemClock } as Served, createTestLog()),
    ).rejects.toThrow(`can't listen on 127.0.0.1:${port}: the address is in use`);
  });

  it('the server closes promptly despite keep-alive connections and responses that never complete', async () => {
    const requested = Promise.withResolvers<void>();
    const { get, server } = await serve({
      exposition: () => {
        requested.resolve();
        return new Promise(() => undefined);
      },
    });
    await get('/-/healthy');
    const hanging = get('/metrics').catch((error: unknown) => error);
    await requested.promise;
    await server.close();
    expect(await hanging).toBeInstanceOf(Error);
  });
});

describe('changed settings', () => {
  const HOST = { host: '127.0.0.1', port: 0 };
  const open = async (url: string, path = '/-/healthy') => (await fetch(url + path)).status;

  it('a change of the allowed hosts takes effect without reopening the port', async () => {
    const { server } = await serve();
    const { url } = server;
    server.apply({ ...HOST, allowedHosts: ['dw.example.com'] });
    expect([server.url, await open(url)]).toEqual([url, 421]);
    server.apply(HOST);
    expect(await open(url)).toBe(200);
  });
});

it('the probe port serves only probes, without host checks', async () => {
  const port = await freePort();
  const { server } = await serve({}, { allowedHosts: ['x'], probes: { host: '127.0.0.1', port } });
  const open = async (url: string, path = '/-/healthy') => (await fetch(url + path)).status;
  const probes = `http://127.0.0.1:${port}`;
  expect([await open(probes), await open(probes, '/-/ready?x'), await open(probes, '/metrics')]).toEqual([
    200, 200, 404,
  ]);
  expect((await fetch(`${probes}/-/ready`, { method: 'POST', body: 'x' })).status).toBe(405);
  expect([await open(server.url), await open(server.url, '/-/ready')]).toEqual([421, 421]);
});

it('startup fails if the probe port is in use, and closes the other port', async () => {
  const { server: other } = await serve();
  const [port, taken] = [await freePort(), Number(new URL(other.url).port)];
  await expect(serve({}, { port, probes: { host: '127.0.0.1', port: taken } })).rejects.toThrow(
    `can't listen on 127.0.0.1:${taken}: the address is in use`,
  );
  await expect(fetch(`http://127.0.0.1:${port}`)).rejects.toThrow();
});

describe('listen addresses', () => {
  it.each([
    ['127.0.0.1:0', '127.0.0.1', 0],
    ['localhost:10922', 'localhost', 10922],
    ['[::]:80', '::', 80],
  ])('parseListen parses the listen address %s', (listen, host, port) => {
    expect(serverOptions.parse({ listen }).listen).toBe(listen);
    expect(parseListen(listen)).toEqual({ host, port });
  });
  it.each(['10922', ':10922', 'a:b', 'a:70000', '::1:80', 'http://a:1', ''])(
    'the option `listen` rejects the address %j',
    listen => expect(serverOptions.safeParse({ listen }).success).toBe(false),
  );
});
