import { describe, expect, test } from 'vitest';
import type { Emulator } from '../../src/emulator/server.ts';
import { ask, emptyEmulator, handClock, NOON } from './emulated.ts';

const basic = (text: string) => `Basic ${Buffer.from(text).toString('base64')}`;
const login = ({ credentials }: Emulator) => `${credentials.login.username}:${credentials.login.password}`;

async function headersOf({ url, token }: Emulator, path = '/v2/flowControl') {
  const response = await fetch(url + path, { headers: { authorization: `Bearer ${token}` } });
  await response.arrayBuffer();
  const burst = (name: string) => Number(response.headers.get(`burst-ratelimit-${name}`));
  const retryAfter = response.headers.get('retry-after');
  return {
    status: response.status,
    limit: burst('limit'),
    remaining: burst('remaining'),
    reset: burst('reset'),
    retryAfter,
  };
}

describe('burst limits', () => {
  test('the burst limit counts all requests within one second of real time, rejects those over the limit, and then resets', async () => {
    const clock = handClock(NOON + 300);
    const emulated = await emptyEmulator({ clock, dialect: { requestsPerSecond: 2 } });
    const end = NOON / 1000 + 2;
    const common = { limit: 2, reset: end, retryAfter: null };
    expect(await headersOf(emulated)).toEqual({ status: 200, remaining: 1, ...common });
    clock.move(999);
    expect(await headersOf(emulated, '/v2/dlq?count=0')).toEqual({ status: 400, remaining: 0, ...common });
    expect(await headersOf(emulated, '/v2/events')).toEqual({ status: 429, remaining: 0, ...common });
    const body = await ask(emulated, '/v2/nothing');
    expect(body).toMatchObject({ status: 429, body: { error: expect.any(String) } });
    clock.move(1);
    expect(await headersOf(emulated)).toMatchObject({ status: 200, remaining: 1 });
  });

  test('the burst limit reports its reset time in milliseconds if the dialect requires this unit', async () => {
    const dialect = { requestsPerSecond: 1, burstReset: 'milliseconds' } as const;
    const emulated = await emptyEmulator({ dialect });
    expect(await headersOf(emulated)).toMatchObject({ status: 200, reset: NOON + 1000 });
    expect(await headersOf(emulated)).toMatchObject({ status: 429, reset: NOON + 1000 });
  });

  test('the burst limit does not count unauthenticated requests', async () => {
    const emulated = await emptyEmulator({ dialect: { requestsPerSecond: 1 } });
    for (let request = 0; request < 5; request++)
      expect((await ask(emulated, '/v2/dlq', { headers: {} })).status).toBe(401);
    expect((await headersOf(emulated)).status).toBe(200);
  });
});

describe('read-only token', () => {
  test.each(['403', '401'] as const)(
    'the read-only token permits reads; writes are rejected with status %s',
    async refused => {
      const emulated = await emptyEmulator({ readOnlyToken: 'reader', dialect: { readOnlyWrite: refused } });
      const dlqId = emulated.state.addFailedRun();
      const send = (method: string, path: string) =>
        ask(emulated, path, { method, headers: { authorization: 'Bearer reader' } });
      for (const path of [
        '/v2/dlq',
        '/v2/events',
        '/v2/logs',
        '/v2/flowControl',
        `/v2/dlq/${dlqId}`,
        '/v2/workflows/dlq',
      ])
        expect((await send('GET', path)).status).toBe(200);
      for (const [method, path] of [
        ['DELETE', `/v2/workflows/dlq/callback/${dlqId}`],
        ['POST', `/v2/workflows/dlq/callback/${dlqId}`],
        ['DELETE', `/v2/dlq/${dlqId}`],
        ['DELETE', '/v2/dlq'],
        ['POST', '/v2/keys/rotate'],
      ] as const) {
        const answer = await send(method, path);
        expect(answer).toMatchObject({ status: Number(refused), body: { error: expect.any(String) } });
      }
      expect(emulated.state.countCallbacks().CALLBACK_INPROGRESS).toBe(1);
      expect([emulated.credentials.keyRotations, emulated.state.cancels()]).toEqual([0, {}]);
    },
  );
});

describe('token reset', () => {
  const reset = (of: Emulator, authorization: string, path = '/svc/user/rotatetoken') =>
    ask(of, path, { method: 'POST', headers: { authorization } });

  test.each(['/svc/user/rotatetoken', '/qstash/user/rotatetoken', '/v2/qstash/rotate-token/{id}'])(
    'a token reset at %s revokes the old tokens immediately',
    async path => {
      const emulated = await emptyEmulator({ token: 'old', readOnlyToken: 'old-reader' });
      const { status, body } = await reset(
        emulated,
        basic(login(emulated)),
        path.replace('{id}', emulated.credentials.accountId),
      );
      expect([status, body.token]).toEqual([200, emulated.token]);
      const statuses = [];
      for (const token of ['old', 'old-reader', emulated.token, emulated.credentials.readOnlyToken])
        statuses.push((await ask(emulated, '/v2/dlq', { headers: { authorization: `Bearer ${token}` } })).status);
      expect(statuses).toEqual([401, 401, 200, 200]);
      expect((await ask(emulated, '/_emulator/state')).body.tokenResets).toBe(1);
      const again = await reset(emulated, basic(login(emulated)));
      expect(again.body.token).not.toBe(body.token);
      expect(again.body.password).not.toBe(body.password);
    },
  );

  test('a token reset requires the user name and password of the account', async () => {
    const emulated = await emptyEmulator();
    const path = `/v2/qstash/rotate-token/${emulated.credentials.accountId}`;
    for (const authorization of [
      '',
      `Bearer ${emulated.token}`,
      basic('owner@example.com:'),
      basic(`${login(emulated)}x`),
      login(emulated),
    ]) {
      for (const each of ['/svc/user/rotatetoken', path])
        expect(await reset(emulated, authorization, each)).toMatchObject({
          status: 401,
          body: { error: expect.any(String) },
        });
    }
    expect((await reset(emulated, basic(login(emulated)), '/v2/qstash/rotate-token/other')).status).toBe(404);
    expect(emulated.credentials.resets).toBe(0);
    expect((await ask(emulated, '/svc/user/rotatetoken')).status).toBe(405);
  });
});

test('a request to /v2/keys/rotate rotates the signing keys, and a request to a path below it reads a flow-control key', async () => {
  const emulated = await emptyEmulator();
  emulated.state.setWaitlist('a/b', 4);
  for (const path of ['a/b', 'a%2Fb'])
    expect((await ask(emulated, `/v2/keys/rotate/${path}`)).body).toEqual({ flowControlKey: 'a/b', waitlistSize: 4 });
  expect(emulated.credentials.keyRotations).toBe(0);
  const headers = { authorization: `Bearer ${emulated.token}` };
  for (const method of ['GET', 'POST'])
    expect((await ask(emulated, '/v2/keys/rotate', { method, headers })).body).toEqual({
      current: expect.stringMatching(/^sig_/),
      next: expect.stringMatching(/^sig_/),
    });
  expect(emulated.credentials.keyRotations).toBe(2);
});
