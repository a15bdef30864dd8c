import { expect, it, vi } from 'vitest';
import { type Lookups, RequestError } from '../../../src/status/lookups.ts';
import { ALICE, serve, USERS } from '../../http/protected-server.ts';

function echo() {
  const calls: unknown[] = [];
  const call =
    (name: string) =>
    async (...which: unknown[]) => {
      calls.push([name, ...which.filter(each => !(each instanceof AbortSignal))]);
      return { name } as never;
    };
  const lookups: Lookups = { dlq: call('dlq'), events: call('events'), message: call('message') };
  return { calls, lookups };
}

const PATHS = ['dlq', 'events', 'messages/m1'];

it('look-up routes pass the account, filters and limit to the look-up', async () => {
  const { calls, lookups } = echo();
  const { ask } = await serve(USERS, { lookups });
  for (const path of ['dlq?callerIp=::1&kind=k', 'events?since=2h&limit=7', 'messages/m1?account=a']) {
    const { status, headers } = await ask(`/api/v1/${path}`, ALICE);
    expect([status, headers['cache-control']]).toEqual([200, 'no-store']);
  }
  expect(calls).toEqual([
    ['dlq', 'a', { callerIp: '::1', kind: 'k', limit: 50 }],
    ['events', 'a', { since: '2h', limit: 7 }],
    ['message', 'a', 'm1'],
  ]);
});

it.each(PATHS)('/api/v1/%s requires a user and accepts only GET and HEAD', async path => {
  const { calls, lookups } = echo();
  const { ask, status } = await serve(USERS, { lookups });
  expect(await status(`/api/v1/${path}`)).toBe(401);
  expect(calls).toEqual([]);
  const post = await ask(`/api/v1/${path}`, { method: 'POST', ...ALICE });
  expect([post.status, post.headers.allow]).toEqual([405, 'GET, HEAD']);
});

it.each([
  ['dlq?limit=201', 'limit must be a whole number from 1 to 200'],
  ['dlq?status=x', 'status must be an HTTP status code, 100 to 999, or 0 for no response'],
  ['dlq?since=x', 'since must be a time, or a duration before now such as 2h'],
  ['dlq?since=1', 'since must be a time, or a duration before now such as 2h'],
  ['dlq?until=2026-02-31', 'until must be a time, or a duration before now such as 2h'],
  ['dlq?queue=', 'queue must not be empty'],
  ['dlq?queue=a&queue=b', 'queue must be given once'],
  [`dlq?url=${'x'.repeat(2001)}`, 'url must have at most 2000 characters'],
  [
    'events?status=500',
    'unknown parameter status: allowed parameters are account, message, url, topic, schedule, queue, state, since, until, limit',
  ],
  ['messages/m1?limit=1', 'unknown parameter limit: allowed parameters are account'],
  ['messages/a%2Fb', 'the message id must be 1 to 200 of A-Z a-z 0-9 _ -'],
  ['messages/%ff', 'the path must be UTF-8, percent-encoded'],
])('look-up routes reject %s', async (path, error) => {
  const { ask } = await serve(USERS, echo());
  const { status, text } = await ask(`/api/v1/${path}`, ALICE);
  expect([status, JSON.parse(text)]).toEqual([400, { error }]);
});

it.each(PATHS)('/api/v1/%s requires an account if several are configured', async path => {
  const { calls, lookups } = echo();
  const { ask } = await serve(USERS, { lookups, accounts: ['a', 'b'] });
  expect(await ask(`/api/v1/${path}`, ALICE)).toMatchObject({ status: 400, text: /account is required/ });
  expect(await ask(`/api/v1/${path}?account=c`, ALICE)).toMatchObject({ status: 404 });
  expect(await ask(`/api/v1/${path}?account=b`, ALICE)).toMatchObject({ status: 200 });
  expect(calls).toHaveLength(1);
});

it('look-up routes respond to a failed look-up with its status, message and Retry-After', async () => {
  const fail = (error: unknown) => () => Promise.reject(error);
  const lookups: Lookups = {
    dlq: fail(new RequestError(429, 'too many', 1500)),
    events: fail(new RequestError(503, 'it fails')),
    message: fail(new Error('bug')),
  };
  const { ask } = await serve(USERS, { lookups });
  const [limited, failed, bug] = await Promise.all(PATHS.map(path => ask(`/api/v1/${path}`, ALICE)));
  expect([limited?.status, limited?.headers['retry-after'], limited?.text]).toEqual([429, '2', '{"error":"too many"}']);
  expect([failed?.status, failed?.headers['retry-after'], failed?.text]).toEqual([
    503,
    undefined,
    '{"error":"it fails"}',
  ]);
  expect(bug?.status).toBe(500);
});

it.each(PATHS)('/api/v1/%s ends the look-up when the client closes the connection', async path => {
  const clients: AbortSignal[] = [];
  const wait = (_account: string, _query: unknown, client: AbortSignal) =>
    new Promise<never>((_resolve, reject) => {
      clients.push(client);
      client.addEventListener('abort', () => reject(new RequestError(503, 'gone')));
    });
  const { ask } = await serve(USERS, { lookups: { dlq: wait, events: wait, message: wait } });
  const leaving = new AbortController();
  const left = ask(`/api/v1/${path}`, { ...ALICE, signal: leaving.signal }).catch(error => error.name);
  await vi.waitFor(() => expect(clients.map(({ aborted }) => aborted)).toEqual([false]), 5000);
  leaving.abort();
  expect(await left).toBe('AbortError');
  await vi.waitFor(() => expect(clients.map(({ aborted }) => aborted)).toEqual([true]), 5000);
});
