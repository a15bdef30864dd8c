import { beforeAll, describe, expect, test } from 'vitest';
import type { Emulator } from '../../src/emulator/server.ts';
import { ask, emulator } from '../emulator/emulated.ts';

/**
 * Types of the fields in the tables below. The tables were transcribed by hand from the interface document,
 * independently of src/.
 */
type Kind = 'string' | 'number' | 'integer' | 'boolean' | 'header' | 'uuid' | readonly string[];

const DLQ_MESSAGE: Record<string, Kind> = {
  messageId: 'string',
  topicId: 'string',
  url: 'string',
  method: 'string',
  header: 'header',
  body: 'string',
  createdAt: 'number',
  state: ['failed'],
};

const EVENT: Record<string, Kind> = {
  time: 'string',
  messageId: 'string',
  state: ['created', 'active', 'retry', 'error', 'delivered', 'failed', 'cancel_requested', 'cancelled'],
  url: 'string',
  header: 'header',
  body: 'string',
};

const ACCOUNT: Record<string, Kind> = {
  customer_id: 'string',
  id: 'uuid',
  password: 'string',
  token: 'string',
  active: 'boolean',
  state: ['active', 'passive'],
  last_plan_upgrade_time: 'integer',
  max_message_size: 'integer',
  max_requests_per_day: 'integer',
  max_requests_per_day_hard: 'integer',
  max_endpoints_per_topic: 'integer',
  max_requests_per_second: 'integer',
  max_dlq_size: 'integer',
  max_retries: 'integer',
  max_topics: 'integer',
  max_schedules: 'integer',
  max_events_size: 'integer',
  max_dlq_retention_time_milis: 'integer',
  max_delay: 'integer',
  max_parallelism: 'integer',
  max_global_parallelism: 'integer',
  max_queues: 'integer',
  prod_pack_enabled: 'boolean',
  timeout: 'integer',
  type: ['free', 'paid'],
  reserved_type: ['', 'paid', 'svc_enterprise_1m', 'svc_enterprise_10m'],
  reserved_price: 'number',
  created_by: 'string',
  creation_time: 'integer',
};

function isOf(value: unknown, kind: Kind): boolean {
  if (Array.isArray(kind)) return kind.includes(value as string);
  if (kind === 'integer') return Number.isInteger(value);
  if (kind === 'uuid') return typeof value === 'string' && /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/.test(value);
  if (kind !== 'header') return typeof value === kind && value !== undefined && !Number.isNaN(value);
  const lists = Object.values(value as object);
  return lists.every(list => Array.isArray(list) && list.every(each => typeof each === 'string'));
}

/** Returns the fields that are missing or have the wrong type. */
const wrongFields = (row: Readonly<Record<string, unknown>>, shape: Record<string, Kind>) =>
  Object.entries(shape)
    .filter(([field, kind]) => !(field in row) || !isOf(row[field], kind))
    .map(([field]) => `${field}: ${JSON.stringify(row[field])}`);

const errorBody = { error: expect.stringMatching(/./) };
let emulated: Emulator;
beforeAll(async () => {
  // All tests of this file share the emulator, so it is not closed per test.
  const { startEmulator } = await import('../../src/emulator/server.ts');
  emulated = await startEmulator({ speed: 0 });
  return () => emulated.close();
});

test('the shape check reports wrong fields', () => {
  expect(wrongFields({ a: 1, b: 'x', c: { h: 'v' } }, { a: 'string', b: ['y'], c: 'header', d: 'integer' })).toEqual([
    'a: 1',
    'b: "x"',
    'c: {"h":"v"}',
    'd: undefined',
  ]);
});

describe('list DLQ messages', () => {
  test('every listed DLQ message, including failed workflow runs, has the documented fields', async () => {
    const { status, body } = await ask(emulated, '/v2/dlq?order=latestFirst');
    expect(status).toBe(200);
    expect(Object.keys(body).toSorted()).toEqual(['cursor', 'messages']);
    expect(typeof body.cursor).toBe('string');
    expect(body.messages.length).toBe(100);
    for (const row of body.messages) expect(wrongFields(row, DLQ_MESSAGE)).toEqual([]);
    expect(body.messages.some((row: object) => 'workflowRunId' in row)).toBe(true);
  });
});

describe('events', () => {
  test('every listed event has the documented fields', async () => {
    const { status, body } = await ask(emulated, '/v2/events');
    expect(status).toBe(200);
    expect(Object.keys(body).toSorted()).toEqual(['cursor', 'events']);
    expect(body.events.length).toBe(1000);
    for (const row of body.events) {
      expect(wrongFields(row, EVENT)).toEqual([]);
      expect(row.time).toMatch(/^\d{13}$/);
    }
  });
});

describe('flow control', () => {
  test('besides the key, rows of the flow-control list have only waitListSize, and the response for a single key has only waitlistSize', async () => {
    const { status, body } = await ask(emulated, '/v2/flowControl');
    expect(status).toBe(200);
    expect(Object.keys(body)).toEqual(['flowControls']);
    expect(body.flowControls.length).toBeGreaterThan(3);
    for (const row of body.flowControls) {
      expect(row).toEqual({ flowControlKey: expect.any(String), waitListSize: expect.any(Number) });
      const size = row.waitListSize;
      const key = encodeURIComponent(row.flowControlKey);
      for (const path of [`/v2/flowControl/${key}`, `/v2/keys/rotate/${key}`]) {
        const single = await ask(emulated, path);
        expect(single.status).toBe(200);
        expect(single.body).toEqual({ flowControlKey: row.flowControlKey, waitlistSize: size });
        expect(Number.isInteger(size)).toBe(true);
      }
    }
    expect(await ask(emulated, '/v2/keys/rotate/none')).toMatchObject({ status: 404, body: errorBody });
  });
});

describe('cancel an in-progress failure callback', () => {
  test('a cancel needs a token but no request body, and the response body explains every error', async () => {
    const path = (dlqId: string) => `/v2/workflows/dlq/callback/${dlqId}`;
    const dlqId = emulated.state.addFailedRun();
    const authorization = `Bearer ${emulated.token}`;
    const cancel = (id: string, headers: Record<string, string> = { authorization }) =>
      ask(emulated, path(id), { method: 'DELETE', redirect: 'manual', headers });
    expect(await cancel(dlqId, {})).toMatchObject({ status: 401, body: errorBody });
    expect(await cancel(dlqId)).toMatchObject({ status: 302, text: '' });
    expect(await cancel(dlqId)).toMatchObject({ status: 400, body: errorBody });
    expect(await cancel('none')).toMatchObject({ status: 404, body: errorBody });
  });
});

describe('reset the account token', () => {
  const login = ({ credentials }: Emulator) =>
    Buffer.from(Object.values(credentials.login).join(':')).toString('base64');
  const reset = (of: Emulator, path = '/svc/user/rotatetoken') =>
    ask(of, path, { method: 'POST', headers: { authorization: `Basic ${login(of)}` } });

  test('a token reset returns the account record with exactly the documented fields', async () => {
    const own = await emulator();
    const { status, body } = await reset(own);
    expect(status).toBe(200);
    expect(wrongFields(body, ACCOUNT)).toEqual([]);
    expect(Object.keys(body).toSorted()).toEqual(Object.keys(ACCOUNT).toSorted());
    expect(body.token).toBe(own.token);
    expect(body.password).toBe(own.credentials.password);
  });

  test('the newer token reset endpoint also returns a read-only token, but no password', async () => {
    const own = await emulator();
    const { status, body } = await reset(own, `/v2/qstash/rotate-token/${own.credentials.accountId}`);
    expect(status).toBe(200);
    const { password: _, ...later } = ACCOUNT;
    expect(wrongFields(body, { ...later, read_only_token: 'string', region: 'string', budget: 'number' })).toEqual([]);
    expect('password' in body).toBe(false);
    expect(body).toMatchObject({ token: own.token, read_only_token: own.credentials.readOnlyToken });
  });
});
