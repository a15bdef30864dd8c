import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  toDeliveryEvent,
  toDetailedEvent,
  toDlqEntry,
  toFlowControlEntry,
  toFlowControlPage,
  toPage,
  withKey,
} from '../../src/upstream/wire.ts';

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
    expect(toDeliveryEvent({ messageId: 'm', state, time: 1 })?.state).toBe(known),
  );

  it.each([
    [1_620_000_000_000, 1_620_000_000_000],
    ['1620000000000', 1_620_000_000_000],
    ['2021-05-03T00:00:00.000Z', 1_620_000_000_000],
    [null, undefined],
    ['', undefined],
    ['soon', undefined],
    [-5, undefined],
    [8.64e15, 8.64e15],
    [1e18, undefined],
    ['1e999', undefined],
  ])('toDlqEntry parses the time %j as %j', (createdAt, ms) =>
    expect(toDlqEntry({ dlqId: 'x', createdAt })?.createdAt).toBe(ms),
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
    const key = (fields: object) => toFlowControlEntry({ flowControlKey: 'k', ...fields })?.waitlistSize;
    expect([key({ waitListSize: 2 }), key({ waitlistSize: '3' }), key({}), key({ waitListSize: null })]).toEqual([
      2, 3, 0, 0,
    ]);
    expect([key({ waitListSize: -1 }), key({ waitListSize: 'many' }), key({ waitListSize: {} })]).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
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
    expect(toDlqEntry({ dlqId: 'd', ...odd })).toEqual({ id: 'd', dlqId: 'd', labels: [] });
    expect(toDeliveryEvent({ messageId: 'm', state: 'active', time: 1, nextDeliveryTime: {}, ...odd })).toEqual({
      messageId: 'm',
      state: 'active',
      time: 1,
      labels: [],
    });
  });

  it('toDeliveryEvent parses the next delivery time and the destination of an event', () => {
    const event = { messageId: 'm', state: 'RETRY', time: 5, url: 'https://a.example', topicName: 't', queueName: 'q' };
    expect(toDeliveryEvent({ ...event, nextDeliveryTime: '17', labels: ['l'] })).toEqual({
      messageId: 'm',
      state: 'retry',
      time: 5,
      dueAt: 17,
      url: 'https://a.example',
      topic: 't',
      queue: 'q',
      labels: ['l'],
    });
    expect(toDeliveryEvent({ ...event, notBefore: 18 })?.dueAt).toBe(18);
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

  it('a body with neither a list nor other content is parsed as an empty page, with or without a list', () => {
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
      expect(toDeliveryEvent({ messageId: invalid, state: 'active', time: 1 })).toBeUndefined();
    }
    expect(toDlqEntry({ dlqId: 17 })?.id).toBe('17');
  });

  it('names of built-in properties are parsed as unknown states', () => {
    for (const state of ['constructor', '__proto__', 'toString', 'hasOwnProperty']) {
      expect(toDlqEntry({ dlqId: 'x', failureFunctionState: state })?.callbackState).toBe('unknown');
      expect(toDeliveryEvent({ messageId: 'm', state, time: 1 })?.state).toBe('unknown');
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
        toDetailedEvent({ messageId: 'm', state: 'active', time: 1, header: anything, responseStatus: anything });
        toDetailedEvent({ messageId: 'm', state: 'active', time: 1, header: { traceparent: anything } });
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

  it.each([
    [{ Traceparent: ['00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'] }, true],
    [{ 'Upstash-Forward-Traceparent': '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01' }, true],
    [{ tracestate: ['00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01'] }, false],
    [{ traceparent: ['00-00000000000000000000000000000000-00f067aa0ba902b7-01'] }, false],
    [{ traceparent: ['00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01'] }, false],
    [{ traceparent: ['00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01 canary'] }, false],
    ['traceparent', false],
    [null, false],
  ])('toDetailedEvent accepts only a valid trace context from the headers %j', (header, isValid) => {
    const detail = toDetailedEvent({ messageId: 'm', state: 'active', time: 1, header })?.detail;
    expect(detail?.traceparent).toBe(isValid ? '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01' : undefined);
  });

  it('toDetailedEvent parses only the documented details of an event', () => {
    const row = { messageId: 'm', state: 'error', time: 1, responseStatus: 503, method: 'PUT', flowControlKey: 'k' };
    const event = toDetailedEvent({ ...row, scheduleId: 's', body: 'b', error: 'e' });
    expect(event).toMatchObject({ status: 503, schedule: 's' });
    expect(event?.detail).toEqual({
      method: 'PUT',
      hasFlowControlKey: true,
      traceparent: undefined,
    });
  });
});
