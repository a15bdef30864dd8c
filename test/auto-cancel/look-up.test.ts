import { describe, expect, it } from 'vitest';
import { lookUpEvents, rereadEntry } from '../../src/auto-cancel/look-up.ts';
import type { DeliveryEvent, DlqEntry } from '../../src/model/message.ts';
import type { Reader } from '../../src/upstream/api.ts';
import { createTestLog } from '../support/silent.ts';

const NOW = 1_800_000_000_000;
const WANTED = { dlqId: `${NOW}-0`, messageId: 'msg_aB' };

/** Ways in which a service may apply the parameter `messageId`, and the messages that it then lists for msg_aB. */
const LISTED = {
  exactly: ['msg_aB'],
  'not at all': ['msg_x', 'msg_aB', 'msg_aB2'],
  'as a prefix': ['msg_aB', 'msg_aB2'],
  'not at all, without the message': ['msg_x', 'msg_y'],
  'as a prefix, without the message': ['msg_aB2'],
  'in another case': ['MSG_AB'],
} as const;
type Way = keyof typeof LISTED;

const reader = (way: Way) => {
  const page = <Row>(toRow: (messageId: string, index: number) => Row) => ({
    async *[Symbol.asyncIterator]() {
      yield { rows: LISTED[way].map(toRow), rejected: 0, isLast: true };
    },
  });
  const entry = (messageId: string, index: number) =>
    ({
      id: messageId,
      dlqId: messageId === 'msg_aB' ? WANTED.dlqId : `${NOW + 1 + index}-0`,
      messageId,
      labels: [],
      callbackState: 'in_progress',
    }) as unknown as DlqEntry;
  const event = (messageId: string, index: number): DeliveryEvent => ({
    messageId,
    state: 'active',
    time: messageId === 'msg_aB' ? NOW - 1000 : NOW + index,
  });
  return {
    dlqPages: () => page(entry)[Symbol.asyncIterator](),
    eventPages: () => page(event)[Symbol.asyncIterator](),
  } as unknown as Reader;
};

const signal = new AbortController().signal;
const found = (way: Way, target: { dlqId?: string; messageId?: string }) =>
  rereadEntry(reader(way), { workflowRunId: undefined, ...target } as never, signal).then(
    entry => entry?.messageId ?? 'gone',
    (error: Error) => error.message,
  );

describe('look-up of an entry, by how the service applies messageId', () => {
  it.each([
    ['exactly', 'msg_aB'],
    ['not at all', 'msg_aB'],
    ['as a prefix', 'msg_aB'],
    ['not at all, without the message', 'gone'],
    ['as a prefix, without the message', 'gone'],
  ] as const)('if the service applies messageId %s, the look-up by either id finds: %s', async (way, result) => {
    expect(await found(way, WANTED)).toBe(result);
    expect(await found(way, { messageId: WANTED.messageId })).toBe(result);
  });

  it('the look-up of an entry is inconclusive if its id is listed with different letter case', async () => {
    expect(await found('in another case', { messageId: WANTED.messageId })).toBe('an id is listed in another case');
  });

  it('the look-up of an entry is inconclusive if the entry is listed with another message', async () => {
    const target = { dlqId: WANTED.dlqId, messageId: 'msg_other' };
    expect(await found('exactly', target)).toBe('the entry is listed with another message');
  });
});

describe('look-up of events, by how the service applies messageId', () => {
  it.each([
    ['exactly', NOW - 1000],
    ['not at all', NOW - 1000],
    ['as a prefix', NOW - 1000],
    ['not at all, without the message', undefined],
    ['as a prefix, without the message', undefined],
    ['in another case', undefined],
  ] as const)('if the service applies messageId %s, the time of the newest event is %s', async (way, time) => {
    const entry = { messageId: WANTED.messageId } as DlqEntry;
    const silence = await lookUpEvents(reader(way), entry, { now: () => NOW, log: createTestLog() }, signal);
    expect(silence).toEqual({ lastEventAt: time, askedAt: NOW });
  });
});
