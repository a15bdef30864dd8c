import { expect, test } from 'vitest';
import { ask, emptyEmulator, emulator, NOON, walk } from './emulated.ts';

const headerMap = (value: unknown) =>
  typeof value === 'object' &&
  value !== null &&
  Object.values(value).length > 0 &&
  Object.values(value).every(each => Array.isArray(each) && each.every(item => typeof item === 'string'));

test('each dead letter has the documented fields with the documented types, and optional fields are sometimes missing', async () => {
  const rows = await walk(await emulator(), 'dlq');
  expect(rows.length).toBeGreaterThan(150);
  for (const row of rows) {
    expect(row).toMatchObject({
      messageId: expect.stringMatching(/^msg_\w+$/),
      topicId: expect.any(String),
      url: expect.stringMatching(/^https?:/),
      method: expect.stringMatching(/^[A-Z]+$/),
      body: expect.any(String),
      createdAt: expect.any(Number),
      state: 'failed',
      dlqId: expect.stringMatching(/^\d{13}-\d+$/),
      callerIP: expect.any(String),
      responseStatus: expect.any(Number),
      maxRetries: expect.any(Number),
      notBefore: expect.any(Number),
    });
    expect(headerMap(row.header)).toBe(true);
    if (row.responseStatus > 0) expect(headerMap(row.responseHeader)).toBe(true);
    if (row.labels) expect(row.label).toBe(row.labels[0]);
    expect(row.createdAt).toBeLessThanOrEqual(Number(row.dlqId.split('-')[0]));
  }
  for (const field of ['queueName', 'topicName', 'scheduleId', 'label', 'api', 'flowControlKey', 'failureCallback']) {
    expect(rows.some(row => field in row)).toBe(true);
    expect(rows.some(row => !(field in row))).toBe(true);
  }
  expect(new Set(rows.map(row => row.messageId)).size).toBe(rows.length);
});

test('each event has the documented fields with the documented types', async () => {
  const emulated = await emulator({ history: 20 * 60_000 });
  const rows = await walk(emulated, 'events');
  const states = ['created', 'active', 'retry', 'error', 'delivered', 'failed', 'cancel_requested', 'cancelled'];
  for (const row of rows) {
    expect(row).toMatchObject({
      time: expect.stringMatching(/^\d{13}$/),
      messageId: expect.stringMatching(/^msg_\w+$/),
      state: expect.toBeOneOf(states),
      url: expect.stringMatching(/^https?:/),
      body: expect.any(String),
    });
    expect(headerMap(row.header)).toBe(true);
    if (['error', 'failed'].includes(row.state)) expect(row.error).toEqual(expect.any(String));
    if (row.state === 'retry') expect(row.nextDeliveryTime).toBeGreaterThan(Number(row.time));
    expect(() => JSON.parse(Buffer.from(row.body, 'base64').toString())).not.toThrow();
  }
  expect(new Set(rows.map(row => row.state))).toEqual(new Set(states));
});

test('rows added by a test are returned with the given values', async () => {
  const emulated = await emptyEmulator();
  const dlqId = emulated.state.addDlqEntry({
    messageId: 'mine',
    url: 'https://mine.example/',
    method: 'DELETE',
    label: 'one',
    responseStatus: 0,
    createdAt: 5,
    enteredAt: NOON - 7,
    body: 'text',
    callerIP: '203.0.113.9',
  });
  emulated.state.addEvent({
    messageId: 'mine',
    state: 'failed',
    time: NOON - 3,
    error: 'no',
    labels: ['a', 'b'],
    body: 'text',
  });
  expect(dlqId).toMatch(new RegExp(`^${NOON - 7}-`));
  const [letter] = (await ask(emulated, '/v2/dlq')).body.messages;
  expect(letter).toMatchObject({
    dlqId,
    messageId: 'mine',
    url: 'https://mine.example/',
    method: 'DELETE',
    label: 'one',
  });
  expect(letter).toMatchObject({ labels: ['one'], responseStatus: 0, createdAt: 5, notBefore: 5, body: 'text' });
  expect(letter.callerIP).toBe('203.0.113.9');
  const [event] = (await ask(emulated, '/v2/events')).body.events;
  expect(event).toMatchObject({ messageId: 'mine', state: 'failed', time: String(NOON - 3), error: 'no', label: 'a' });
  expect(event.body).toBe(btoa('text'));
  expect(emulated.state.countEvents({ from: NOON - 3, to: NOON - 3 }).failed).toBe(1);
  expect(emulated.state.countEvents({ from: NOON - 2 }).failed).toBe(0);
  expect(emulated.state.removeDlqEntry(dlqId)).toBe(true);
  expect(emulated.state.removeDlqEntry(dlqId)).toBe(false);
  expect(emulated.state.removeDlqEntry('rubbish')).toBe(false);
  expect(emulated.state.countDlq()).toBe(0);
  for (let index = 0; index < 3; index++) emulated.state.addDlqEntry();
  expect(new Set(emulated.state.dlqRows().map(row => row.messageId)).size).toBe(3);
});
