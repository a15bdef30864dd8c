import { describe, expect, test } from 'vitest';
import { dialectOptions } from '../../src/emulator/dialect.ts';
import type { Emulator } from '../../src/emulator/server.ts';
import { ask, emptyEmulator, emulator, HOUR, NOON, walk } from './emulated.ts';

const post = (emulated: Emulator, path: string, body: string, type = 'application/json') =>
  ask(emulated, path, { method: 'POST', headers: { 'content-type': type }, body });
const postJson = (emulated: Emulator, path: string, body: unknown) => post(emulated, path, JSON.stringify(body));
const sum = (counts: Readonly<Record<string, number>>) => Object.values(counts).reduce((all, count) => all + count, 0);

describe('counts of events in GET /_emulator/state', () => {
  test('`logged` counts each retained event once, by state, whether or not it is listed', async () => {
    const dialect = { logLateShare: 1, logLateMs: 1000, logDuplicates: 1, logLagMs: 5000 } as const;
    const emulated = await emulator({ dialect });
    const { events } = (await ask(emulated, '/_emulator/state')).body;
    const expected = Map.groupBy(emulated.state.eventRows(), row => row.state);
    for (const [state, count] of Object.entries(events.logged.byState))
      expect(count).toBe(expected.get(state as never)?.length ?? 0);
    expect(sum(events.logged.byState)).toBeGreaterThan(10_000);
    expect(events.total).toEqual(events.logged);
    expect(sum(events.lost.byState)).toBe(0);
  });

  test('`logged` counts the events of at least the last six hours; `total` includes older events', async () => {
    const emulated = await emulator();
    const first = (await ask(emulated, '/_emulator/state')).body.events;
    emulated.clock.advance(5 * HOUR - 1);
    const second = (await ask(emulated, '/_emulator/state')).body.events;
    expect(second.logged).toEqual(second.total);
    expect(emulated.state.countEvents({ to: NOON })).toEqual(first.logged.byState);
    const addedEachHour = [];
    for (let hour = 5; hour < 9; hour++) {
      const from = emulated.clock.now() + 1;
      emulated.clock.advance(HOUR);
      addedEachHour.push(sum(emulated.state.countEvents({ from })));
    }
    const third = (await ask(emulated, '/_emulator/state')).body.events;
    expect(sum(third.total.byState)).toBe(sum(second.total.byState) + addedEachHour.reduce((all, each) => all + each));
    expect(sum(third.logged.byState)).toBeLessThan(sum(third.total.byState));
  });

  test('`logged` counts at most maxEvents events; `total` includes dropped ones', async () => {
    const emulated = await emptyEmulator({ maxEvents: 10 });
    for (let index = 0; index < 25; index++) emulated.state.addEvent({ time: NOON - 100 + index });
    const { events } = (await ask(emulated, '/_emulator/state')).body;
    expect([sum(events.logged.byState), sum(events.total.byState)]).toEqual([10, 25]);
    expect(emulated.state.eventRows().map(row => Number(row.time) - NOON)).toEqual(
      Array.from({ length: 10 }, (_, index) => index - 85),
    );
  });
});

describe('POST /_emulator/log', () => {
  const OURS = ['url', 'https://ours.example/'] as const;

  test('POST /_emulator/log stops and resumes the log: events in between are never listed, and earlier ones remain listed', async () => {
    const emulated = await emptyEmulator();
    const { state, clock } = emulated;
    const add = (messageId: string) => state.addEvent({ messageId, url: OURS[1], state: 'delivered' });
    const listed = async () => (await walk(emulated, 'events', [OURS])).map(row => row.messageId).join(' ');
    expect((await ask(emulated, '/_emulator/log')).body).toEqual({ on: true });
    add('before');
    expect((await postJson(emulated, '/_emulator/log', { on: false })).body).toEqual({ on: false });
    expect((await postJson(emulated, '/_emulator/log', { on: false })).body).toEqual({ on: false });
    expect(await listed()).toBe('before');
    clock.advance(1000);
    add('within');
    expect(await listed()).toBe('before');
    expect((await ask(emulated, '/_emulator/state')).body.log).toEqual({ on: false });
    expect((await postJson(emulated, '/_emulator/log', { on: true })).body).toEqual({ on: true });
    clock.advance(1);
    add('after');
    expect(await listed()).toBe('after before');
    clock.advance(HOUR);
    expect(await listed()).toBe('after before');
    const { events } = (await ask(emulated, '/_emulator/state')).body;
    const all = await walk(emulated, 'events');
    expect(sum(events.logged.byState) - sum(events.lost.byState)).toBe(all.length);
    expect(events.lost.byState.delivered).toBeGreaterThan(0);
    expect(state.eventRows().some(row => row.messageId === 'within')).toBe(true);
  });

  test.each(['{}', '{"on":"no"}', '{"on":true,"off":1}', '[]', 'text'])(
    'POST /_emulator/log rejects %s',
    async body => {
      const emulated = await emptyEmulator();
      const type = body === 'text' ? 'text/plain' : 'application/json';
      const { status, body: answer } = await post(emulated, '/_emulator/log', body, type);
      expect([status, answer]).toEqual([400, { error: 'invalid log: it must be {"on": true} or {"on": false}' }]);
      expect(emulated.state.logView.on).toBe(true);
    },
  );
});

describe('POST /_emulator/dialect', () => {
  test('POST /_emulator/dialect changes the given options immediately, and GET returns all options', async () => {
    const emulated = await emptyEmulator({ dialect: { eventState: 'upper' } });
    emulated.state.addEvent({ messageId: 'm', state: 'cancelled' });
    const { body } = await ask(emulated, '/_emulator/dialect');
    expect(Object.keys(body.dialect)).toEqual(Object.keys(dialectOptions));
    const changes = { eventTime: 'number', eventCancelled: 'canceled', logDuplicates: 0.5 };
    const changed = await postJson(emulated, '/_emulator/dialect', changes);
    expect(changed).toMatchObject({ status: 200, body: { dialect: { ...body.dialect, ...changes } } });
    expect((await ask(emulated, '/_emulator/dialect')).body).toEqual(changed.body);
    const [event] = (await ask(emulated, '/v2/events?messageId=m')).body.events;
    expect(event).toMatchObject({ time: NOON, state: 'CANCELED' });
    expect((await postJson(emulated, '/_emulator/dialect', {})).body).toEqual(changed.body);
  });

  test.each([
    ['{"colour":"red"}', 'there is no option "colour"; there are: flowControlList, '],
    ['{"__proto__":{"eventTime":"number"}}', 'there is no option "__proto__"'],
    ['{"eventTime":"number","logLateShare":2}', 'logLateShare must be a number from 0 to 1'],
    ['{"eventTime":"number","logLateMs":"20"}', 'logLateMs must be a number from 0 to 21600000'],
    ['{"eventTime":"date"}', 'eventTime must be one of text, number'],
    ['["eventTime"]', 'invalid dialect: it must be an object of options and their values'],
    ['{"eventTime":', 'JSON'],
  ])('POST /_emulator/dialect rejects %s and changes nothing', async (text, reason) => {
    const emulated = await emptyEmulator();
    const before = { ...emulated.dialect };
    const { status, body } = await post(emulated, '/_emulator/dialect', text);
    expect([status, body]).toEqual([400, { error: expect.stringContaining(reason) }]);
    expect(emulated.dialect).toEqual(before);
  });

  test('POST /_emulator/dialect rejects a body without a JSON content type', async () => {
    const { status, body } = await post(await emptyEmulator(), '/_emulator/dialect', '{}', 'text/plain');
    expect([status, body.error]).toEqual([400, 'invalid dialect: it must be an object of options and their values']);
  });
});

test('the home page lists the emulator’s own endpoints', async () => {
  const emulated = await emptyEmulator();
  const { text } = await ask(emulated, '/');
  expect(text).toContain('  GET /_emulator/state\n');
  expect(text).toContain('  GET, POST, DELETE /_emulator/faults\n');
  expect(text).toContain('  GET, POST /_emulator/log\n');
  expect(text).toContain('  GET, POST /_emulator/dialect\n');
  for (const path of ['/_emulator/log', '/_emulator/dialect']) {
    expect((await ask(emulated, path)).status).toBe(200);
    expect((await ask(emulated, path, { method: 'DELETE' })).status).toBe(404);
  }
});
