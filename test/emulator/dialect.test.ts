import { describe, expect, test } from 'vitest';
import { dialectWith } from '../../src/emulator/dialect.ts';
import { ask, emptyEmulator, emulator, NOON } from './emulated.ts';

test('the defaults of the dialect match the documented API', () => {
  expect(dialectWith({})).toMatchObject({
    flowControlKeySize: 'waitlistSize',
    flowControlFields: 'documented',
    eventState: 'lower',
    lastCursor: 'absent',
    order: 'obeyed',
    logLateShare: 0,
    logDuplicates: 0,
    cursorSeam: 'exact',
    eventsMost: 1000,
    cancelAnswer: '302',
  });
});

describe('flow control', () => {
  test('the spelling of the waitlist size of a single key is configurable', async () => {
    const emulated = await emptyEmulator({ dialect: { flowControlKeySize: 'waitListSize' } });
    emulated.state.setWaitlist('k', 3);
    expect((await ask(emulated, '/v2/flowControl/k')).body).toEqual({ flowControlKey: 'k', waitListSize: 3 });
  });

  test('zero values of a flow-control key can be omitted, in both the older and the newer fields', async () => {
    const emulated = await emptyEmulator({ dialect: { flowControlZeros: 'omitted', flowControlFields: 'all' } });
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
    const emulated = await emptyEmulator({ dialect: { idleKey: 'missing' } });
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
  test('events are available at the configured paths', async () => {
    const emulated = await emptyEmulator({ dialect: { eventPaths: 'logs' } });
    const statuses = async () => [(await ask(emulated, '/v2/events')).status, (await ask(emulated, '/v2/logs')).status];
    expect(await statuses()).toEqual([404, 200]);
    emulated.dialect.eventPaths = 'events';
    expect(await statuses()).toEqual([200, 404]);
  });

  test('the spelling of states in events is configurable', async () => {
    const emulated = await emptyEmulator({ dialect: { eventState: 'upper' } });
    emulated.state.addEvent({ state: 'cancelled', messageId: 'm' });
    const one = async () => (await ask(emulated, '/v2/events?state=CANCELLED')).body.events[0].state;
    expect(await one()).toBe('CANCELLED');
    emulated.dialect.eventState = 'lower';
    expect(await one()).toBe('cancelled');
  });
});

describe('pages', () => {
  test('the last cursor of a list may be empty, and an empty cursor starts at the beginning', async () => {
    const emulated = await emptyEmulator({ dialect: { lastCursor: 'empty' } });
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
    const emulated = await emptyEmulator({ dialect: { highCount: 'refused' } });
    const statuses = [];
    for (const path of ['/v2/dlq?count=100', '/v2/dlq?count=101', '/v2/events?count=1000', '/v2/events?count=1001'])
      statuses.push((await ask(emulated, path)).status);
    expect(statuses).toEqual([200, 400, 200, 400]);
  });

  test('the requested order may be ignored', async () => {
    const emulated = await emptyEmulator({ dialect: { order: 'ignored' } });
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
      const emulated = await emptyEmulator({ dialect: { filters: { [name]: way } } });
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
    const emulated = await emptyEmulator({ dialect: { filters: { [name]: 'ignored' } } });
    emulated.state.addDlqEntry({});
    emulated.state.addEvent({});
    const bound = name === 'fromDate' ? NOON + 1 : NOON - 1;
    expect((await ask(emulated, `/v2/dlq?${name}=${bound}`)).body.messages).toHaveLength(1);
    expect((await ask(emulated, `/v2/events?${name}=${bound}`)).body.events).toHaveLength(1);
    emulated.dialect.filters = {};
    expect((await ask(emulated, `/v2/dlq?${name}=${bound}`)).body.messages).toEqual([]);
    expect((await ask(emulated, `/v2/events?${name}=${bound}`)).body.events).toEqual([]);
  });
});
