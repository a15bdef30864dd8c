import { describe, expect, test } from 'vitest';
import { dialectOptions, dialectWith, readDialectOption } from '../../src/emulator/dialect.ts';
import { startEmulator } from '../../src/emulator/server.ts';
import { ask, emptyEmulator, emulator, NOON } from './emulated.ts';

/** Options tested in other files, which cover failure callbacks, access, the contents of the event log and the lists of the service itself. */
const ELSEWHERE = [
  'callbackState',
  'cancelAnswer',
  'cancelTakesMs',
  'dlqWorkflows',
  'requestsPerSecond',
  'burstReset',
  'retryAfter',
  'readOnlyWrite',
  'logLateShare',
  'logLateMs',
  'logDuplicates',
  'cursorSeam',
  'eventsMost',
  'createdDue',
  'serviceLists',
  'serviceFields',
  'runsFilter',
];
const tested = new Set<string>(ELSEWHERE);

/** Query that selects the events added by a test. */
const ADDED = 'url=https://added.example.com/';

/** Starts an empty emulator with these options and marks them as tested. */
function withOption(option: Parameters<typeof dialectWith>[0]) {
  for (const name of Object.keys(option)) tested.add(name);
  return emptyEmulator({ dialect: option });
}

test('the defaults of the dialect match the interface document', () => {
  expect(dialectWith({})).toMatchObject({
    flowControlList: 'object',
    flowControlListSize: 'waitListSize',
    flowControlKeySize: 'waitlistSize',
    flowControlFields: 'documented',
    eventsList: 'events',
    eventTime: 'text',
    eventState: 'lower',
    eventCancelled: 'cancelled',
    lastCursor: 'absent',
    order: 'obeyed',
    logLateShare: 0,
    logDuplicates: 0,
    cursorSeam: 'exact',
    eventsMost: '1000',
    createdDue: 'absent',
    cancelAnswer: '302',
  });
});

test('the dialect rejects unknown options and values, in an object and on a command line', async () => {
  for (const wrong of [{ colour: 'red' }, { toString: 'x' }, { eventTime: 'date' }, { cancelTakesMs: -1 }])
    expect(() => dialectWith(wrong)).toThrow(RangeError);
  for (const wrong of ['eventTime', 'eventTime=', 'eventTime=date', '=', 'logLagMs=1s', 'logLagMs=999999999', 'x=1'])
    expect(() => readDialectOption(wrong)).toThrow(RangeError);
  expect(readDialectOption('eventTime=number')).toEqual({ eventTime: 'number' });
  expect(readDialectOption('logLagMs=20')).toEqual({ logLagMs: 20 });
  expect(readDialectOption('logLateShare=0.05')).toEqual({ logLateShare: 0.05 });
  for (const wrong of ['logLateShare=1.1', 'logLateShare=.5', 'logLateShare=5%', 'logDuplicates=-0.1'])
    expect(() => readDialectOption(wrong)).toThrow(RangeError);
  await expect(startEmulator({ dialect: { eventTime: 'date' } as never })).rejects.toThrow(
    'eventTime must be one of text, number',
  );
});

describe('flow control', () => {
  test.each(['object', 'array'] as const)('the flow-control list is returned as %s', async flowControlList => {
    const emulated = await withOption({ flowControlList });
    emulated.state.setWaitlist('k', 3);
    const rows = [{ flowControlKey: 'k', waitListSize: 3 }];
    const expected = flowControlList === 'array' ? rows : { flowControls: rows };
    expect((await ask(emulated, '/v2/flowControl')).body).toEqual(expected);
  });

  test('the spelling of the waitlist size is configurable, in the list and for a single key', async () => {
    const emulated = await withOption({ flowControlListSize: 'waitlistSize', flowControlKeySize: 'waitListSize' });
    emulated.state.setWaitlist('k', 3);
    expect((await ask(emulated, '/v2/flowControl')).body.flowControls).toEqual([
      { flowControlKey: 'k', waitlistSize: 3 },
    ]);
    expect((await ask(emulated, '/v2/flowControl/k')).body).toEqual({ flowControlKey: 'k', waitListSize: 3 });
  });

  test('zero values of a flow-control key can be omitted, including in the newer fields', async () => {
    const emulated = await withOption({ flowControlZeros: 'omitted', flowControlFields: 'all' });
    emulated.state.setWaitlist('k', 0);
    expect((await ask(emulated, '/v2/flowControl/k')).body).toEqual({ flowControlKey: 'k' });
    emulated.dialect.flowControlZeros = 'present';
    expect((await ask(emulated, '/v2/flowControl/k')).body).toEqual({
      flowControlKey: 'k',
      waitlistSize: 0,
      parallelismMax: 0,
      parallelismCount: 0,
      rateMax: 0,
      rateCount: 0,
      ratePeriod: 0,
      ratePeriodStart: 0,
      isPaused: false,
      isPinnedParallelism: false,
      isPinnedRate: false,
    });
  });

  test('the newer flow-control fields are consistent with the limits and waitlists of the keys', async () => {
    const emulated = await emulator({ dialect: { flowControlFields: 'all' } });
    let busy = 0;
    for (let step = 0; step < 60; step++) {
      emulated.clock.advance(5000);
      const now = emulated.clock.now();
      const { flowControls } = (await ask(emulated, '/v2/flowControl')).body;
      const { body } = await ask(emulated, '/v2/globalParallelism');
      const running = flowControls.reduce(
        (sum: number, row: { parallelismCount: number }) => sum + row.parallelismCount,
        0,
      );
      expect(body).toEqual({ parallelismMax: 100, parallelismCount: running });
      for (const row of flowControls) {
        if (row.parallelismMax > 0) {
          expect(row.parallelismCount).toBeLessThanOrEqual(row.parallelismMax);
          if (row.waitListSize > 0 && row.rateMax === 0) expect(row.parallelismCount).toBe(row.parallelismMax);
        }
        if (row.rateMax > 0) {
          expect(row.rateCount).toBeLessThanOrEqual(row.rateMax);
          expect(row.ratePeriodStart).toBeLessThanOrEqual(now / 1000);
          expect(row.ratePeriodStart).toBeGreaterThan(now / 1000 - row.ratePeriod - 1);
        }
        busy += row.parallelismCount + row.rateCount;
      }
    }
    expect(busy).toBeGreaterThan(50);
  });

  test('an idle key is found or missing, depending on the dialect; an unknown key is always missing', async () => {
    const emulated = await withOption({ idleKey: 'missing' });
    emulated.state.setWaitlist('idle', 0);
    emulated.state.setWaitlist('busy', 1);
    const statuses = async () => {
      const keys = ['idle', 'busy', 'none'];
      return Promise.all(keys.map(async key => (await ask(emulated, `/v2/flowControl/${key}`)).status));
    };
    expect(await statuses()).toEqual([404, 200, 404]);
    emulated.dialect.idleKey = 'found';
    expect(await statuses()).toEqual([200, 200, 404]);
  });

  test('the key name is the rest of the path, percent-encoded or not', async () => {
    const emulated = await emptyEmulator();
    for (const key of ['a/b', 'a/b/c', 'x y', '100% / tenant?', 'ключ', '"', 'pause', 'a%2Fb', 'a//b']) {
      emulated.state.setWaitlist(key, 5);
      const { status, body } = await ask(emulated, `/v2/flowControl/${encodeURIComponent(key)}`);
      expect([status, body]).toEqual([200, { flowControlKey: key, waitlistSize: 5 }]);
    }
    expect((await ask(emulated, '/v2/flowControl/a/b')).body.flowControlKey).toBe('a/b');
    expect((await ask(emulated, '/v2/flowControl/a%2fb')).body.flowControlKey).toBe('a/b');
    expect((await ask(emulated, '/v2/flowControl/%E0%A4%A')).status).toBe(400);
    expect((await ask(emulated, '/v2/flowControl/')).status).toBe(404);
  });

  test('a paused key starts no messages until it is resumed', async () => {
    const emulated = await emulator({ dialect: { flowControlFields: 'all' } });
    const headers = { authorization: `Bearer ${emulated.token}` };
    const post = async (path: string) => (await ask(emulated, path, { method: 'POST', headers })).status;
    expect(await post('/v2/flowControl/mail%2Fsend/pause')).toBe(200);
    emulated.clock.advance(3_600_000);
    const read = async (key: string) => (await ask(emulated, `/v2/flowControl/${encodeURIComponent(key)}`)).body;
    expect(await read('mail/send')).toMatchObject({ isPaused: true, parallelismCount: 0 });
    const waiting = emulated.state.waitlists().get('mail/send') as number;
    expect(waiting).toBeGreaterThan(100);
    expect(await post('/v2/flowControl/mail%2Fsend/resume')).toBe(200);
    emulated.clock.advance(2 * 3_600_000);
    expect(emulated.state.waitlists().get('mail/send')).toBeLessThan(waiting);
    expect(await post('/v2/flowControl/none/pause')).toBe(400);
    expect(await post('/v2/flowControl/none')).toBe(404);
  });
});

describe('events', () => {
  test('the name of the event list in the response is configurable', async () => {
    const emulated = await withOption({ eventsList: 'logs', logsList: 'events' });
    expect(Object.keys((await ask(emulated, '/v2/events')).body)).toEqual(['logs']);
    expect(Object.keys((await ask(emulated, '/v2/logs')).body)).toEqual(['events']);
  });

  test('events are available at the configured paths', async () => {
    const emulated = await withOption({ eventPaths: 'logs' });
    const statuses = async () => [(await ask(emulated, '/v2/events')).status, (await ask(emulated, '/v2/logs')).status];
    expect(await statuses()).toEqual([404, 200]);
    emulated.dialect.eventPaths = 'events';
    expect(await statuses()).toEqual([200, 404]);
  });

  test('the format of times and states in events, and the spelling of "cancelled", are configurable', async () => {
    const emulated = await withOption({ eventTime: 'number', eventState: 'upper', eventCancelled: 'canceled' });
    emulated.state.addEvent({ state: 'cancelled', messageId: 'm' });
    const one = async () => {
      const [{ time, state }] = (await ask(emulated, '/v2/events?state=CANCELLED')).body.events;
      return [time, state];
    };
    expect(await one()).toEqual([NOON, 'CANCELED']);
    emulated.dialect.eventState = 'lower';
    expect(await one()).toEqual([NOON, 'canceled']);
    Object.assign(emulated.dialect, { eventCancelled: 'cancelled', eventTime: 'text' });
    expect(await one()).toEqual([String(NOON), 'cancelled']);
  });

  test('events can be grouped by message', async () => {
    const emulated = await emptyEmulator();
    for (const state of ['created', 'active'] as const) emulated.state.addEvent({ messageId: 'a', state });
    emulated.state.addEvent({ messageId: 'b' });
    const { messages } = (await ask(emulated, '/v2/events?groupBy=messageId')).body;
    const found = messages.map((each: { messageId: string; events: { state: string }[] }) => [
      each.messageId,
      each.events.map(event => event.state),
    ]);
    expect(found).toEqual([
      ['b', ['created']],
      ['a', ['active', 'created']],
    ]);
  });

  test('events are listed after a lag, and remain listed if the lag increases', async () => {
    const emulated = await withOption({ logLagMs: 10_000 });
    emulated.state.addEvent({ messageId: 'now' });
    const listed = async () => (await ask(emulated, `/v2/events?${ADDED}`)).body.events.length;
    emulated.clock.advance(9999);
    expect(await listed()).toBe(0);
    expect(emulated.state.countEvents().created).toBeGreaterThan(0);
    emulated.clock.advance(1);
    expect(await listed()).toBe(1);
    emulated.dialect.logLagMs = 60_000;
    expect(await listed()).toBe(1);
  });

  test('events during an outage of the log are never listed', async () => {
    const emulated = await emptyEmulator();
    const { state, clock } = emulated;
    const add = (messageId: string) => {
      clock.advance(1000);
      state.addEvent({ messageId });
    };
    add('before');
    state.logView.stop(clock.now() + 1);
    state.logView.stop(clock.now() + 2);
    add('within');
    state.logView.resume(clock.now() + 1);
    state.logView.resume(clock.now() + 2);
    add('after');
    const ids = async (query = '') =>
      (await ask(emulated, `/v2/events?${ADDED}${query}`)).body.events.map(
        (row: { messageId: string }) => row.messageId,
      );
    expect(await ids()).toEqual(['after', 'before']);
    expect(await ids('&messageId=within')).toEqual([]);
    expect(await ids('&messageId=before,within')).toEqual(['before']);
    expect(state.eventRows().filter(row => row.messageId === 'within').length).toBe(1);
  });
});

describe('pages', () => {
  test('the last cursor of a list may be empty, and an empty cursor starts at the beginning', async () => {
    const emulated = await withOption({ lastCursor: 'empty' });
    emulated.state.addFailedRun();
    emulated.state.addEvent({ messageId: 'm' });
    for (const path of ['/v2/dlq', '/v2/events', '/v2/logs', '/v2/workflows/dlq']) {
      const { body } = await ask(emulated, path);
      expect(Object.values(body).flat().length, path).toBeGreaterThan(1);
      expect(body.cursor, path).toBe('');
      expect((await ask(emulated, `${path}?cursor=`)).body, path).toEqual(body);
    }
  });

  test('a count above the limit may be rejected', async () => {
    const emulated = await withOption({ highCount: 'refused' });
    const statuses = [];
    for (const path of ['/v2/dlq?count=100', '/v2/dlq?count=101', '/v2/events?count=1000', '/v2/events?count=1001'])
      statuses.push((await ask(emulated, path)).status);
    expect(statuses).toEqual([200, 400, 200, 400]);
  });

  test('the requested order may be ignored', async () => {
    const emulated = await withOption({ order: 'ignored' });
    for (const messageId of ['a', 'b']) {
      emulated.state.addEvent({ messageId });
      emulated.clock.advance(1);
    }
    for (const query of ['', '?order=earliestFirst', '?order=latestFirst', '?order=any']) {
      const { events } = (await ask(emulated, `/v2/events${query}`)).body;
      expect(events.map((row: { messageId: string }) => row.messageId)).toEqual(['b', 'a']);
    }
  });
});

describe('filters', () => {
  const FIELDS = {
    messageId: 'messageId',
    url: 'url',
    topicName: 'topicName',
    scheduleId: 'scheduleId',
    queueName: 'queueName',
    api: 'api',
    responseStatus: 'responseStatus',
    callerIp: 'callerIP',
    label: 'label',
  } as const;
  const EVENT_FILTERS = ['messageId', 'url', 'topicName', 'scheduleId', 'queueName', 'callerIp', 'label'];
  /** Rows found by each mode, in the order in which they are added below. */
  const FOUND = { exact: ['b'], ignored: ['b', 'B', 'bc', 'x'], 'any-case': ['b', 'B'], prefix: ['b', 'bc'] } as const;
  const WAYS = Object.keys(FOUND) as (keyof typeof FOUND)[];

  test.each(Object.entries(FIELDS).flatMap(([name, field]) => WAYS.map(way => [name, way, field] as const)))(
    'the filter %s supports the mode %s in each list that has this filter',
    async (name, way, field) => {
      const emulated = await withOption({ [`${name}Filter`]: way });
      for (const value of FOUND.ignored) {
        const row = { [field]: value, notBefore: 1 };
        emulated.state.addDlqEntry(row);
        emulated.state.addEvent(row);
      }
      const dlq = (await ask(emulated, `/v2/dlq?${name}=${name === 'responseStatus' ? '500' : 'b'}`)).body.messages;
      // The added rows have no valid status, so the result is not compared.
      if (name !== 'responseStatus') expect(dlq.map((row: Record<string, string>) => row[field])).toEqual(FOUND[way]);
      if (!EVENT_FILTERS.includes(name)) return;
      const { events } = (await ask(emulated, `/v2/events?${name}=b&order=earliestFirst`)).body;
      expect(events).toHaveLength(FOUND[way].length);
    },
  );

  test.each(['fromDate', 'toDate'] as const)('the filter %s can be ignored in both lists', async name => {
    const emulated = await withOption({ [`${name}Filter`]: 'ignored' });
    emulated.state.addDlqEntry({});
    emulated.state.addEvent({});
    const bound = name === 'fromDate' ? NOON + 1 : NOON - 1;
    expect((await ask(emulated, `/v2/dlq?${name}=${bound}`)).body.messages).toHaveLength(1);
    expect((await ask(emulated, `/v2/events?${name}=${bound}`)).body.events).toHaveLength(1);
    emulated.dialect[`${name}Filter`] = 'exact';
    expect((await ask(emulated, `/v2/dlq?${name}=${bound}`)).body.messages).toEqual([]);
    expect((await ask(emulated, `/v2/events?${name}=${bound}`)).body.events).toEqual([]);
  });

  test('the state filter can be ignored in the event list', async () => {
    const emulated = await withOption({ stateFilter: 'ignored' });
    emulated.state.addEvent({ state: 'failed' });
    expect((await ask(emulated, '/v2/events?state=DELIVERED')).body.events).toHaveLength(1);
  });
});

test('each option of the dialect has a test', () => {
  expect(Object.keys(dialectOptions).filter(name => !tested.has(name))).toEqual([]);
});
