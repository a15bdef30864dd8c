import { describe, expect, it } from 'vitest';
import { describeStep, messageJson, readMessage, timelineOf } from '../../src/lookup/message.ts';
import type { DeliveryEvent, EventState } from '../../src/model/message.ts';
import { createTestClient, TOKEN } from '../support/client.ts';
import { emulateEmpty } from '../support/emulate.ts';

const time = (seconds: number) => new Date(seconds * 1000).toISOString();

const at = (seconds: number, state: EventState, more: Partial<DeliveryEvent> = {}): DeliveryEvent => ({
  messageId: 'm',
  state,
  time: seconds * 1000,
  ...more,
});

/** Events of a message that fails after two attempts. */
const FAILED = [
  at(0, 'created'),
  at(1, 'active'),
  at(3, 'error', { status: 500, dueAt: 13_000 }),
  at(3, 'retry', { dueAt: 13_000 }),
  at(13, 'active'),
  at(18, 'error', { status: 503 }),
  at(18, 'failed'),
];

describe('timelineOf', () => {
  it('a timeline numbers the attempts, contains their durations, and shows each retry time once', () => {
    expect(timelineOf(FAILED.toReversed(), true, false)).toEqual({
      events: [
        { time: time(0), state: 'created' },
        { time: time(1), state: 'active', attempt: 1 },
        { time: time(3), state: 'error', responseStatus: 500, attempt: 1, tookSeconds: 2 },
        { time: time(3), state: 'retry', nextDeliveryAt: time(13) },
        { time: time(13), state: 'active', attempt: 2 },
        { time: time(18), state: 'error', responseStatus: 503, attempt: 2, tookSeconds: 5 },
        { time: time(18), state: 'failed' },
      ],
      attempts: 2,
      outcome: 'failed',
      durationSeconds: 18,
      missing: [],
    });
  });

  it('a timeline ignores repeated events', () => {
    expect(timelineOf([...FAILED, ...FAILED], true, false)).toEqual(timelineOf(FAILED, true, false));
  });

  it('a timeline has no attempt numbers if the log no longer contains the CREATED event', () => {
    const { events, missing, durationSeconds } = timelineOf(FAILED.slice(4), true, false);
    expect(missing).toEqual(['creation']);
    expect(durationSeconds).toBeNull();
    expect(events.map(({ attempt }) => attempt)).toEqual([undefined, undefined, undefined]);
    expect(events[1]?.tookSeconds).toBe(5);
  });

  it('a timeline includes an attempt without a listed start, but omits its duration', () => {
    const { attempts, events } = timelineOf([at(0, 'created'), at(5, 'delivered', { status: 200 })], false, false);
    expect(attempts).toBe(1);
    expect(events[1]).toEqual({ time: time(5), state: 'delivered', responseStatus: 200, attempt: 1 });
  });

  it.each([
    ['all', [], true, false],
    ['end', FAILED.slice(0, 4), true, false],
    ['unread', FAILED, true, true],
  ] as const)('a timeline reports the missing part "%s"', (part, events, isDead, hasMore) => {
    expect(timelineOf(events, isDead, hasMore).missing).toEqual([part]);
  });

  it('a timeline reports no missing parts while the message is in flight', () => {
    expect(timelineOf(FAILED.slice(0, 4), false, false)).toMatchObject({ missing: [], outcome: null });
  });
});

const { signal } = new AbortController();

describe('readMessage', () => {
  it.each(['included', 'separate'] as const)(
    'readMessage finds a failed workflow run with the dialect dlqWorkflows=%s',
    async way => {
      const { url, state } = await emulateEmpty({ token: TOKEN, dialect: { dlqWorkflows: way } });
      state.addFailedRun({ messageId: 'run' });
      state.addDlqEntry({ messageId: 'other' });
      const source = { account: 'a', reader: createTestClient(url).reader };
      expect(await readMessage(source, 'run', signal)).toMatchObject({
        messageId: 'run',
        events: [],
        entry: { messageId: 'run', callbackState: 'in_progress' },
      });
      expect(await readMessage(source, 'missing', signal)).toBeUndefined();
    },
  );

  it('readMessage rejects if the service ignores the filter messageId', async () => {
    const { url, state } = await emulateEmpty({ token: TOKEN, dialect: { filters: { messageId: 'ignored' } } });
    state.addEvent({ messageId: 'other' });
    const source = { account: 'a', reader: createTestClient(url).reader };
    await expect(readMessage(source, 'm', signal)).rejects.toThrow('the service ignores the parameter messageId');
  });
});

it('the times since the first event include seconds if they are below 10 min', () => {
  const after = [0, 60, 61, 90, 91, 599, 600, 754].map(seconds => at(seconds, 'active'));
  const { events } = timelineOf(after, false, false);
  expect(events.map(step => describeStep(step, events).after)).toEqual(
    '0 s|1 min|1 min 1 s|1 min 30 s|1 min 31 s|9 min 59 s|10 min|12 min'.split('|'),
  );
});

it('messageJson converts a message to JSON without secrets', () => {
  const json = messageJson({
    account: 'a',
    messageId: 'm',
    events: FAILED.map(event => ({ ...event, url: 'https://user:secret@a.example/x?k=secret' })),
    entry: undefined,
    hasMore: false,
  });
  expect(JSON.stringify(json)).not.toContain('secret');
  expect(json).toMatchObject({
    messageId: 'm',
    account: 'a',
    url: 'https://a.example/x?…',
    traceId: undefined,
    outcome: 'failed',
    attempts: 2,
    durationSeconds: 18,
    missing: [],
    deadLetter: null,
  });
  expect(json.events[2]).toEqual({
    time: '1970-01-01T00:00:03.000Z',
    state: 'error',
    attempt: 1,
    tookSeconds: 2,
    responseStatus: 500,
  });
});

it('messageJson contains the trace of the publisher, except for messages of a schedule', () => {
  const [first, ...others] = FAILED.map(event => ({ ...event, messageId: 'm' }));
  const publisher = { traceId: '4bf92f3577b34da6a3ce929d0e0e4736', spanId: '00f067aa0ba902b7' };
  const traceIdOf = (row: object) =>
    messageJson({
      account: 'a',
      messageId: 'm',
      events: [...others, { ...first, ...row } as DeliveryEvent],
      entry: undefined,
      hasMore: false,
    }).traceId;
  expect(traceIdOf({ publisher })).toBe(publisher.traceId);
  expect(traceIdOf({ publisher, schedule: 'nightly' })).toBeUndefined();
});
