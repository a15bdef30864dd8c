import fc from 'fast-check';
import { expect, test } from 'vitest';
import { runs } from '../support/runs.ts';
import { ask, emptyEmulator, enteredAt, NOON, walk } from './emulated.ts';

const idsOf = (rows: readonly { dlqId: string }[]) => rows.map(row => row.dlqId);

test('a DLQ page contains at most 100 messages, earliest first', async () => {
  const emulated = await emptyEmulator({ dlqEntries: 250 });
  const all = idsOf(emulated.state.dlqRows());
  expect(all.length).toBe(250);
  const page = async (query: string) => idsOf((await ask(emulated, `/v2/dlq${query}`)).body.messages);
  expect(await page('')).toEqual(all.slice(0, 100));
  expect(await page('?count=7')).toEqual(all.slice(0, 7));
  expect(await page('?count=5000')).toEqual(all.slice(0, 100));
  expect(await page('?order=earliestFirst&count=3')).toEqual(all.slice(0, 3));
  expect(await page('?order=latestFirst&count=3')).toEqual(all.toReversed().slice(0, 3));
  expect(await page('?count=')).toEqual(all.slice(0, 100));
});

test('an event page contains at most 1000 events, latest first', async () => {
  const emulated = await emptyEmulator();
  for (let index = 0; index < 1500; index++)
    emulated.state.addEvent({ time: NOON - 1500 + index, messageId: `m${index}` });
  const all = Array.from({ length: 1500 }, (_, index) => `m${index}`);
  const page = async (path: string, list = 'events') => {
    const { body } = await ask(emulated, path);
    return body[list].map((row: { messageId: string }) => row.messageId);
  };
  expect(await page('/v2/events')).toEqual(all.toReversed().slice(0, 1000));
  expect(await page('/v2/logs', 'logs')).toEqual(all.toReversed().slice(0, 1000));
  expect(await page('/v2/events?count=1001')).toEqual(all.toReversed().slice(0, 1000));
  expect(await page('/v2/events?count=2&order=earliestFirst')).toEqual(['m0', 'm1']);
  expect(await page('/v2/events?count=2&order=latestFirst')).toEqual(['m1499', 'm1498']);
});

test('the last page has no cursor, even if it is full', async () => {
  const emulated = await emptyEmulator({ dlqEntries: 6 });
  const first = (await ask(emulated, '/v2/dlq?count=3')).body;
  expect(typeof first.cursor).toBe('string');
  const second = (await ask(emulated, `/v2/dlq?count=3&cursor=${first.cursor}`)).body;
  expect(second.messages.length).toBe(3);
  expect('cursor' in second).toBe(false);
  const empty = (await ask(emulated, '/v2/dlq?label=none')).body;
  expect(empty).toEqual({ messages: [] });
  expect((await ask(emulated, '/v2/events')).body).toEqual({ events: [] });
});

test.each(['dlq', 'events'])('fromDate and toDate of /v2/%s are inclusive', async list => {
  const emulated = await emptyEmulator();
  const times = [1000, 2000, 2000, 3000].map(before => NOON - before);
  for (const time of times) {
    // For dead letters, the dates refer to the time at which they entered the queue, not to `createdAt`.
    if (list === 'dlq') emulated.state.addDlqEntry({ enteredAt: time, createdAt: NOON - 50_000 });
    else emulated.state.addEvent({ time, createdAt: NOON - 50_000 });
  }
  const found = async (query: string) => {
    const { body } = await ask(emulated, `/v2/${list}?order=earliestFirst&${query}`);
    return list === 'dlq'
      ? body.messages.map((row: { dlqId: string }) => NOON - enteredAt(row))
      : body.events.map((row: { time: string }) => NOON - Number(row.time));
  };
  expect(await found(`fromDate=${NOON - 2000}`)).toEqual([2000, 2000, 1000]);
  expect(await found(`fromDate=${NOON - 1999}`)).toEqual([1000]);
  expect(await found(`toDate=${NOON - 2000}`)).toEqual([3000, 2000, 2000]);
  expect(await found(`toDate=${NOON - 2001}`)).toEqual([3000]);
  expect(await found(`fromDate=${NOON - 2000}&toDate=${NOON - 2000}`)).toEqual([2000, 2000]);
  expect(await found(`fromDate=${NOON - 1000}&toDate=${NOON - 3000}`)).toEqual([]);
});

test.each([
  'count=0',
  'count=-1',
  'count=ten',
  'count=1.5',
  'count=1&count=2',
  'order=newest',
  'fromDate=yesterday',
  'toDate=-5',
  'cursor=rubbish',
  'cursor=MTItYQ',
])('both lists reject %s with 400 and a reason', async query => {
  const emulated = await emptyEmulator();
  for (const list of ['dlq', 'events']) {
    const { status, body } = await ask(emulated, `/v2/${list}?${query}`);
    expect(status).toBe(400);
    expect(body).toEqual({ error: expect.stringMatching(new RegExp(query.split('=')[0] as string)) });
  }
});

test('an invalid filter value is rejected with 400', async () => {
  const emulated = await emptyEmulator();
  expect((await ask(emulated, '/v2/dlq?responseStatus=teapot')).status).toBe(400);
  expect((await ask(emulated, '/v2/events?state=LOST')).status).toBe(400);
  expect((await ask(emulated, '/v2/events?state=canceled')).status).toBe(200);
});

const order = fc.constantFrom('earliestFirst', 'latestFirst');
const changes = fc.array(
  fc.record({
    add: fc.array(fc.integer({ min: -1500, max: 500 }), { maxLength: 4 }),
    remove: fc.array(fc.nat(), { maxLength: 4 }),
  }),
  { maxLength: 12 },
);

test('a walk returns, exactly once and in order, each dead letter that exists throughout the walk, even while entries are added and removed', async () => {
  const emulated = await emptyEmulator();
  const { state } = emulated;
  const property = fc.asyncProperty(changes, order, fc.integer({ min: 1, max: 9 }), async (steps, direction, count) => {
    for (const { dlqId } of state.dlqRows()) state.removeDlqEntry(dlqId);
    for (let index = 0; index < 30; index++) state.addDlqEntry({ enteredAt: NOON - 1000 + 10 * (index >> 1) });
    const throughout = new Set(idsOf(state.dlqRows()));
    const parameters = [
      ['order', direction],
      ['count', String(count)],
    ] as const;
    const rows = await walk(emulated, 'dlq', parameters, page => {
      for (const offset of steps[page]?.add ?? []) state.addDlqEntry({ enteredAt: NOON - 1000 + offset });
      for (const index of steps[page]?.remove ?? []) {
        const present = idsOf(state.dlqRows());
        const removed = present[index % present.length] as string;
        expect(state.removeDlqEntry(removed)).toBe(true);
        throughout.delete(removed);
      }
    });
    const ids = idsOf(rows);
    expect(new Set(ids).size).toBe(ids.length);
    expect(ids.filter(id => throughout.has(id)).length).toBe(throughout.size);
    const times = rows.map(enteredAt);
    expect(times).toEqual(times.toSorted((a, b) => (direction === 'earliestFirst' ? a - b : b - a)));
  });
  await fc.assert(property, { numRuns: runs(60) });
});

test('a walk returns, exactly once, each event that exists throughout the walk, even while events are added', async () => {
  const emulated = await emptyEmulator();
  const { state } = emulated;
  let run = 0;
  const property = fc.asyncProperty(changes, order, fc.integer({ min: 1, max: 9 }), async (steps, direction, count) => {
    const url = `https://run.example/${++run}`;
    const throughout = Array.from({ length: 30 }, (_, index) => `there-${index}`);
    for (const [index, messageId] of throughout.entries())
      state.addEvent({ url, messageId, time: NOON - 1000 + 10 * (index >> 1) });
    const parameters = [
      ['order', direction],
      ['count', String(count)],
      ['url', url],
    ] as const;
    const rows = await walk(emulated, 'events', parameters, page => {
      for (const offset of steps[page]?.add ?? []) state.addEvent({ url, time: NOON - 1000 + offset });
    });
    const ids = rows.map(row => row.messageId);
    expect(new Set(ids).size).toBe(ids.length);
    expect(ids.filter(id => id.startsWith('there-')).toSorted()).toEqual(throughout.toSorted());
  });
  await fc.assert(property, { numRuns: runs(40) });
});

test.each(['earliestFirst', 'latestFirst'])(
  'a cursor remains valid after most rows are removed (%s)',
  async direction => {
    const emulated = await emptyEmulator({ dlqEntries: 6000 });
    const { state } = emulated;
    const kept = idsOf(state.dlqRows()).filter((_, index) => index % 20 === 0);
    const rows = await walk(emulated, 'dlq', [['order', direction]], page => {
      if (page === 9) for (const id of idsOf(state.dlqRows())) if (!kept.includes(id)) state.removeDlqEntry(id);
    });
    expect(state.countDlq()).toBe(300);
    const ids = idsOf(rows);
    expect(new Set(ids).size).toBe(ids.length);
    const found = ids.filter(id => kept.includes(id));
    expect(direction === 'earliestFirst' ? found : found.reverse()).toEqual(kept);
  },
);
