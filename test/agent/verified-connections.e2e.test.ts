import { readFileSync } from 'node:fs';
import { createServer } from 'node:https';
import { type AddressInfo, connect, createServer as createTcpServer, type Server, type Socket } from 'node:net';
import { join } from 'node:path';
import { TLSSocket } from 'node:tls';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createPeerKey, reportOfPeer } from '../../src/http/peer.ts';
import { Secret } from '../../src/kit/secret.ts';
import { openStore } from '../../src/store/open.ts';
import { toReadableSpan } from '../../src/telemetry/message-spans.ts';
import { createOtlpExporter } from '../../src/telemetry/sdk.ts';
import { createDispatcher } from '../../src/upstream/dispatcher.ts';
import { createPost } from '../../src/upstream/post.ts';
import { createAgent } from '../support/agent.ts';
import { afterThisTest, allKeys, createTestClient } from '../support/client.ts';
import { eventually } from '../support/eventually.ts';
import { ofAttempt } from '../support/message-span.ts';

const pem = (name: string) => readFileSync(join('test/support/certificates', name), 'utf8');
const TLS = { key: pem('server.key'), cert: pem('server.pem') };
const AUTHORITY = join(process.cwd(), 'test/support/certificates/authority.pem');
const NEVER = new AbortController().signal;

async function listen(server: Server): Promise<number> {
  const sockets = new Set<Socket>();
  server.on('connection', socket => sockets.add(socket.on('error', () => undefined)));
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve));
  afterThisTest(() => {
    for (const socket of sockets) socket.destroy();
    return new Promise<void>(resolve => server.close(() => resolve()));
  });
  return (server.address() as AddressInfo).port;
}

/** Starts an HTTPS server with a certificate of an unknown authority. `requests`: paths of the received requests. */
async function serveTls() {
  const requests: string[] = [];
  const server = createServer(TLS, (request, response) => {
    requests.push(request.url ?? '');
    response.setHeader('content-type', 'application/json').end('{}');
  });
  // A proxy with TLS.
  server.on('connect', (request, socket) => {
    requests.push(`CONNECT ${request.url}`);
    socket.end();
  });
  return { url: `https://localhost:${await listen(server)}`, requests };
}

/** Starts a server that upgrades to TLS as PostgreSQL does. `messages`: decrypted data. */
async function servePostgres() {
  const messages: string[] = [];
  const server = createTcpServer(socket =>
    socket.once('data', () => {
      socket.write('S');
      const tls = new TLSSocket(socket, { isServer: true, ...TLS });
      tls.on('error', () => undefined);
      tls.on('data', data => {
        messages.push(data.toString('latin1'));
        tls.destroy();
      });
    }),
  );
  return { port: await listen(server), messages };
}

const exportTo = async (endpoint: string, env: Record<string, string> = {}) => {
  const exporter = await createOtlpExporter({ endpoint, headers: {} }, env);
  const result = await new Promise<{ code: number }>(resolve =>
    exporter.export([toReadableSpan(ofAttempt())], resolve),
  );
  await exporter.shutdown();
  return result.code;
};

const openPostgres = (port: number, rest: string) =>
  openStore(
    {
      kind: 'postgres',
      path: '',
      url: { literal: new Secret(`postgres://u:p@localhost:${port}/d?${rest}`) },
      schema: 's',
    },
    { env: {} },
  );

describe('with NODE_TLS_REJECT_UNAUTHORIZED=0', () => {
  beforeEach(() => vi.stubEnv('NODE_TLS_REJECT_UNAUTHORIZED', '0'));
  afterEach(() => vi.unstubAllEnvs());

  const read = (url: string, proxy?: string) => {
    const dispatcher = createDispatcher({ connectTimeout: 1000, proxy: proxy ? new Secret(proxy) : undefined });
    afterThisTest(() => dispatcher.destroy());
    return allKeys(createTestClient(url, { dispatcher }).reader, NEVER);
  };

  it('the service is not read if the certificate of the service or of the proxy is not trusted', async () => {
    const { url, requests } = await serveTls();
    await expect(read(url)).rejects.toMatchObject({ reason: 'network' });
    await expect(read('https://service.example', url)).rejects.toMatchObject({ reason: 'network' });
    await expect(read('http://service.example', url)).rejects.toMatchObject({ reason: 'network' });
    expect(requests).toEqual([]);
  });

  it('receivers and other replicas get no request if their certificate is not trusted', async () => {
    const { url, requests } = await serveTls();
    const { post, get, close } = createPost();
    afterThisTest(close);
    await expect(post(url, { headers: {}, body: 'x', signal: NEVER })).rejects.toThrow();
    await expect(get(url, NEVER)).rejects.toThrow();
    await expect(reportOfPeer({ url, key: createPeerKey('k'), isLocal: false }, NEVER)).rejects.toThrow(/certificate/);
    expect(requests).toEqual([]);
  });

  it('traces are sent only if the certificate is trusted by default or because of OTEL_EXPORTER_OTLP_CERTIFICATE', async () => {
    const { url, requests } = await serveTls();
    expect(await exportTo(url)).toBe(1);
    expect(requests).toEqual([]);
    expect(await exportTo(url, { OTEL_EXPORTER_OTLP_CERTIFICATE: AUTHORITY })).toBe(0);
    expect(await exportTo(url, { OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE: AUTHORITY })).toBe(0);
    expect(requests).toEqual(['/v1/traces', '/v1/traces']);
  });

  it.each(['sslmode=verify-full', `sslmode=verify-full&sslrootcert=${join(AUTHORITY, '../other-authority.pem')}`])(
    'PostgreSQL gets no user or password if its certificate is not trusted with %s',
    async rest => {
      const { port, messages } = await servePostgres();
      await expect(openPostgres(port, rest)).rejects.toMatchObject({ reason: 'untrusted' });
      expect(messages).toEqual([]);
      await expect(openPostgres(port, `sslmode=verify-full&sslrootcert=${AUTHORITY}`)).rejects.toThrow();
      expect(messages[0]).toContain('user\0u');
    },
  );
});

it('environment variables disable neither the verification of certificates nor the strict HTTP parser', async () => {
  const { url, requests } = await serveTls();
  const agent = createAgent(
    {
      accounts: [{ name: 'a', baseUrl: url, token: { env: 'DELIVERY_TOKEN' } }],
      tracing: { enabled: true, sampleRatio: 1 },
    },
    {
      DELIVERY_TOKEN: 'x',
      NODE_TLS_REJECT_UNAUTHORIZED: '0',
      NODE_OPTIONS: '--insecure-http-parser',
      OTEL_EXPORTER_OTLP_ENDPOINT: url,
      OTEL_TRACES_SAMPLER: 'always_on',
    },
  );
  await agent.start();
  const socket = connect(Number(new URL(agent.url).port), '127.0.0.1');
  socket.end('GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n');
  expect((await socket.toArray()).join('')).toMatch(/^HTTP\/1\.1 400/);
  await eventually(async () => expect(await agent.value('delivery_up')).toBe(0));
  expect(await agent.end('SIGTERM')).toBe(0);
  expect(requests).toEqual([]);
});
