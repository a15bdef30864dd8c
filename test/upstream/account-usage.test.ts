import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { Secret } from '../../src/kit/secret.ts';
import { findRecord, usageFrom } from '../../src/upstream/client.ts';
import { createTestClient, TOKEN } from '../support/client.ts';
import { json, serve } from '../support/http-service.ts';

const NOW = Date.UTC(2026, 10, 28, 12);
const signal = () => new AbortController().signal;
const [USER] = JSON.parse(readFileSync(new URL('samples/account-user.json', import.meta.url), 'utf8')).body;
const LOGIN = `Basic ${Buffer.from('ops@example.com:api-key').toString('base64')}`;

const STATS = {
  daily_requests: [
    { x: '2026-11-27 11:33:05.585757103 +0000 UTC', y: 900, workflow_message: 1, workflow_run: 1 },
    { x: '2026-11-28 11:33:05.585 +0000 UTC', y: 412 },
  ],
  dlq_message_count: 7,
};

/** Starts a management API with these responses by path. */
async function start(
  answers: Readonly<Record<string, readonly [status: number, body: unknown]>>,
  path = '/v2/qstash/users',
) {
  const service = await serve((request, response) => {
    const [status, body] = answers[request.url ?? ''] ?? [404, { error: 'not found' }];
    json(response, body, status);
  });
  const password = async () => new Secret('api-key');
  const management = { baseUrl: service.url, username: 'ops@example.com', password, path, region: null };
  // The service's own address does not exist: the account is read only from the management API.
  const test = createTestClient('http://127.0.0.1:9', { management });
  return { ...test, service };
}

const STATS_PATH = `/v2/qstash/stats/${USER.id}?period=1h`;

describe('account usage', () => {
  it('the record and the statistics are read with the login of the management API, and no token is kept', async () => {
    const today = { x: `${new Date().toISOString().slice(0, 10)} 00:00:01.5 +0000 UTC`, y: 412 };
    const { reader, service, counts } = await start({
      '/v2/qstash/users': [200, [{ ...USER, token: 'canary', read_only_token: 'canary' }]],
      [STATS_PATH]: [200, { ...STATS, daily_requests: [today] }],
    });
    const found = await reader.account(signal());
    expect(found).toMatchObject({
      plan: 'free',
      state: 'active',
      limits: { requests_per_day: 1000, schedules: 10 },
      requestsToday: 412,
      dlqMessages: 7,
    });
    expect(JSON.stringify(found)).not.toMatch(/canary|example\.com/);
    expect(service.headers.map(({ authorization }) => authorization)).toEqual([LOGIN, LOGIN]);
    expect(counts.requests).toEqual({ 'account ok': 2 });
  });

  it('an account record outside a list is read, and the usage is unknown if the record has no statistics', async () => {
    const single = await start({ '/v2/qstash/user/1': [200, USER] }, '/v2/qstash/user/1');
    const found = await single.reader.account(signal());
    expect(found).toMatchObject({ plan: 'free' });
    expect(found).not.toHaveProperty('requestsToday');
    const other = await start({ '/account': [200, USER] }, '/account');
    expect(await other.reader.account(signal())).toMatchObject({ plan: 'free' });
    expect(other.service.requests).toEqual(['GET /account']);
  });

  it.each([
    ['the record is refused', { '/v2/qstash/users': [401, { error: 'no' }] }, 'unauthorized'],
    ['there is no record', { '/v2/qstash/users': [200, []] }, 'invalid_response'],
    ['the statistics fail', { '/v2/qstash/users': [200, [USER]], [STATS_PATH]: [400, {}] }, 'refused'],
    ['the statistics are empty', { '/v2/qstash/users': [200, [USER]], [STATS_PATH]: [200, {}] }, 'invalid_response'],
  ] as const)('reading the account fails if %s', async (_, answers, reason) => {
    const { reader, rejections } = await start(answers);
    await expect(reader.account(signal())).rejects.toMatchObject({ reason });
    expect(rejections).toEqual([]);
  });

  it('reading the account is refused without a management API', async () => {
    const { reader } = createTestClient('http://127.0.0.1:9');
    await expect(reader.account(signal())).rejects.toMatchObject({ reason: 'refused' });
  });

  it('the record is found by its token or read-only token, else by region, and is not guessed', () => {
    const eu = { id: 'eu', token: 'a', region: 'eu-central-1', type: 'paid' };
    const us = { id: 'us', token: 'b', read_only_token: TOKEN, region: 'us-east-1', type: 'free' };
    expect(findRecord([eu, us], TOKEN, null)?.id).toBe('us');
    expect(findRecord([eu, us], 'a', 'us-east-1')?.id).toBe('eu');
    expect(findRecord([eu, us], 'x', 'us-east-1')?.id).toBe('us');
    expect(findRecord([eu, us], 'x', null)).toBeUndefined();
    expect(findRecord([eu], 'x', 'us-east-1')).toBeUndefined();
    expect(findRecord(eu, 'x', null)?.record).toMatchObject({ plan: 'paid' });
    for (const body of [null, 'x', {}, [null], [{ token: TOKEN }]])
      expect(findRecord(body, TOKEN, null)).toBeUndefined();
  });

  it('requests of today belong to the UTC day, and stay unknown if the day is missing, repeated or unreadable', () => {
    expect(usageFrom(STATS, NOW)).toEqual({ requestsToday: 412, dlqMessages: 7 });
    expect(usageFrom(STATS, NOW + 86_400_000)).toEqual({ dlqMessages: 7 });
    const [, today] = STATS.daily_requests;
    for (const days of [[today, today], [{ ...today, y: '412' }], [{ ...today, x: 1764331985 }], null])
      expect(usageFrom({ daily_requests: days, dlq_message_count: -1 }, NOW)).toEqual({});
    for (const body of [null, [], 'x', { error: 'x' }]) expect(usageFrom(body, NOW)).toBeUndefined();
  });
});
