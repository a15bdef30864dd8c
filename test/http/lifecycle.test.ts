import { getCACertificates, setDefaultCACertificates } from 'node:tls';
import { describe, expect, it } from 'vitest';
import { isCrossSite } from '../../src/http/routes/lifecycle.ts';
import type { Served } from '../../src/status/served.ts';
import { afterThisTest } from '../support/client.ts';
import { ALICE, CA, CLIENT, CLIENTS, serve, tlsWith, USERS } from './protected-server.ts';

const [RELOAD, APPROVE, PAUSE, RESUME] = [
  '/-/reload',
  '/api/v1/auto-cancel/approve',
  '/api/v1/auto-cancel/pause',
  '/api/v1/auto-cancel/resume',
];
const JSON_BODY = { 'content-type': 'application/json' };
const ON = { lifecycle: true };
const POST = { method: 'POST', ...ALICE };
const post = (body: unknown, headers: Readonly<Record<string, string>> = {}) => ({
  ...POST,
  headers: { ...JSON_BODY, ...headers },
  body: typeof body === 'string' ? body : JSON.stringify(body),
});

describe('POST routes', () => {
  it('POST routes are disabled by default', async () => {
    const { ask, commands } = await serve(USERS);
    for (const path of [RELOAD, APPROVE, PAUSE, RESUME]) {
      expect(await ask(path, post({ reason: 'x', action: 'x' }))).toMatchObject({
        status: 403,
        text: '{"error":"server.lifecycle is false in the configuration"}',
      });
    }
    expect(commands).toEqual([]);
  });

  it('POST routes accept only POST, and other routes reject POST', async () => {
    const { ask } = await serve(USERS, {}, ON);
    for (const [path, method, allow] of [
      [RELOAD, 'GET', 'POST'],
      [PAUSE, 'PUT', 'POST'],
      ['/metrics', 'POST', 'GET, HEAD'],
      ['/', 'OPTIONS', 'GET, HEAD'],
      ['/-/healthy', 'DELETE', 'GET, HEAD'],
      ['/api/v1/journal', 'PATCH', 'GET, HEAD'],
    ] as const) {
      const { status, headers } = await ask(path, { method, ...ALICE });
      expect([path, status, headers.allow]).toEqual([path, 405, allow]);
    }
    expect((await ask('/nowhere', POST)).status).toBe(404);
  });

  it('the reload route reloads the configuration, or returns its errors with their positions', async () => {
    const good = await serve(USERS, {}, ON);
    expect(await good.ask(RELOAD, POST)).toMatchObject({ status: 200, text: '{"changed":["accounts"]}' });
    const faults = [{ file: 'config.yaml', line: 1, column: 2, message: 'must be text' }];
    const bad = await serve(USERS, { reload: async () => ({ faults }) }, ON);
    expect(await bad.ask(RELOAD, POST)).toMatchObject({ status: 400, text: JSON.stringify({ faults }) });
    // A reload needs no authentication, because it only reads the existing file.
    const open = await serve({}, {}, ON);
    expect(await open.status(RELOAD, { method: 'POST' })).toBe(200);
  });

  it('POST routes pass the authenticated user of a command to auto-cancel', async () => {
    const { ask, commands } = await serve(USERS, {}, ON);
    expect(await ask(PAUSE, post({ reason: 'maintenance' }))).toMatchObject({ status: 200, text: '{"done":true}' });
    await ask(RESUME, post({ reason: 'over' }));
    await ask(APPROVE, post({ action: '0123abcd' }));
    expect(commands).toEqual([
      { kind: 'pause', reason: 'maintenance', by: 'alice' },
      { kind: 'resume', reason: 'over', by: 'alice' },
      { kind: 'approve', action: '0123abcd', by: 'alice' },
    ]);
    const certified = await serve(CLIENTS, {}, ON);
    await certified.ask(PAUSE, { ...post({ reason: 'x' }), tls: CLIENT });
    expect(certified.commands).toEqual([{ kind: 'pause', reason: 'x', by: 'client' }]);
  });

  it.each(['RequestClientCert', 'RequireAnyClientCert', 'RequireClientCert'])(
    'POST routes reject auto-cancel commands with %s, even if a public authority has signed the client certificate',
    async client_auth_type => {
      const authorities = getCACertificates('default');
      afterThisTest(async () => setDefaultCACertificates(authorities));
      setDefaultCACertificates([...authorities, CA.ca]);
      const { ask, commands } = await serve(tlsWith({ client_auth_type }), {}, ON);
      expect(await ask(PAUSE, { ...post({ reason: 'x' }), tls: CLIENT })).toMatchObject({
        status: 403,
        text: '{"error":"needs a server.webConfigFile with basic_auth_users or RequireAndVerifyClientCert"}',
      });
      expect(commands).toEqual([]);
      const open = await serve({}, {}, ON);
      expect(await open.ask(PAUSE, post({ reason: 'x' }))).toMatchObject({ status: 403 });
      expect(open.commands).toEqual([]);
      const named = await serve(tlsWith({ client_auth_type, client_ca_file: 'authority.pem' }), {}, ON);
      expect(await named.ask(PAUSE, { ...post({ reason: 'x' }), tls: CLIENT })).toMatchObject({ status: 200 });
    },
  );

  it.each([
    ['409 if the command fails', { ok: false, why: 'no action x waits for approval' } as const, APPROVE, 409],
    ['202 if the command is executed later', 'waiting' as const, APPROVE, 202],
  ])('POST routes respond with %s', async (_name, answer, path, expected) => {
    const command: Served['command'] = async () => answer;
    const { ask } = await serve(USERS, { command }, ON);
    const { status, text } = await ask(path, post(path === PAUSE ? { reason: 'x' } : { action: 'x' }));
    expect([status, JSON.parse(text).error]).toEqual([
      expected,
      expect.stringMatching(/^(no action x|the account is not open)/),
    ]);
  });

  it('POST routes reject an invalid body', async () => {
    const { ask, commands, logText } = await serve(USERS, {}, ON);
    for (const [name, path, init, expected, message] of [
      ['no body', PAUSE, { ...POST }, 400, 'the body: reason must be text'],
      ['no reason', PAUSE, post({}), 400, 'the body: reason must be text'],
      ['a blank reason', PAUSE, post({ reason: ' ' }), 400, 'the body: reason must not be blank'],
      ['a long reason', PAUSE, post({ reason: 'x'.repeat(1001) }), 400, 'the body: reason must have at most 1000'],
      ['a user name', RESUME, post({ reason: 'x', by: 'root' }), 400, 'the body: must be an object with reason alone'],
      ['a list', APPROVE, post([]), 400, 'the body: must be an object with action alone'],
      ['invalid JSON', APPROVE, post('{body-canary'), 400, 'the body must be JSON'],
      ['a large body', APPROVE, post({ action: 'x'.repeat(20_000) }), 413, 'at most 16kb'],
      [
        'a form',
        PAUSE,
        post('reason=x', { 'content-type': 'application/x-www-form-urlencoded' }),
        415,
        'the body must be JSON',
      ],
      ['a body without a type', RELOAD, { ...POST, body: 'x' }, 415, 'the body must be JSON'],
      ['another encoding', PAUSE, post('x', { 'content-encoding': 'other' }), 415, 'the body must be'],
    ] as const) {
      const { status, text } = await ask(path, init);
      expect([name, status, JSON.parse(text).error]).toEqual([name, expected, expect.stringContaining(message)]);
      expect(text).not.toContain('canary');
    }
    expect([commands, logText()]).toEqual([[], '[]']);
  });

  it('POST routes reject cross-site requests from browsers', async () => {
    const { status, commands, server } = await serve(USERS, {}, ON);
    const own = new URL(server.url).host;
    const from = (headers: Readonly<Record<string, string>>) =>
      status(PAUSE, post({ reason: 'x' }, { host: own, ...headers }));
    expect(await from({ origin: 'https://evil.example' })).toBe(403);
    expect(await from({ 'sec-fetch-site': 'cross-site' })).toBe(403);
    expect(commands).toEqual([]);
    expect(await from({ origin: `http://${own}`, 'sec-fetch-site': 'same-origin' })).toBe(200);
  });
});

it.each([
  [{}, false],
  [{ 'sec-fetch-site': 'none' }, false],
  [{ 'sec-fetch-site': 'same-origin' }, false],
  [{ 'sec-fetch-site': 'same-site' }, true],
  [{ 'sec-fetch-site': 'cross-site', origin: 'https://dw.example' }, true],
  [{ 'sec-fetch-site': 'other' }, true],
  [{ origin: 'https://dw.example' }, false],
  [{ origin: 'https://DW.example:443' }, false],
  [{ origin: 'https://dw.example:8443' }, true],
  [{ origin: 'https://a.dw.example' }, true],
  [{ origin: 'https://dw.example.evil' }, true],
  [{ origin: 'null' }, true],
  [{ origin: '' }, true],
  [{ origin: 'file://' }, true],
])('isCrossSite with headers %j returns %s', (headers, expected) => {
  expect(isCrossSite({ headers: { host: 'dw.example', ...headers } })).toBe(expected);
});
