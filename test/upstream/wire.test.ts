import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { toDeliveryEvent, toDlqEntry, toFlowControlEntry, toFlowControlRows, toPage } from '../../src/upstream/wire.ts';

describe('wire', () => {
  it('reads the documented samples', () => {
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
    expect(toDlqEntry(message)).toEqual({ id: 'msg_123', createdAt: 1_620_000_000_000 });
    const event = {
      time: '1620000000000',
      messageId: 'msg_123',
      state: 'delivered',
      url: 'https://yourdestination.com',
      header: { 'Content-Type': ['application/json'] },
      body: 'Ym9keQ==',
    };
    expect(toDeliveryEvent(event)).toEqual({ messageId: 'msg_123', state: 'delivered', time: 1_620_000_000_000 });
    expect(toFlowControlEntry({ flowControlKey: 'k', waitListSize: 5 })).toEqual({ key: 'k', waitlistSize: 5 });
  });

  it.each([
    ['DELIVERED', 'delivered'],
    ['Cancel_Requested', 'cancel_requested'],
    ['CANCELED', 'cancelled'],
    ['CANCELLED', 'cancelled'],
    ['IN_SPACE', 'unknown'],
    ['', 'unknown'],
  ])('reads the state %j as %s', (state, known) =>
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
  ])('reads the time %j as %j', (createdAt, ms) => expect(toDlqEntry({ dlqId: 'x', createdAt })?.createdAt).toBe(ms));

  it('reads both spellings of a waitlist, and none as empty', () => {
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

  it('reads lists bare or wrapped, null as empty, and any spelling of the end', () => {
    expect(toFlowControlRows([1])).toEqual([1]);
    expect(toFlowControlRows({ flowControls: [1] })).toEqual([1]);
    expect(toFlowControlRows({ flowControls: null })).toEqual([]);
    for (const end of [{}, { cursor: null }, { cursor: '' }]) {
      expect(toPage({ ...end, messages: [] }, 'messages')).toEqual({ rows: [], cursor: undefined });
    }
    expect(toPage({ logs: [1] }, 'events')).toEqual({ rows: [1], cursor: undefined });
    expect(toPage({ logs: [1] }, 'messages')).toBeUndefined();
    expect(toPage({ cursor: 17, messages: null }, 'messages')).toEqual({ rows: [], cursor: '17' });
  });

  it.each([
    undefined,
    null,
    5,
    'text',
    [],
    {},
    { events: [] },
    { messages: {} },
    { messages: 'x' },
    { messages: [], cursor: {} },
  ])('takes %j for no list of messages, not for an empty one', body =>
    expect(toPage(body, 'messages')).toBeUndefined(),
  );

  it('throws at nothing', () => {
    fc.assert(
      fc.property(fc.anything({ withNullPrototype: true }), anything => {
        for (const read of [toDlqEntry, toDeliveryEvent, toFlowControlEntry, toFlowControlRows]) read(anything);
        toPage(anything, 'messages');
        toDlqEntry({ dlqId: anything, createdAt: anything });
        toDeliveryEvent({ messageId: anything, state: anything, time: anything });
        toFlowControlEntry({ flowControlKey: anything, waitListSize: anything });
      }),
    );
  });

  it('shortens huge keys so that they stay different', () => {
    const keys = [...'xy'].map(end => toFlowControlEntry({ flowControlKey: 'k'.repeat(5_000_000) + end })?.key ?? '');
    expect(keys.map(key => key.length)).toEqual([512, 512]);
    expect(keys[0]).not.toBe(keys[1]);
    expect(toFlowControlEntry({ flowControlKey: '\u{1f600}'.repeat(1000) })?.key.isWellFormed()).toBe(true);
  });

  it('makes keys that can be written: no lone surrogates, which would make two keys one', () => {
    expect(toFlowControlEntry({ flowControlKey: 'a\ud800' })?.key).toBe('a\ufffd');
  });
});
