import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import * as wire from '../../src/upstream/wire.ts';
import { toServiceQueue, toServiceSchedule } from '../../src/upstream/wire-service.ts';

const { toPage, withKey } = wire;
const toFlowControlPage = (body: unknown) => wire.toUnpagedList(body, 'flowControls');
const NOW = Date.UTC(2026, 10, 28, 12);
const toDlqEntry = (row: unknown) => wire.toDlqEntry(row, NOW);
const toDeliveryEvent = (row: unknown) => wire.toDeliveryEvent(row, NOW);
const toDetailedEvent = (row: unknown) => wire.toDetailedEvent(row, NOW);
const toFlowControlEntry = (row: unknown) => wire.toFlowControlEntry(row, NOW);

describe('wire', () => {
  it('the documented samples of the service are parsed', () => {
    const message = {
      messageId: 'msg_123',
      topicId: 'topic_123',
      url: 'https://yourdestination.com',
      method: 'POST',
      header: { 'My-Header': ['my-value'] },
      body: '{"foo":"bar"}',
      createdAt: 1_620_000_000_000,
      state: 'failed',
    };
    expect(toDlqEntry(message)).toEqual({
      id: 'msg_123',
      messageId: 'msg_123',
      createdAt: 1_620_000_000_000,
      url: 'https://yourdestination.com',
      method: 'POST',
      state: 'failed',
      topic: 'topic_123',
      labels: [],
    });
    const event = {
      time: '1620000000000',
      messageId: 'msg_123',
      state: 'delivered',
      url: 'https://yourdestination.com',
      header: { 'Content-Type': ['application/json'] },
      body: 'Ym9keQ==',
    };
    expect(toDeliveryEvent(event)).toEqual({
      messageId: 'msg_123',
      state: 'delivered',
      time: 1_620_000_000_000,
      url: 'https://yourdestination.com',
    });
    expect(toFlowControlEntry({ flowControlKey: 'k', waitListSize: 5 })).toEqual({ key: 'k', waitlistSize: 5 });
  });

  it.each([
    ['DELIVERED', 'delivered'],
    ['Cancel_Requested', 'cancel_requested'],
    ['CANCELED', 'cancelled'],
    ['CANCELLED', 'cancelled'],
    ['IN_SPACE', 'unknown'],
    ['', 'unknown'],
  ])('toDeliveryEvent parses the state %j as %s', (state, known) =>
    expect(toDeliveryEvent({ messageId: 'm', state, time: NOW })?.state).toBe(known),
  );

  it.each([
    [1_620_000_000_000, 1_620_000_000_000],
    ['1620000000000', 1_620_000_000_000],
    ['2021-05-03T00:00:00.000Z', 1_620_000_000_000],
    [null, undefined],
    ['', undefined],
    [0, undefined],
    ['0', undefined],
    [1_620_000_000_000.5, 1_620_000_000_000],
    ['1620000000000.5', 1_620_000_000_000],
    ['2021-05-03T00:00:00.000', 1_620_000_000_000],
    ['2021-05-03 00:00:00', 1_620_000_000_000],
    ['2021-05-03', 1_620_000_000_000],
    ['2021-05-03T02:00:00+02:00', 1_620_000_000_000],
    ['2021-05-02T20:00:00-0400', 1_620_000_000_000],
    ['2021-05-03T00:00:00.000123456Z', 1_620_000_000_000],
    [Date.UTC(2015, 0), Date.UTC(2015, 0)],
    [NOW + 86_400_000, NOW + 86_400_000],
  ])('toDlqEntry parses the time %j as %j, and the row is complete', (createdAt, ms) => {
    const entry = toDlqEntry({ dlqId: 'x', createdAt });
    expect([entry?.createdAt, entry?.isIncomplete]).toEqual([ms, undefined]);
  });

  it.each([
    'soon',
    'unknown 12',
    'Sat, 28 Nov 2026 12:00:00 GMT',
    '12',
    '2021-02-31T00:00:00Z',
    '0001-01-01T00:00:00Z',
    '1e12',
    ' 1620000000000 ',
    '-1620000000000',
    '+1620000000000',
    '0x17930F4E800',
    ' ',
    1,
    -1,
    100_000_000_000,
    1_620_000_000,
    '1620000000',
    1_620_000_000_000_000,
    '1620000000000000000',
    Date.UTC(2015, 0) - 1,
    NOW + 86_400_001,
    Number.NaN,
    true,
    [1_620_000_000_000],
    {},
  ])('toDlqEntry parses the time %j as unknown, and the row is incomplete', createdAt => {
    const entry = toDlqEntry({ dlqId: 'x', createdAt });
    expect([entry?.createdAt, entry?.isIncomplete]).toEqual([undefined, true]);
  });

  it.each([
    ['1752829295505-0', 1_752_829_295_505],
    ['0000000000001-0', undefined],
    ['100000000000-7', undefined],
    ['99999999999999-7', undefined],
    [`${NOW + 86_400_001}-0`, undefined],
    ['1752829295505000-0', undefined],
    ['dlq-V1StGXR8', undefined],
  ])('the dlqId %s contains the entry time %j, and any id is complete', (dlqId, ms) => {
    const entry = toDlqEntry({ dlqId });
    expect([entry?.enteredAt, entry?.isIncomplete]).toEqual([ms, undefined]);
  });

  it('the text of a time without an offset is in UTC regardless of the host’s time zone', () => {
    const { TZ } = process.env;
    try {
      for (process.env.TZ of ['UTC', 'America/New_York', 'Asia/Kolkata'])
        expect(toDlqEntry({ dlqId: 'x', createdAt: '2021-05-03T00:00:00' })?.createdAt).toBe(1_620_000_000_000);
    } finally {
      if (TZ === undefined) delete process.env.TZ;
      else process.env.TZ = TZ;
    }
  });

  it('a row with an implausible event time is unreadable, but a delivery may be due a year later', () => {
    const event = { messageId: 'm', state: 'RETRY', time: NOW };
    for (const time of [0, '', 'soon', NOW / 1000, NOW * 1000])
      expect(toDeliveryEvent({ ...event, time })).toBeUndefined();
    const due = (notBefore: unknown) => toDeliveryEvent({ ...event, notBefore });
    expect(due(NOW + 365 * 86_400_000)).toMatchObject({ dueAt: NOW + 365 * 86_400_000, isIncomplete: undefined });
    expect(due(0)).toMatchObject({ dueAt: undefined, isIncomplete: undefined });
    expect(due(NOW * 1000)).toMatchObject({ dueAt: undefined, isIncomplete: true });
  });

  it.each([
    [0, 0],
    ['0', 0],
    [503, 503],
    ['503', 503],
    [null, undefined],
  ])('the status %j is parsed as %j', (responseStatus, status) => {
    const entry = toDlqEntry({ dlqId: 'x', responseStatus });
    expect([entry?.responseStatus, entry?.isIncomplete]).toEqual([status, undefined]);
    expect(toDeliveryEvent({ messageId: 'm', state: 'error', time: NOW, responseStatus })?.status).toBe(status);
  });

  it.each([-1, 7, 1000, 503.5, '', '5xx', ' 503 ', '5e2', '0x1f7', true, false, [503], {}, Number.NaN])(
    'the status %j is unknown, and the row is incomplete',
    responseStatus => {
      const entry = toDlqEntry({ dlqId: 'x', responseStatus });
      expect([entry?.responseStatus, entry?.isIncomplete]).toEqual([undefined, true]);
      const event = toDeliveryEvent({ messageId: 'm', state: 'error', time: NOW, responseStatus });
      expect([event?.status, event?.isIncomplete]).toEqual([undefined, true]);
    },
  );

  it('toDlqEntry parses the state of a failure callback under either name, and treats conflicting states as unknown', () => {
    const state = (fields: object) => toDlqEntry({ dlqId: 'x', ...fields })?.callbackState;
    const info = (state: unknown) => ({ failureCallbackInfo: { state } });
    const other = (failureFunctionState: unknown) => ({ failureFunctionState });
    expect([
      state(info('CALLBACK_INPROGRESS')),
      state(other('CALLBACK_INPROGRESS')),
      state({ ...info('CALLBACK_INPROGRESS'), ...other('callback_in_progress') }),
      state({ ...info('CALLBACK_INPROGRESS'), ...other('') }),
    ]).toEqual(Array(4).fill('in_progress'));
    expect(state({ ...info('CALLBACK_INPROGRESS'), ...other('CALLBACK_SUCCESS') })).toBe('unknown');
    expect(state({ ...info('CALLBACK_SUCCESS'), ...other('CALLBACK_INPROGRESS') })).toBe('unknown');
    expect([state({}), state({ failureCallbackInfo: null }), state({ failureCallbackInfo: 'CALLBACK_FAIL' })]).toEqual(
      Array(3).fill(undefined),
    );
  });

  it('toDlqEntry parses the message id of a failure callback if there is one', () => {
    const message = (failureCallbackInfo: unknown) =>
      toDlqEntry({ dlqId: 'x', messageId: 'm', failureCallbackInfo })?.callbackMessageId;
    expect([message({ messageId: 'msg_c' }), message({}), message(undefined), message({ messageId: {} })]).toEqual([
      'msg_c',
      undefined,
      undefined,
      undefined,
    ]);
  });

  it('toFlowControlEntry parses both spellings of a waitlist size, and a missing one as 0', () => {
    const size = (fields: object) => toFlowControlEntry({ flowControlKey: 'k', ...fields });
    const sizes = [
      { waitListSize: 2 },
      { waitlistSize: '3' },
      {},
      { waitListSize: null, waitlistSize: 4 },
      { waitListSize: 0 },
    ];
    expect(sizes.map(size)).toEqual([2, 3, 0, 4, 0].map(waitlistSize => ({ key: 'k', waitlistSize })));
    const unreadable = [null, -1, 'many', '', ' 7 ', '0x10', '1e3', '-4', '7.5', 2.5, true, false, {}, [7], 2 ** 53];
    for (const waitListSize of unreadable) expect(size({ waitListSize })).toEqual({ key: 'k', isIncomplete: true });
    expect(size({ waitListSize: 0, waitlistSize: 9 })).toEqual({ key: 'k', isIncomplete: true });
    expect(size({ waitListSize: '9', waitlistSize: 9 })).toEqual({ key: 'k', waitlistSize: 9 });
  });

  const KEY = { flowControlKey: 'k', waitListSize: 7, parallelismMax: 10 };

  it('toFlowControlEntry parses numbers and flags as text', () => {
    const text = { waitListSize: '7', parallelismMax: '10', parallelismCount: '3', rateMax: '5', rateCount: '4' };
    const row = { flowControlKey: 'k', ...text, ratePeriod: '60', isPaused: 'true' };
    const entry = { key: 'k', waitlistSize: 7, parallelismLimit: 10, parallelismInUse: 3, rateLimit: 5, rateUsed: 4 };
    expect(toFlowControlEntry(row)).toEqual({ ...entry, ratePeriodSeconds: 60, paused: true, pinned: [] });
    expect(toFlowControlEntry({ ...row, isPaused: 'False' })?.paused).toBe(false);
    expect(toFlowControlEntry({ ...KEY, isPaused: undefined })).toMatchObject({ parallelismInUse: 0, paused: false });
  });

  it.each([
    [{ parallelismCount: -3 }, { parallelismInUse: undefined, paused: false }],
    [{ parallelismCount: null }, { parallelismInUse: undefined, paused: false }],
    [{ parallelismCount: '' }, { parallelismInUse: undefined }],
    [{ parallelismMax: '10x' }, { parallelismLimit: undefined, parallelismInUse: undefined, paused: undefined }],
    [
      { parallelismMax: -1, rateMax: 5 },
      { parallelismLimit: undefined, rateLimit: 5, rateUsed: 0 },
    ],
    [
      { rateMax: 5, rateCount: 'none' },
      { rateLimit: 5, rateUsed: undefined },
    ],
    [
      { rateMax: [5], rateCount: 5 },
      { rateLimit: undefined, rateUsed: undefined },
    ],
    [{ rateMax: 5, ratePeriod: 'minute' }, { ratePeriodSeconds: undefined }],
    [{ rateMax: 5, ratePeriod: 60, ratePeriodStart: 'now' }, { rateUsed: undefined }],
    [{ isPaused: 1 }, { paused: undefined, parallelismInUse: 0 }],
    [{ isPaused: 'yes' }, { paused: undefined }],
    [{ isPaused: '' }, { paused: undefined }],
    [{ isPaused: null }, { paused: undefined }],
    [{ isPaused: [true] }, { paused: undefined }],
    [{ isPinnedRate: 'yes' }, { pinned: undefined, paused: false }],
    [{ isPinnedParallelism: 1 }, { pinned: undefined, paused: false }],
  ])('a flow-control key with %j is incomplete, and the unreadable value is unknown', (fields, values) => {
    const entry: object = { ...toFlowControlEntry({ ...KEY, ...fields }) };
    for (const [name, value] of Object.entries({ waitlistSize: 7, ...values, isIncomplete: true }))
      expect(Reflect.get(entry, name), name).toBe(value);
  });

  it('the used rate is unknown once its period has ended', () => {
    const used = (fields: object) =>
      toFlowControlEntry({ flowControlKey: 'k', waitListSize: 1, rateMax: 3, rateCount: 3, ratePeriod: 60, ...fields })
        ?.rateUsed;
    const start = NOW / 1000;
    for (const ratePeriodStart of [undefined, 0, null, start, String(start), start - 60, start - 65, start + 60])
      expect(used({ ratePeriodStart })).toBe(3);
    for (const ratePeriodStart of [start - 66, String(start - 66), 1_708_000_000, start * 1000])
      expect(used({ ratePeriodStart })).toBeUndefined();
    expect(used({ ratePeriodStart: start - 66, rateCount: undefined })).toBeUndefined();
    expect(used({ ratePeriodStart: start, ratePeriod: undefined })).toBeUndefined();
    expect(used({ ratePeriodStart: start - 86_000, ratePeriod: 86_400 })).toBe(3);
  });

  it('a value is parsed as 0 or false only if the row contains this value or no value, and no parsed time is before 2015', () => {
    const junk = fc.oneof(
      fc.anything(),
      fc.string(),
      fc.double(),
      fc.constantFrom('', ' 0', '-0', 'false ', '0x0', [], [0], {}, null, true, 1, -1),
    );
    const names = [
      'waitListSize',
      'parallelismMax',
      'parallelismCount',
      'rateMax',
      'rateCount',
      'ratePeriod',
      'isPaused',
      'ratePeriodStart',
    ];
    const written = (fields: object, name: string, ...words: unknown[]) =>
      [undefined, ...words].includes((fields as Record<string, unknown>)[name]);
    fc.assert(
      fc.property(fc.dictionary(fc.constantFrom(...names), junk), fields => {
        const entry = toFlowControlEntry({ flowControlKey: 'k', ...fields });
        if (entry?.waitlistSize === 0) expect(written(fields, 'waitListSize', 0, '0')).toBe(true);
        if (entry?.parallelismInUse === 0) expect(written(fields, 'parallelismCount', 0, '0')).toBe(true);
        if (entry?.rateUsed === 0) expect(written(fields, 'rateCount', 0, '0')).toBe(true);
        if (entry?.paused === false)
          expect(
            String(written(fields, 'isPaused', false) || (fields as { isPaused: unknown }).isPaused).toLowerCase(),
          ).toMatch(/^(true|false)$/);
        for (const number of [entry?.parallelismLimit, entry?.rateLimit, entry?.rateUsed])
          expect(number ?? 1).toBeGreaterThanOrEqual(0);
      }),
    );
    fc.assert(
      fc.property(junk, junk, junk, (time, status, count) => {
        const entry = toDlqEntry({ dlqId: 'x', createdAt: time, responseStatus: status, maxRetries: count });
        const event = toDeliveryEvent({
          messageId: 'm',
          state: 'error',
          time: NOW,
          notBefore: time,
          responseStatus: status,
        });
        for (const ms of [entry?.createdAt, event?.dueAt]) expect(ms ?? NOW).toBeGreaterThanOrEqual(Date.UTC(2015, 0));
        for (const read of [entry?.responseStatus, event?.status]) if (read === 0) expect([0, '0']).toContain(status);
        if (entry?.maxRetries === 0) expect([0, '0']).toContain(count);
        const isUnset = (value: unknown, ...unset: unknown[]) =>
          value === undefined || value === null || unset.includes(value);
        const isLost =
          (entry?.createdAt === undefined && !isUnset(time, 0, '0', '')) ||
          (entry?.responseStatus === undefined && !isUnset(status)) ||
          (entry?.maxRetries === undefined && !isUnset(count));
        expect(entry?.isIncomplete ?? false).toBe(isLost);
      }),
    );
  });

  it.each([
    ['1763650000000-7', 1_763_650_000_000],
    ['1763650000-7', undefined],
    ['100000000000-7', undefined],
    ['17636500000000-7', undefined],
    ['1763650000000000-7', undefined],
    ['1763650000000', undefined],
    ['dlq-1763650000000-7', undefined],
    ['dlq-3f9a', undefined],
  ])('the dlqId %s has the entry time %s', (dlqId, time) =>
    expect(toDlqEntry({ dlqId, createdAt: 1_620_000_000_000 })).toMatchObject({
      enteredAt: time,
      createdAt: 1_620_000_000_000,
    }),
  );

  it.each([
    [{ waitListSize: 114, parallelismMax: 200, parallelismCount: 38, isPinnedParallelism: true }, ['parallelism']],
    [{ rateMax: 3, ratePeriod: 60, isPinnedRate: true }, ['rate']],
    [{ isPinnedParallelism: true, isPinnedRate: true }, ['parallelism', 'rate']],
    [{ parallelismMax: 50, isPinnedParallelism: false, isPinnedRate: null }, []],
    [{ parallelismMax: 50 }, []],
    [{ waitListSize: 1 }, undefined],
    [{ waitListSize: 1, isPinnedParallelism: {} }, undefined],
    [{ waitListSize: 1, isPinnedParallelism: 'true', isPinnedRate: 'False' }, ['parallelism']],
    [{ isPinnedParallelism: true, isPinnedRate: 'yes' }, undefined],
    [{ parallelismMax: 50, isPinnedRate: 1 }, undefined],
  ])('toFlowControlEntry parses the pinned limits of %j as %j', (fields, pinned) =>
    expect(toFlowControlEntry({ flowControlKey: 'k', ...fields })?.pinned).toEqual(pinned),
  );

  it('toDlqEntry parses fields of a failed workflow under either name, and labels under all names', () => {
    const entry = (fields: object) => toDlqEntry({ dlqId: '1752829295505-0', ...fields });
    expect(
      entry({
        createdAt: '1752829294505',
        workflowRunId: 'wfr_1',
        workflowUrl: 'https://a.example/flow',
        failureCallback: 'https://a.example/failed',
        failureCallbackInfo: { state: 'CALLBACK_INPROGRESS' },
        responseStatus: '503',
        topicName: 't',
        queueName: 'q',
        scheduleId: 's',
        flowControlKey: 'f',
        api: 'x',
        maxRetries: 3,
        labels: ['one', 'two', 5],
      }),
    ).toEqual({
      id: '1752829295505-0',
      dlqId: '1752829295505-0',
      createdAt: 1_752_829_294_505,
      enteredAt: 1_752_829_295_505,
      workflowRunId: 'wfr_1',
      workflowUrl: 'https://a.example/flow',
      failureCallbackUrl: 'https://a.example/failed',
      callbackState: 'in_progress',
      responseStatus: 503,
      topic: 't',
      topicName: 't',
      queue: 'q',
      schedule: 's',
      flowControlKey: 'f',
      api: 'x',
      maxRetries: 3,
      labels: ['one', 'two'],
    });
    expect(entry({ failureFunctionState: 'callback_canceled' })?.callbackState).toBe('canceled');
    expect(entry({ failureCallbackInfo: { state: 'CALLBACK_LOST' } })?.callbackState).toBe('unknown');
    expect(entry({ label: 'first', labels: ['first', 'second', '', 'second'] })?.labels).toEqual(['first', 'second']);
    expect(entry({ label: 'one', labels: ['two'] })?.labels).toEqual(['one', 'two']);
    expect(entry({ failureCallbackInfo: null, label: 'old', topicId: '' })).toMatchObject({
      callbackState: undefined,
      labels: ['old'],
      topic: undefined,
    });
    expect(toDlqEntry({ dlqId: 'not-a-time' })?.enteredAt).toBeUndefined();
  });

  it('a row is kept if fields other than the required ones have the wrong type', () => {
    const odd = { url: 5, labels: 'x', label: [], queueName: {}, responseStatus: [], failureCallbackInfo: 'x' };
    expect(toDlqEntry({ dlqId: 'd', ...odd })).toEqual({ id: 'd', dlqId: 'd', labels: [], isIncomplete: true });
    expect(toDeliveryEvent({ messageId: 'm', state: 'active', time: NOW, nextDeliveryTime: {}, ...odd })).toEqual({
      messageId: 'm',
      state: 'active',
      time: NOW,
      labels: [],
      isIncomplete: true,
    });
  });

  it('toDeliveryEvent parses the next delivery time and the destination of an event', () => {
    const event = {
      messageId: 'm',
      state: 'RETRY',
      time: NOW,
      url: 'https://a.example',
      topicName: 't',
      queueName: 'q',
    };
    expect(toDeliveryEvent({ ...event, nextDeliveryTime: String(NOW + 17), labels: ['l'] })).toEqual({
      messageId: 'm',
      state: 'retry',
      time: NOW,
      dueAt: NOW + 17,
      url: 'https://a.example',
      topic: 't',
      queue: 'q',
      labels: ['l'],
    });
    expect(toDeliveryEvent({ ...event, notBefore: NOW + 18 })?.dueAt).toBe(NOW + 18);
  });

  it('a page is parsed from bare and wrapped lists, and with any form of a missing cursor', () => {
    const page = (rows: unknown[], more: object = {}) => ({ rows, cursor: undefined, isMissing: false, ...more });
    expect(toFlowControlPage([1])).toEqual(page([1]));
    expect(toFlowControlPage({ flowControls: [1] })).toEqual(page([1]));
    for (const end of [{}, { cursor: null }, { cursor: '' }]) {
      expect(toPage({ ...end, messages: [] }, 'messages')).toEqual(page([]));
    }
    expect(toPage({ logs: [1] }, 'events')).toEqual(page([1]));
    expect(toPage({ events: null, logs: [1], messages: null }, 'events')).toEqual(page([1]));
    // A group without a list counts as an unreadable row.
    const grouped = [{ messageId: 'a', events: [{ state: 'created' }, 7] }, { messageId: 'b' }, { events: [] }, 8];
    expect(toPage({ cursor: 17, messages: grouped }, 'events')).toEqual(
      page([{ messageId: 'a', state: 'created' }, 7, { messageId: 'b' }, 8], { cursor: '17' }),
    );
  });

  it('a body without rows or other content is parsed as an empty page, which reports whether the list is missing', () => {
    const empty = { rows: [], cursor: undefined, isMissing: true };
    expect(toFlowControlPage({ flowControls: null })).toEqual(empty);
    expect(toFlowControlPage(null)).toEqual(empty);
    expect(toPage(null, 'messages')).toEqual(empty);
    expect(toPage({}, 'messages')).toEqual(empty);
    expect(toPage({ events: null, logs: null }, 'events')).toEqual(empty);
    expect(toPage({ messages: [], error: '', total: 0 }, 'messages')).toEqual({ ...empty, isMissing: false });
    expect(toPage({ cursor: 17, messages: null }, 'messages')).toEqual({ ...empty, cursor: '17' });
    expect(toPage({ cursor: 17 }, 'messages')).toEqual({ ...empty, cursor: '17' });
  });

  it.each([
    undefined,
    5,
    'text',
    [],
    { error: 'no' },
    { error: {}, messages: [] },
    { error: 'no', messages: [{ dlqId: 'a' }] },
    { error: 'no', messages: null },
    { message: 'maintenance' },
    { messages: null, total: 0 },
    { messages: null, error: '' },
    { logs: [{ dlqId: 'a' }] },
    { messages: {} },
    { messages: 'x' },
    { messages: 0 },
    { messages: false },
    { messages: [], cursor: {} },
    JSON.parse('{"__proto__":{"messages":[]}}'),
    { constructor: [] },
  ])('toPage rejects %j as a list of messages instead of treating it as empty', body =>
    expect(toPage(body, 'messages')).toBeUndefined(),
  );

  it.each([
    { messages: {} },
    { events: {}, logs: [] },
    { logs: 'x' },
    { flowControls: [] },
    { events: null, message: 'maintenance' },
  ])('toPage rejects %j as a list of events', body => expect(toPage(body, 'events')).toBeUndefined());

  it('an id is accepted only if it is nonempty text or a safe integer', () => {
    for (const invalid of ['', 2 ** 53, 1.5, null, undefined]) {
      expect(toDlqEntry({ dlqId: invalid })).toBeUndefined();
      expect(toDlqEntry({ dlqId: invalid, messageId: 'm' })).toMatchObject({ id: 'm', dlqId: undefined });
      expect(toDeliveryEvent({ messageId: invalid, state: 'active', time: NOW })).toBeUndefined();
    }
    expect(toDlqEntry({ dlqId: 17 })?.id).toBe('17');
  });

  it('names of built-in properties are parsed as unknown states', () => {
    for (const state of ['constructor', '__proto__', 'toString', 'hasOwnProperty']) {
      expect(toDlqEntry({ dlqId: 'x', failureFunctionState: state })?.callbackState).toBe('unknown');
      expect(toDeliveryEvent({ messageId: 'm', state, time: NOW })?.state).toBe('unknown');
    }
  });

  it('withKey accepts a single key only under the requested name', () => {
    expect(withKey({ waitlistSize: 3 }, 'k')).toEqual({ flowControlKey: 'k', waitlistSize: 3 });
    expect(withKey({ flowControlKey: 'k' }, 'k')).toEqual({ flowControlKey: 'k' });
    const invalid = [{}, { message: 'maintenance' }, { waitListSize: null }, { flowControlKey: 'k', error: 'no' }];
    for (const other of [{ flowControlKey: 'other' }, [], null, 5, ...invalid])
      expect(withKey(other, 'k')).toBeUndefined();
  });

  it('no parser throws, regardless of the body', () => {
    fc.assert(
      fc.property(fc.anything({ withNullPrototype: true }), anything => {
        for (const read of [toDlqEntry, toDeliveryEvent, toDetailedEvent, toFlowControlEntry, toFlowControlPage])
          read(anything);
        toPage(anything, 'events');
        withKey(anything, 'k');
        toPage(anything, 'messages');
        toDlqEntry({ dlqId: 'x', createdAt: anything, labels: anything, failureCallbackInfo: anything });
        toPage({ messages: [anything, { events: [anything] }] }, 'events');
        toDeliveryEvent({ messageId: anything, state: anything, time: anything });
        toDetailedEvent({ messageId: 'm', state: 'active', time: NOW, header: anything, responseStatus: anything });
        toDetailedEvent({ messageId: 'm', state: 'active', time: NOW, header: { traceparent: anything } });
        toFlowControlEntry({ flowControlKey: anything, waitListSize: anything });
      }),
    );
  });

  it('toFlowControlEntry shortens huge keys and keeps them distinct', () => {
    const keys = [...'xy'].map(end => toFlowControlEntry({ flowControlKey: 'k'.repeat(5_000_000) + end })?.key ?? '');
    expect(keys.map(key => key.length)).toEqual([512, 512]);
    expect(keys[0]).not.toBe(keys[1]);
    expect(toFlowControlEntry({ flowControlKey: '\u{1f600}'.repeat(1000) })?.key.isWellFormed()).toBe(true);
  });

  it('toFlowControlEntry replaces lone surrogates in keys, so that keys can be stored', () => {
    expect(toFlowControlEntry({ flowControlKey: 'a\ud800' })?.key).toBe('a\ufffd');
  });

  it('texts of events and dead letters are truncated', () => {
    const long = 'x'.repeat(100_000);
    const row = {
      ...{ url: long, topicName: long, queueName: long, scheduleId: long, label: long, labels: [`${long}y`] },
      ...{ method: long, workflowUrl: long, workflowRunId: long, flowControlKey: long, callerIP: long, api: long },
      ...{ failureCallback: long, failureCallbackInfo: { messageId: long }, messageId: long, dlqId: long },
    };
    const texts = (found: object | undefined) =>
      Object.values(found ?? {})
        .flat()
        .filter(value => typeof value === 'string');
    const ofEvent = texts(toDetailedEvent({ ...row, state: 'active', time: NOW }));
    const ofEntry = texts(toDlqEntry({ ...row, state: long }));
    expect([ofEvent.length, Math.max(...ofEvent.map(text => text.length))]).toEqual([11, 4096]);
    expect([ofEntry.length, Math.max(...ofEntry.map(text => text.length))]).toEqual([19, 4096]);
    const shortened = ofEntry.filter(text => text.length <= 2048);
    expect(shortened, 'auto-cancel rules match texts of up to 2,048 characters').toEqual([]);
  });

  it.each([600, 5000])(
    'queues and schedules with names of %i characters have the same name in events and in lists',
    length => {
      const row = { queueName: 'q'.repeat(length), scheduleId: 's'.repeat(length) };
      const event = toDeliveryEvent({ ...row, messageId: 'm', state: 'created', time: NOW });
      const queue = toServiceQueue({ name: row.queueName }, NOW);
      const schedule = toServiceSchedule(row, NOW, text => text);
      expect([event?.queue, event?.schedule]).toEqual([queue?.name, schedule?.scheduleId]);
      expect(event?.queue).toHaveLength(512);
    },
  );

  it('lone surrogates in texts are replaced, and an id with one is unreadable, because it could equal another id', () => {
    expect(toDlqEntry({ dlqId: 'x', url: 'a\ud800', labels: ['b\udc00'] })).toMatchObject({
      url: 'a\ufffd',
      labels: ['b\ufffd'],
    });
    expect(toDlqEntry({ dlqId: 'x\ud800' })).toBeUndefined();
    expect(toDlqEntry({ dlqId: 'x\ud800', messageId: 'm' })).toMatchObject({ id: 'm', dlqId: undefined });
  });

  it.each([
    [{ Traceparent: ['00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'] }, true],
    [{ 'Upstash-Forward-Traceparent': '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01' }, true],
    [{ traceparent: ['00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-03'] }, true],
    [{ traceparent: ['00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00'] }, false],
    [{ traceparent: ['00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-02'] }, false],
    [{ tracestate: ['00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'] }, false],
    [{ traceparent: ['00-00000000000000000000000000000000-00f067aa0ba902b7-01'] }, false],
    [{ traceparent: ['00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01'] }, false],
    [{ traceparent: ['00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01 canary'] }, false],
    ['traceparent', false],
    [null, false],
  ])('toDetailedEvent accepts only a valid, sampled trace context from the headers %j', (header, isValid) => {
    const event = toDetailedEvent({ messageId: 'm', state: 'active', time: NOW, header });
    const publisher = { traceId: '4bf92f3577b34da6a3ce929d0e0e4736', spanId: '00f067aa0ba902b7' };
    expect(event?.publisher).toEqual(isValid ? publisher : undefined);
  });

  it('toDetailedEvent parses only the documented details of an event', () => {
    const row = { messageId: 'm', state: 'error', time: NOW, responseStatus: 503, method: 'PUT', flowControlKey: 'k' };
    const event = toDetailedEvent({ ...row, scheduleId: 's', body: 'b', error: 'e' });
    expect(event).toMatchObject({ status: 503, schedule: 's', method: 'PUT', publisher: undefined });
    expect(JSON.stringify(event)).not.toMatch(/"(b|e)"/);
  });
});
