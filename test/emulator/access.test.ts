import { once } from 'node:events';
import { connect } from 'node:net';
import { expect, test } from 'vitest';
import { scenarios } from '../../src/emulator/scenarios.ts';
import { startEmulator } from '../../src/emulator/server.ts';
import { ask, emptyEmulator, emulator, handClock } from './emulated.ts';

const LISTS = ['/v2/dlq', '/v2/events', '/v2/logs', '/v2/flowControl'];

test.each(LISTS)('%s requires the bearer token', async path => {
  const emulated = await emptyEmulator({ token: 'right-token' });
  const refused = { status: 401, body: { error: 'unable to authenticate: invalid token' } };
  const wrong = [
    undefined,
    'Bearer',
    'Bearer ',
    'Bearer wrong',
    'Bearer right-token2',
    'right-token',
    'Basic right-token',
  ];
  for (const authorization of wrong) {
    const headers: Record<string, string> = authorization === undefined ? {} : { authorization };
    expect(await ask(emulated, path, { headers })).toMatchObject(refused);
  }
  expect(await ask(emulated, `${path}?qstash_token=right-token`, { headers: {} })).toMatchObject(refused);
  expect((await ask(emulated, path)).status).toBe(200);
});

test('each emulator generates a new token if none is configured', async () => {
  const [one, two] = [await emptyEmulator(), await emptyEmulator()];
  expect(one.token.length).toBeGreaterThan(20);
  expect(one.token).not.toBe(two.token);
  expect((await ask(one, '/v2/dlq')).status).toBe(200);
});

test('unsupported methods return 405 in plain text, and unknown paths return 404 in JSON', async () => {
  const emulated = await emptyEmulator();
  for (const path of LISTS) {
    for (const method of path === '/v2/dlq' ? ['POST', 'PUT'] : ['POST', 'DELETE', 'PUT']) {
      const { status, text, body } = await ask(emulated, path, {
        method,
        headers: { authorization: `Bearer ${emulated.token}` },
      });
      expect(status).toBe(405);
      expect(text.trim()).toBe('Method Not Allowed');
      expect(body).toBeUndefined();
    }
  }
  for (const path of ['/v2/nothing', '/nothing', '/v2/dlq/', '/v2/DLQ', '/v2/dlq/1-1', '/v2/%']) {
    expect(await ask(emulated, path)).toMatchObject({ status: 404, body: { error: expect.any(String) } });
  }
});

test('flow-control keys with any characters are returned unchanged', async () => {
  const emulated = await emptyEmulator();
  expect((await ask(emulated, '/v2/flowControl')).body).toEqual({ flowControls: [] });
  const keys = ['plain', 'a/b', 'a b', '"q"', "it's", 'ключ 🚚', '\\', '{a="b"}', 'a,b', '__proto__', '%2F?#&'];
  for (const [index, key] of keys.entries()) emulated.state.setWaitlist(key, index);
  const expected = keys.map((flowControlKey, waitListSize) => ({ flowControlKey, waitListSize }));
  expect((await ask(emulated, '/v2/flowControl')).body).toEqual({ flowControls: expected });
  expect([...emulated.state.waitlists()]).toEqual(keys.map((key, size) => [key, size]));
  emulated.state.setWaitlist('plain', undefined);
  expect((await ask(emulated, '/v2/flowControl')).body).toEqual({ flowControls: expected.slice(1) });
});

test('a waitlist size set by a test overrides the size from the workload until it is unset', async () => {
  const emulated = await emulator();
  const before = emulated.state.waitlists();
  const [key] = before.keys();
  emulated.state.setWaitlist(key as string, 12_345);
  expect(emulated.state.waitlists().get(key as string)).toBe(12_345);
  emulated.state.setWaitlist(key as string, undefined);
  expect(emulated.state.waitlists()).toEqual(before);
});

test('requests are counted by endpoint, regardless of the response', async () => {
  const emulated = await emptyEmulator();
  for (const path of ['/v2/dlq', '/v2/dlq?count=0', '/v2/events', '/v2/logs', '/v2/flowControl', '/v2/x'])
    await ask(emulated, path);
  await ask(emulated, '/v2/dlq', { headers: {} });
  await ask(emulated, '/v2/dlq', { method: 'POST' });
  await ask(emulated, '/_emulator/state');
  await ask(emulated, '/');
  expect(emulated.state.calls()).toEqual({
    'GET /v2/dlq': 3,
    'GET /v2/events': 1,
    'GET /v2/logs': 1,
    'GET /v2/flowControl': 1,
    other: 2,
  });
});

test('GET /_emulator/state needs no token, and its response contains none', async () => {
  const emulated = await emulator({ seed: 7 });
  emulated.state.addDlqEntry({ queueName: 'mine', responseStatus: 418 });
  const { status, text, body } = await ask(emulated, '/_emulator/state', { headers: {} });
  expect(status).toBe(200);
  const { state } = emulated;
  const now = emulated.clock.now();
  expect(body).toMatchObject({
    now,
    scenario: 'neglected',
    calls: {},
    dlq: { total: state.countDlq() },
  });
  expect(body.dlq.byResponseStatus).toMatchObject({ 418: 1, 500: state.countDlq(row => row.responseStatus === 500) });
  expect(body.events.byState).toEqual(state.countEvents());
  expect(body.events.byState.delivered).toBeGreaterThan(0);
  expect(body.waitlists).toEqual(Object.fromEntries(state.waitlists()));
  expect((await ask(emulated, '/', { headers: {} })).body).toEqual(body);
  expect(text).not.toContain(emulated.token);
});

test('an emulator with an unknown scenario or a port in use fails to start', async () => {
  await expect(startEmulator({ scenario: 'toString' })).rejects.toThrow(
    `no scenario "toString"; there are: ${Object.keys(scenarios).join(', ')}`,
  );
  const emulated = await emptyEmulator();
  const port = Number(new URL(emulated.url).port);
  await expect(startEmulator({ port })).rejects.toThrow('EADDRINUSE');
});

test('an emulator closes promptly despite idle connections, unused connections and a request in progress', async () => {
  const clock = { ...handClock(), sleep: () => Promise.resolve() };
  const emulated = await startEmulator({ clock, speed: 0 });
  const { port } = new URL(emulated.url);
  await ask(emulated, '/v2/dlq');
  const sockets = [connect(Number(port), '127.0.0.1'), connect(Number(port), '127.0.0.1')];
  await Promise.all(sockets.map(socket => once(socket, 'connect')));
  sockets[1]?.write('GET /v2/dlq HTTP/1.1\r\nHost:');
  for (const socket of sockets) socket.on('error', () => {});
  const closed = sockets.map(socket => new Promise(resolve => socket.on('close', resolve)));
  await Promise.all([emulated.close(), emulated.close()]);
  await Promise.all(closed);
  await emulated.close();
  await expect(ask(emulated, '/v2/dlq')).rejects.toThrow('fetch failed');
});

test('the Date header contains the emulated time', async () => {
  const emulated = await emptyEmulator();
  const dates: (string | null)[] = [];
  for (const advance of [0, 3_600_000]) {
    emulated.clock.advance(advance);
    for (const path of ['/v2/dlq', '/v2/x']) dates.push((await fetch(emulated.url + path)).headers.get('date'));
  }
  const [first, second] = [emulated.clock.now() - 3_600_000, emulated.clock.now()].map(at =>
    new Date(at).toUTCString(),
  );
  expect(dates).toEqual([first, first, second, second]);
});
