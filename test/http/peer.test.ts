import type { RequestListener } from 'node:http';
import { connect } from 'node:net';
import { text } from 'node:stream/consumers';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { createPeerKey, reportOfPeer, requestPeer, SIGNATURE } from '../../src/http/peer.ts';
import type { Views } from '../../src/status/served.ts';
import { eventually } from '../support/eventually.ts';
import { openPort } from '../support/port.ts';
import { CA, CLIENTS, serve, tlsWith, USERS } from './protected-server.ts';

const KEY = createPeerKey('secret of the store');
const EXPLAIN = '/api/v1/explain?id=1-0';
const never = new AbortController().signal;
const signed = (target = EXPLAIN, key = KEY) => ({ headers: { authorization: key.sign(target) } });
const ask = (url: string, more: Partial<Parameters<typeof requestPeer>[0]> = {}, signal = never) =>
  requestPeer({ url, key: KEY, id: '1-0', isLocal: false, ...more }, signal);

describe('signed requests', () => {
  it('a signed GET request is accepted without a password, but only for the signed path and query', async () => {
    const { status, ask } = await serve(USERS, { peerKey: KEY, explain: async () => [{ account: 'a' }] });
    expect(await ask(EXPLAIN, signed())).toMatchObject({ status: 200, text: '[{"account":"a"}]' });
    expect(await status(EXPLAIN)).toBe(401);
    expect(await status(`${EXPLAIN}&more=1`, signed())).toBe(401);
    for (const path of ['/metrics', '/api/v1/alerts']) {
      expect([path, await status(path, signed(path))]).toEqual([path, 200]);
      expect([path, await status(path, signed())]).toEqual([path, 401]);
    }
    expect(await status(EXPLAIN, { ...signed(), method: 'POST' })).toBe(401);
    expect(await status(EXPLAIN, { ...signed(), method: 'HEAD' })).toBe(401);
  });

  it.each([
    ['by another key', createPeerKey('another')],
    ['eleven minutes ago', createPeerKey('secret of the store', () => Date.now() - 660_000)],
    ['in eleven minutes', createPeerKey('secret of the store', () => Date.now() + 660_000)],
  ])('a signed request is rejected if it was signed %s', async (_when, key) => {
    const { status } = await serve(USERS, { peerKey: KEY });
    expect(await status(EXPLAIN, signed(EXPLAIN, key))).toBe(401);
  });

  it.each(['', 'Delivery-Watch', 'Delivery-Watch 1.', `Delivery-Watch ${Date.now()}.${'A'.repeat(43)}`, 'Basic x'])(
    'a request with the authorization header %j is rejected like one without the header',
    async authorization => {
      const { status } = await serve(USERS, { peerKey: KEY });
      expect(await status(EXPLAIN, { headers: { authorization } })).toBe(401);
    },
  );

  it('a request signed by an agent with another store is rejected, even by an agent without passwords', async () => {
    for (const peerKey of [createPeerKey('another'), undefined]) {
      const { status } = await serve({}, { ...(peerKey && { peerKey }), explain: async () => [{ account: 'a' }] });
      expect([await status(EXPLAIN), await status(EXPLAIN, signed())]).toEqual([200, 401]);
    }
  });

  it('a signed request is rejected by an agent without a peer key', async () => {
    const { status } = await serve(USERS);
    expect(await status(EXPLAIN, signed())).toBe(401);
  });

  it('a signed request is exempt from the host check, because browsers cannot sign requests', async () => {
    const { status } = await serve(
      {},
      { peerKey: KEY, explain: async () => [1] },
      { allowedHosts: ['dw.example.com'] },
    );
    expect([await status(EXPLAIN), await status(EXPLAIN, signed())]).toEqual([421, 200]);
  });

  it('a signature does not replace a required client certificate', async () => {
    const { ask } = await serve(CLIENTS, { peerKey: KEY, explain: async () => [1] });
    await expect(ask(EXPLAIN, signed())).rejects.toThrow();
  });
});

/** Responds with a body that is signed with `key`. `request`: the request to which it responds. */
const respond =
  (body: string, { key = KEY, status = 200, request = '' } = {}): RequestListener =>
  ({ headers }, response) => {
    response.setHeader(SIGNATURE, key.signResponse(request || (headers.authorization ?? ''), 200, body));
    response.writeHead(status).end(body);
  };

describe('requestPeer', () => {
  it('requestPeer returns the explanations, or an empty list if the agent does not track the callback', async () => {
    let found: readonly unknown[] = [{ account: 'a' }];
    const explain = vi.fn<Views['explain']>(async () => found);
    const { server } = await serve(USERS, { peerKey: KEY, explain });
    expect(await ask(server.url, { account: 'a' })).toEqual([{ account: 'a' }]);
    found = [];
    expect(await ask(`${server.url}/`, {})).toEqual([]);
    expect(explain.mock.calls.map(([id, account]) => [id, account])).toEqual([
      ['1-0', 'a'],
      ['1-0', undefined],
    ]);
  });

  it('requestPeer verifies the certificate of an agent on another machine', async () => {
    const { server } = await serve(tlsWith(), { peerKey: KEY, explain: async () => [1] });
    await expect(ask(server.url)).rejects.toThrow(/certificate/);
    expect(await ask(server.url, { isLocal: true })).toEqual([1]);
    expect(CA.ca).toContain('BEGIN CERTIFICATE');
  });

  it.each<[string, RequestListener, RegExp]>([
    ['redirects', (_, response) => response.writeHead(307, { location: 'http://127.0.0.1:1/' }).end(), /status 307/],
    ['requires a password', (_, response) => response.writeHead(401).end(), /status 401/],
    ['sends invalid JSON', respond('<html>'), /JSON/],
    ['sends an object', respond('{}'), /invalid response/],
    ['does not sign its response', (_, response) => response.end('[]'), /did not sign/],
    ['does not sign its response with 404', (_, response) => response.writeHead(404).end(), /did not sign/],
    ['signs with another key', respond('[]', { key: createPeerKey('another') }), /did not sign/],
    ['signed the response to an earlier request', respond('[]', { request: KEY.sign(EXPLAIN) }), /did not sign/],
    ['signed another status', respond('[]', { status: 404 }), /did not sign/],
    [
      'returns the signature of the request',
      ({ headers: { authorization = '' } }, response) =>
        response.setHeader(SIGNATURE, authorization.split('.')[1] ?? '').end('[]'),
      /did not sign/,
    ],
    ['sends more than 16 MiB', (_, response) => response.end('x'.repeat(2 ** 24 + 1)), /more than 16777216 bytes/],
    [
      'switches protocols',
      ({ socket }) => void socket.end('HTTP/1.1 101 x\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n'),
      /the connection was closed/,
    ],
    ['closes the connection', ({ socket }) => void socket.destroy(), /socket hang up|ECONNRESET/],
  ])('requestPeer rejects if the other agent %s', async (_what, listener, message) => {
    // A busy machine may need longer than the timeout for 16 MiB.
    vi.useFakeTimers({ toFake: ['setTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    await expect(ask(await openPort(listener))).rejects.toThrow(message);
  });

  it('requestPeer aborts its request when its signal is aborted', async () => {
    let [open, closed] = [0, 0];
    const url = await openPort(request => {
      open += 1;
      request.socket.once('close', () => {
        closed += 1;
      });
    });
    const controller = new AbortController();
    const asked = ask(url, {}, controller.signal);
    await eventually(() => expect(open).toBe(1));
    controller.abort();
    await expect(asked).rejects.toThrow(/abort/i);
    await eventually(() => expect(closed).toBe(1));
  });
});

/** Starts a standby of the leader with this URL. */
function serveStandby(leader: string, isLeading = () => false) {
  const group = {
    isLeading,
    leader: () => ({ id: 'leader', url: leader, since: 0, age: 0 }),
    unavailableSince: () => undefined,
  };
  return serve({}, { peerKey: KEY, group });
}

it.each<[string, RequestListener, string]>([
  ['closes the connection', ({ socket }) => void socket.destroy(), 'ECONNRESET'],
  [
    'has another key',
    respond('{}', { key: createPeerKey('another') }),
    'its response with status 200 is not signed with the key of this store: check its clock and server.replicaUrl',
  ],
])('a standby whose leader %s names the cause', async (_what, listener, cause) => {
  const leader = await openPort(listener);
  const { ask } = await serveStandby(leader);
  const { status, text } = await ask('/api/v1/status');
  expect([status, JSON.parse(text)]).toEqual([
    503,
    {
      error: `this process is a standby, and the leader ${leader}, which renewed its lease 0 s ago, did not respond (${cause})`,
    },
  ]);
});

it('a standby adds the path of the leader’s URL to its requests, and signs them without this path', async () => {
  const leader = await openPort(({ url, headers: { authorization = '' } }, response) => {
    const isSigned = KEY.isSigned({ method: 'GET', url: url?.replace('/dw', ''), headers: { authorization } } as never);
    response.setHeader(SIGNATURE, KEY.signResponse(authorization, 200, `${url} ${isSigned}`));
    response.end(`${url} ${isSigned}`);
  });
  const { ask } = await serveStandby(`${leader}/dw`);
  expect((await ask('/api/v1/status?a=1')).text).toBe('/dw/api/v1/status?a=1 true');
});

it('a standby serves its own paths itself, regardless of case and a slash at the end', async () => {
  const asked: string[] = [];
  const leader = await openPort(({ url = '' }, response) => response.end(String(asked.push(url))));
  const { status } = await serveStandby(leader);
  for (const path of ['/metrics', '/metrics/', '/Metrics/Agent/', '/-/ready', '/api/v1/sd/', '/api/v1/SD']) {
    expect([path, await status(path)]).toEqual([path, 200]);
  }
  expect(asked).toEqual([]);
});

it('a standby that receives the request of another standby names the likely cause', async () => {
  let own = '';
  const group = {
    isLeading: () => false,
    leader: () => ({ id: 'leader', url: own, since: 0, age: 0 }),
    unavailableSince: () => undefined,
  };
  const { server, ask } = await serve({}, { peerKey: KEY, group });
  own = server.url;
  const { status, text } = await ask('/');
  expect([status, text]).toEqual([503, expect.stringContaining('correct server.replicaUrl of the leader')]);
});

it('a standby that takes over while it waits for the leader responds itself', async () => {
  let isLeading = false;
  const leader = await openPort(({ socket }) => {
    isLeading = true;
    socket.destroy();
  });
  const { ask } = await serveStandby(leader, () => isLeading);
  expect((await ask('/api/v1/status')).status).toBe(200);
});

it.each([
  "/api/v1/overview?q=o'brien",
  '/api/v1/../v1/overview?q="a|{c}"',
  '//HOST/api/v1/overview',
  'http://HOST/api/v1/overview',
])('a standby sends the request target %s unchanged, and only to the leader', async target => {
  const stray: string[] = [];
  const other = new URL(await openPort((request, response) => response.end(String(stray.push(request.url ?? '')))));
  const path = target.replace('HOST', other.host);
  const asked: string[] = [];
  const leader = await openPort((request, response) => {
    asked.push(request.url ?? '');
    response.setHeader(SIGNATURE, KEY.signResponse(request.headers.authorization ?? '', 200, 'of the leader'));
    response.end('of the leader');
  });
  const standby = await serveStandby(leader);
  const { port } = new URL(standby.server.url);
  // `fetch` and `http.request` refuse some of these targets, or encode them.
  const socket = connect(Number(port), '127.0.0.1');
  socket.write(`GET ${path} HTTP/1.1\r\nHost: standby\r\nConnection: close\r\n\r\n`);
  const received = await text(socket);
  expect(received).toMatch(/^HTTP\/1\.1 200 .*of the leader$/s);
  expect([asked, stray]).toEqual([[path], []]);
});

it('reportOfPeer accepts a signed report and rejects a replayed one', async () => {
  const report = { verdict: 'healthy' };
  const { server, ask } = await serve(USERS, { peerKey: KEY, report: async () => report as never });
  const peer = { key: KEY, isLocal: true };
  expect(await reportOfPeer({ ...peer, url: server.url }, never)).toEqual(report);
  const recorded = await ask('/api/v1/report', signed('/api/v1/report'));
  expect(recorded.headers).toHaveProperty(SIGNATURE.toLowerCase());
  const url = await openPort((_request, response) => {
    response.setHeader(SIGNATURE, String(recorded.headers[SIGNATURE.toLowerCase()])).end(recorded.text);
  });
  await expect(reportOfPeer({ ...peer, url }, never)).rejects.toThrow(`${url} did not sign its response`);
});

describe('GET /api/v1/explain', () => {
  it('GET /api/v1/explain does not look up an account that is not configured', async () => {
    const explain = vi.fn<Views['explain']>(async () => []);
    const { ask } = await serve({}, { explain });
    expect(await ask(`${EXPLAIN}&account=nobody`)).toMatchObject({
      status: 404,
      text: '{"error":"no account with that name is configured"}',
    });
    expect(explain).not.toHaveBeenCalled();
  });
});

it.each(['/accounts/nobody', '/api/v1/accounts/nobody', '/api/v1/accounts/nobody/history?family=delivery_up'])(
  'GET %s reads nothing for an account that is not configured',
  async path => {
    const calls: string[] = [];
    const record = (what: string) => async () => void calls.push(what);
    const { status } = await serve(
      {},
      {
        history: record('history'),
        account: () => void calls.push('account'),
      },
    );
    expect([await status(path), calls]).toEqual([404, []]);
    await status(path.replace('nobody', 'a'));
    expect(calls).not.toEqual([]);
  },
);
