import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it, vi } from 'vitest';
import type { Dialect } from '../../src/emulator/dialect.ts';
import { systemClock } from '../../src/kit/clock.ts';
import { limitLookups, MAX_PER_MINUTE } from '../../src/lookup/limit.ts';
import {
  DlqLookup,
  DlqLookupQuery,
  EventLookup,
  EventLookupQuery,
  MessageLookup,
} from '../../src/status/api/lookup.ts';
import { clientClosed, createLookups } from '../../src/status/lookups.ts';
import { createBudget } from '../../src/upstream/budget.ts';
import { createTestClient, TOKEN } from '../support/client.ts';
import { emulateEmpty } from '../support/emulate.ts';
import { json, serve } from '../support/http-service.ts';

const CANARY = 'canary-3c1d';
const LIMITS = { requestsPerSecond: 10_000, burst: 10_000, concurrency: 100, requestsPerDay: 1_000_000 };
const dlq = (query: object = {}) => DlqLookupQuery.parse(query);
const eventQuery = (query: object = {}) => EventLookupQuery.parse(query);

/** Creates look-ups of the account `a` in the service at `url`. */
function lookupsOf(url: string, deadline?: number) {
  const clock = systemClock;
  const budget = limitLookups(
    createBudget(LIMITS, clock, () => undefined),
    LIMITS,
    clock,
  );
  const { client, counts } = createTestClient(url, { budget });
  const open = { reader: client.at('browser'), patterns: [] };
  const { dlq, events, message } = createLookups({
    accountOf: name => (name === 'a' ? open : undefined),
    clock,
    ...(deadline && { deadline }),
  });
  const { signal } = new AbortController();
  const lookups = {
    dlq: (account: string, query: Parameters<typeof dlq>[1], client = signal) => dlq(account, query, client),
    events: (account: string, query: Parameters<typeof events>[1], client = signal) => events(account, query, client),
    message: (account: string, id: string, client = signal) => message(account, id, client),
  };
  return { lookups, counts };
}

const DIALECTS: readonly Partial<Dialect>[] = [
  {},
  { eventPaths: 'logs', lastCursor: 'empty', eventState: 'upper' },
  { order: 'ignored', dlqWorkflows: 'separate', highCount: 'refused' },
];

describe.each(DIALECTS)('with the dialect %j', dialect => {
  it('look-ups of dead letters, events and the timeline of a message return results that match their schemas', async () => {
    const { url, state } = await emulateEmpty({ token: TOKEN, dialect });
    const now = Date.now();
    for (let age = 1; age <= 120; age += 1) {
      const responseStatus = age % 2 ? 500 : 404;
      state.addDlqEntry({ messageId: `m${age}`, enteredAt: now - age * 1000, responseStatus });
    }
    state.addEvents([
      { messageId: 'm1', state: 'created', time: now - 9000 },
      { messageId: 'm1', state: 'active', time: now - 8000 },
      { messageId: 'm1', state: 'failed', time: now - 1000, responseStatus: 500 },
    ]);
    const { lookups } = lookupsOf(url);
    const dead = DlqLookup.strict().parse(await lookups.dlq('a', dlq({ status: '404', since: '1h', limit: 2 })));
    expect(dead).toMatchObject({ account: 'a', hasMore: true, proven: true, rejected: 0, mayMissNewer: false });
    expect(dead.rows.map(({ messageId }) => messageId)).toEqual(['m2', 'm4']);
    const [{ kind } = { kind: '' }] = dead.rows;
    const ofKind = await lookups.dlq('a', dlq({ kind, limit: 200 }));
    expect([ofKind.rows.length, ofKind.hasMore]).toEqual([60, false]);
    const events = EventLookup.strict().parse(await lookups.events('a', eventQuery({ state: 'FAILED' })));
    expect(events.rows).toMatchObject([{ messageId: 'm1', state: 'failed', responseStatus: 500 }]);
    const message = MessageLookup.strict().parse(await lookups.message('a', 'm1'));
    expect(message).toMatchObject({ outcome: 'failed', durationSeconds: 8, missing: [] });
    expect(message.deadLetter).toMatchObject({ messageId: 'm1', responseStatus: 500 });
    await expect(lookups.message('a', 'unknown')).rejects.toMatchObject({ status: 404 });
  });
});

it('look-ups of an account run sequentially and are rejected when the queue is full', async () => {
  let [atOnce, most] = [0, 0];
  const service = await serve(async (_request, response) => {
    atOnce += 1;
    most = Math.max(most, atOnce);
    await sleep(20);
    atOnce -= 1;
    json(response, { messages: [] });
  });
  const { lookups } = lookupsOf(service.url);
  const all = await Promise.allSettled([1, 2, 3, 4, 5].map(limit => lookups.dlq('a', dlq({ limit }))));
  expect(all.map(({ status }) => status)).toEqual([...Array(4).fill('fulfilled'), 'rejected']);
  expect(all[4]).toMatchObject({ reason: { status: 429, retryAfter: 1 } });
  expect(most).toBe(1);
});

it('a hundred look-ups in a minute send no more requests than the limit per minute, even if every request is retried', async () => {
  const service = await serve((_request, response) => json(response, { error: CANARY }, 500));
  const { lookups } = lookupsOf(service.url);
  const statuses = new Set<number>();
  for (let index = 0; index < 100; index += 1) {
    const error = await lookups.message('a', `m${index}`).catch(error => error);
    statuses.add(error.status);
    expect(error.message).not.toContain(CANARY);
    if (error.status === 429) expect(error.retryAfter).toBeGreaterThan(0);
  }
  expect(service.requests).toHaveLength(MAX_PER_MINUTE);
  expect([...statuses]).toEqual([503, 429]);
});

it('a look-up reads at most four pages of an endless list, and limits the length of texts', async () => {
  let pages = 0;
  const service = await serve((_request, response) => {
    pages += 1;
    const row = (index: number) => ({
      ...{ messageId: `m${pages}-${index}`, dlqId: `${Date.now() - pages * 1000}-${index}`, url: 'x'.repeat(10_000) },
      ...{ body: CANARY, header: { cookie: [CANARY] }, responseBody: CANARY, responseHeader: { x: [CANARY] } },
      labels: Array(500).fill('l'),
    });
    json(response, { messages: Array.from({ length: 10 }, (_, index) => row(index)), cursor: `c${pages}` });
  });
  const { lookups } = lookupsOf(service.url);
  const found = await lookups.dlq('a', dlq({ kind: 'none', limit: 200 }));
  expect([pages, found.rows, found.hasMore]).toEqual([4, [], true]);
  const all = await lookups.dlq('a', dlq({ limit: 200 }));
  expect([pages, all.rows.length]).toEqual([8, 40]);
  expect(JSON.stringify(all)).not.toContain(CANARY);
  for (const { url } of all.rows) expect(url?.length).toBeLessThanOrEqual(512);
});

it.each([
  [200, { messages: [{ messageId: 'other', dlqId: '1-0' }] }, 502, /ignores the parameter messageId: 1 of 1/],
  [200, { messages: CANARY }, 503, /invalid response/],
  [400, { error: CANARY }, 502, /does not support this request/],
  [401, { error: CANARY }, 503, /rejects the token/],
  [403, { error: CANARY }, 503, /no permission/],
  [429, { error: CANARY }, 503, /limits the rate/],
])('a look-up reports status %s with %j as %s', async (status, body, expected, message) => {
  const service = await serve((_request, response) => {
    response.setHeader('Retry-After', '90');
    json(response, body, status);
  });
  const { lookups } = lookupsOf(service.url);
  const error = await lookups.dlq('a', dlq({ message: 'm1' })).catch(error => error);
  expect(error).toMatchObject({ name: 'RequestError', status: expected });
  expect(error.message).toMatch(message);
  expect(error.message).not.toContain(CANARY);
  if (status === 429) expect(error.retryAfter).toBe(90);
});

it('look-ups interpret times without an offset as UTC', async () => {
  vi.stubEnv('TZ', 'America/New_York');
  const service = await serve((_request, response) => json(response, { events: [] }));
  const { lookups } = lookupsOf(service.url);
  await lookups.events('a', eventQuery({ since: '2026-11-24T10:00', until: '2026-11-24' }));
  vi.unstubAllEnvs();
  const { searchParams } = new URL(service.requests[0]?.replace('GET ', '') ?? '', service.url);
  expect([searchParams.get('fromDate'), searchParams.get('toDate')]).toEqual([
    String(Date.UTC(2026, 10, 24, 10)),
    String(Date.UTC(2026, 10, 24)),
  ]);
});

it('look-ups cap Retry-After at 15 minutes, the longest time for which the agent pauses requests', async () => {
  const service = await serve((_request, response) => {
    response.setHeader('Retry-After', '9'.repeat(30));
    json(response, {}, 503);
  });
  const { lookups } = lookupsOf(service.url);
  await expect(lookups.dlq('a', dlq())).rejects.toMatchObject({ status: 503, retryAfter: 900 });
});

it.each(['1960-01-01', '99999999999d'])('a look-up sends the time %s, which is before 1970, as 0', async since => {
  const service = await serve((_request, response) => json(response, { messages: [] }));
  await lookupsOf(service.url).lookups.dlq('a', dlq({ since }));
  expect(service.requests).toEqual([expect.stringMatching('[?&]fromDate=0&')]);
});

it('a look-up ends at the deadline if the service does not respond, and the next look-up then runs', async () => {
  let calls = 0;
  const service = await serve((_request, response) => {
    calls += 1;
    if (calls > 1) json(response, { messages: [] });
  });
  const { lookups } = lookupsOf(service.url, 200);
  const [slow, next] = await Promise.allSettled([lookups.dlq('a', dlq()), lookups.dlq('a', dlq({ limit: 1 }))]);
  expect(slow).toMatchObject({ reason: { status: 503, message: expect.stringContaining('no result in time') } });
  expect(next.status).toBe('fulfilled');
});

it('a running look-up ends when its client has disconnected, and a queued one is skipped', async () => {
  let calls = 0;
  let closed = 0;
  const service = await serve((_request, response) => {
    calls += 1;
    if (calls > 1) return json(response, { messages: [] });
    response.on('close', () => {
      closed += 1;
    });
  });
  const { lookups } = lookupsOf(service.url);
  const [first, others] = [new AbortController(), new AbortController()];
  const running = lookups.dlq('a', dlq(), first.signal).catch(error => error);
  const waiting = [1, 2, 3].map(limit => lookups.dlq('a', dlq({ limit }), others.signal).catch(error => error));
  await vi.waitFor(() => expect(calls).toBe(1));
  await expect(lookups.dlq('a', dlq({ limit: 4 }))).rejects.toMatchObject({ status: 429 });
  others.abort(clientClosed());
  expect(await Promise.all(waiting)).toMatchObject([{ status: 503 }, { status: 503 }, { status: 503 }]);
  const next = lookups.dlq('a', dlq({ limit: 4 }));
  expect([calls, closed]).toEqual([1, 0]);
  first.abort(clientClosed());
  expect(await running).toMatchObject({ status: 503 });
  expect((await next).rows).toEqual([]);
  await vi.waitFor(() => expect([calls, closed]).toEqual([2, 1]));
  const gone = new AbortController();
  gone.abort(clientClosed());
  await expect(lookups.dlq('a', dlq({ limit: 5 }), gone.signal)).rejects.toMatchObject({ status: 503 });
  expect((await lookups.dlq('a', dlq({ limit: 5 }))).rows).toEqual([]);
  expect(calls).toBe(3);
});

it('a look-up is rejected if its account is not open', async () => {
  const { lookups } = lookupsOf('http://127.0.0.1:1');
  await expect(lookups.dlq('b', dlq())).rejects.toMatchObject({ status: 503 });
});
