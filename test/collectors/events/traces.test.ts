import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type OpenTrace, TraceCollector } from '../../../src/collectors/events/traces.ts';
import { EVENT_SEQUENCE, EVENT_STATES } from '../../../src/model/message.ts';
import type { MessageSpan } from '../../../src/model/message-span.ts';
import { PUBLISHER } from '../../support/message-span.ts';
import { runs } from '../../support/runs.ts';
import { createAgent, createLog, HOUR, MINUTE, SECOND } from './fake-log.ts';

const RETRIED = ['created', 'active', 'error', 'retry', 'active', 'error', 'retry', 'active', 'delivered'];
const OPTIONS = { overlap: '5s', lateSweep: '10m' };

/** Creates an agent that traces messages, and performs its first read. Times of spans are relative to `start`. */
async function createTracing(account = 'a') {
  const service = createLog();
  const sent: MessageSpan[] = [];
  const counts = { dropped: 0 };
  const traces = {
    account,
    baseUrl: 'https://delivery.example.com',
    send(spans: readonly MessageSpan[], dropped: number) {
      sent.push(...spans);
      counts.dropped += dropped;
    },
  };
  const agent = createAgent(service, OPTIONS, traces);
  await agent.round('tail');
  const start = service.clock.now + SECOND;
  const linesOf = (spans: readonly MessageSpan[]) =>
    spans.map(
      ({ kind, message, start: from, end, result, isPartial, attempts }) =>
        `${message.messageId} ${kind} ${from - start}-${end - start} ${result} ${attempts}${isPartial ? ' partial' : ''}`,
    );
  /** Adds a message with the publisher's span in its rows. */
  const add = (id: string, states: readonly string[], time = start, more: object = {}) =>
    service.add(id, states, time, { publisher: PUBLISHER, ...more } as object);
  return { ...service, agent, sent, counts, start, add, addUntraced: service.add, lines: () => linesOf(sent) };
}

describe('spans of a message', () => {
  it.each([
    ['with a port', 'https://jobs.example.com:8443/a', 'https://jobs.example.com:8443'],
    ['of 200 characters', `https://${'a'.repeat(192)}/`, `https://${'a'.repeat(192)}`],
    ['of 201 characters', `https://${'a'.repeat(193)}/`, undefined],
    [
      'international',
      `https://${String.fromCodePoint(...Array.from({ length: 80 }, (_, index) => 0x4e00 + 200 * ((index * 37) % 80)))}/`,
      undefined,
    ],
  ])('the origin of a URL is reported completely or not at all: %s', async (_what, url, origin) => {
    const { agent, add, sent } = await createTracing();
    add('m', RETRIED, undefined, { url });
    await agent.run(3);
    expect(new Set(sent.map(({ message }) => message.origin))).toEqual(new Set([origin]));
  });

  it('a retried message has a delivery span and a child for each attempt, in the publisher’s trace', async () => {
    const { agent, add, sent, lines } = await createTracing();
    add('m', RETRIED);
    await agent.run(3);
    expect(lines()).toEqual([
      'm attempt 10-20 error 1',
      'm attempt 40-50 error 2',
      'm attempt 70-80 delivered 3',
      'm delivery 0-80 delivered 3',
    ]);
    const [delivery] = sent.slice(-1);
    for (const { message } of sent)
      expect(message).toMatchObject({ traceId: PUBLISHER.traceId, deliveryId: delivery?.spanId });
    expect(new Set(sent.map(({ spanId }) => spanId)).size).toBe(4);
    expect(agent.rowsOf('traced')).toEqual([]);
  });

  it('an attempt span is sent as soon as the attempt has a result, the delivery span at the end', async () => {
    const { agent, add, lines } = await createTracing();
    add('m', ['created', 'active', 'error']);
    await agent.run(2);
    expect(lines()).toEqual(['m attempt 10-20 error 1']);
    add('m', ['active', 'failed'], agent.watermark() + MINUTE);
    await agent.run(7);
    expect(lines()).toHaveLength(3);
    expect(lines()[2]).toMatch(/^m delivery 0-\d+ failed 2$/);
  });

  it('messages without a sampled trace context have no spans', async () => {
    const { agent, addUntraced, start, sent } = await createTracing();
    addUntraced('m', RETRIED, start);
    await agent.run(3);
    expect(sent).toEqual([]);
    expect(agent.rowsOf('traced')).toEqual([]);
  });

  it('the trace context may be in any row of the message', async () => {
    const { agent, log, addUntraced, add, start, lines } = await createTracing();
    addUntraced('m', RETRIED.slice(0, -1), start);
    await agent.run(2);
    agent.kill();
    expect(lines()).toEqual([]);
    add('m', ['delivered'], start + 10 * SECOND);
    log.push({ messageId: 'other', state: 'created', time: start + 20 * SECOND, listedAt: start + 20 * SECOND });
    await agent.run(3);
    expect(lines()).toEqual([
      'm attempt 10-20 error 1',
      'm attempt 40-50 error 2',
      'm attempt 70-10000 delivered 3',
      'm delivery 0-10000 delivered 3',
    ]);
  });

  it('spans contain the data of the rows, but only the origin of the URL', async () => {
    const { agent, add, start, sent } = await createTracing();
    const row = {
      url: 'https://u:secret@api.example.com/path?key=secret',
      method: 'PUT',
      queue: 'q',
      topic: 't',
      status: 500,
    };
    add('m', ['created', 'active', 'failed'], start, row);
    await agent.run(2);
    expect(sent.map(({ status }) => status)).toEqual([500, 500]);
    expect(sent[0]?.message).toEqual({
      account: 'a',
      baseUrl: 'https://delivery.example.com',
      messageId: 'm',
      publisher: PUBLISHER,
      traceId: PUBLISHER.traceId,
      deliveryId: sent[1]?.spanId,
      origin: 'https://api.example.com',
      method: 'PUT',
      queue: 'q',
      topic: 't',
      schedule: undefined,
    });
  });

  it('a delivery has the status of its end, or else of its last attempt', async () => {
    const { agent, add, start, sent } = await createTracing();
    add('m1', ['created', 'active', 'error'], start, { status: 500 });
    add('m1', ['failed'], start + SECOND);
    add('m2', ['created'], start);
    add('m2', ['failed'], start + SECOND, { status: 404 });
    await agent.run(3);
    const statuses = sent.map(({ kind, message, status }) => [message.messageId, kind, status]);
    expect(statuses).toEqual([
      ['m1', 'attempt', 500],
      ['m1', 'delivery', 500],
      ['m2', 'delivery', 404],
    ]);
  });

  it('each message of a schedule has a separate trace', async () => {
    const { agent, add, start, sent } = await createTracing();
    for (const [index, id] of ['m1', 'm2'].entries())
      add(id, ['created', 'active', 'delivered'], start + index * SECOND, { schedule: 'nightly' });
    await agent.run(3);
    const traceIds = new Set(sent.map(({ message }) => message.traceId));
    expect(traceIds.size).toBe(2);
    for (const id of traceIds) expect(id).toMatch(/^(?!0{32})[0-9a-f]{32}$/);
    expect(traceIds.has(PUBLISHER.traceId)).toBe(false);
  });

  it('the ids depend on the account', async () => {
    const idsOf = async (account: string) => {
      const { agent, add, sent } = await createTracing(account);
      add('m', RETRIED);
      await agent.run(2);
      return sent.map(({ spanId }) => spanId);
    };
    const [one, same, other] = [await idsOf('a'), await idsOf('a'), await idsOf('b')];
    expect(same).toEqual(one);
    expect(other.filter(id => one.includes(id))).toEqual([]);
  });

  it('a cancelled message has a span of the open attempt', async () => {
    const { agent, add, lines } = await createTracing();
    add('m', ['created', 'active', 'cancel_requested', 'cancelled']);
    add('n', ['created', 'cancelled']);
    await agent.run(2);
    expect(lines().sort()).toEqual([
      'm attempt 10-30 cancelled 1',
      'm delivery 0-30 cancelled 1',
      'n delivery 0-10 cancelled 0',
    ]);
  });
});

describe('incomplete logs', () => {
  it.each([
    ['no creation', ['active', 'delivered'], ['attempt 0-10 delivered 1', 'delivery 0-10 delivered 1 partial']],
    ['no start', ['created', 'delivered'], ['attempt 10-10 delivered 1 partial', 'delivery 0-10 delivered 1 partial']],
    [
      'no result of an attempt',
      ['created', 'active', 'active', 'delivered'],
      ['attempt 20-30 delivered 2', 'delivery 0-30 delivered 2 partial'],
    ],
  ])('spans are marked as partial if the log lists %s', async (_what, states, expected) => {
    const { agent, add, lines } = await createTracing();
    add('m', states);
    await agent.run(2);
    expect(lines()).toEqual(expected.map(line => `m ${line}`));
  });

  it('a delayed result does not change spans that have been sent, and marks the delivery as partial', async () => {
    const { agent, add, start, lines } = await createTracing();
    add('m', ['created', 'active'], start);
    add('m', ['error'], start + 20, { late: 40 * SECOND });
    add('m', ['active', 'error'], start + 5 * SECOND);
    for (let number = 0; number < 5; number += 1) add(`o${number}`, ['created'], start + number * 15 * SECOND);
    add('m', ['failed'], start + MINUTE);
    await agent.run(6);
    expect(lines()).toEqual(['m attempt 5000-5010 error 2', 'm delivery 0-60000 failed 2 partial']);
  });

  it('the spans of a message are sent even if only the sweep reads its end', async () => {
    const { agent, add, start, lines } = await createTracing();
    add('m', ['created', 'active'], start);
    add('m', ['delivered'], start + 20, { late: 5 * MINUTE });
    for (let minute = 0; minute < 15; minute += 1) {
      add(`o${minute}`, ['created'], start + minute * MINUTE);
      await agent.run(1, MINUTE);
      await agent.round('sweep');
    }
    expect(lines()).toEqual(['m attempt 10-20 delivered 1', 'm delivery 0-20 delivered 1']);
  });

  it('spans are marked as partial if the log lost events before the message ended', async () => {
    const { agent, add, clock, service, lines, start } = await createTracing();
    add('m', ['created']);
    await agent.run(2);
    service.keeps = MINUTE;
    clock.now += HOUR;
    add('m', ['failed'], clock.now - 10 * SECOND);
    await agent.run(2);
    expect(lines()).toEqual([`m delivery 0-${clock.now - 40 * SECOND - start} failed 0 partial`]);
  });

  it('a message that is delivered again after its end has a second delivery span with another id', async () => {
    const { agent, add, start, lines, sent } = await createTracing();
    add('m', ['created', 'active', 'failed'], start);
    await agent.run(2);
    for (let minute = 1; minute < 5; minute += 1) add(`o${minute}`, ['created'], start + minute * MINUTE);
    add('m', ['active', 'delivered'], start + 4 * MINUTE);
    await agent.run(20);
    expect(lines().filter(line => line.includes('delivery'))).toEqual([
      'm delivery 0-20 failed 1',
      'm delivery 240000-240010 delivered 1 partial',
    ]);
    expect(new Set(sent.map(({ spanId }) => spanId)).size).toBe(sent.length);
  });

  it('messages that ended before counting started have no spans', async () => {
    const service = createLog();
    service.add('old', ['created', 'failed'], service.clock.now - MINUTE, { publisher: PUBLISHER } as object);
    const sent: MessageSpan[] = [];
    const traces = {
      account: 'a',
      baseUrl: 'http://x',
      send: (spans: readonly MessageSpan[]) => void sent.push(...spans),
    };
    await createAgent(service, OPTIONS, traces).run(8);
    expect(sent).toEqual([]);
  });
});

describe('restarts and limits', () => {
  it('spans are sent once, with the same ids, even if the agent is killed at every step', async () => {
    const spansOf = async (isKilled: boolean) => {
      const { agent, add, start, sent } = await createTracing();
      add('m', RETRIED, start, { wait: 10 * SECOND });
      for (let round = 0; round < 30; round += 1) {
        if (isKilled) {
          await agent.round('tail', 0);
          agent.kill();
        }
        await agent.run(1, 5 * SECOND);
      }
      return sent;
    };
    const killed = await spansOf(true);
    expect(killed).toHaveLength(4);
    expect(killed).toEqual(await spansOf(false));
  });

  it('spans are not sent again after a restart', async () => {
    const { sent, agent, add } = await createTracing();
    add('m', RETRIED);
    await agent.run(2, 15 * SECOND);
    const before = sent.length;
    agent.kill();
    await agent.run(3);
    expect([before, sent.length]).toEqual([4, 4]);
  });

  it('deletes the rows of open messages when tracing is disabled', async () => {
    const { add, clock, api, agent } = await createTracing();
    add('m', ['created']);
    await agent.run(2);
    expect(agent.rowsOf('traced')).toHaveLength(1);
    const untraced = createAgent({ api, clock }, OPTIONS);
    for (const [key, value] of agent.rows) untraced.rows.set(key, value);
    untraced.kill();
    await untraced.run(1);
    expect(untraced.rowsOf('traced')).toEqual([]);
  });

  const create = (stored: ReadonlyMap<bigint, OpenTrace> = new Map()) => {
    const [sent, counts] = [[] as MessageSpan[], { dropped: 0 }];
    const send = (spans: readonly MessageSpan[], dropped: number) => {
      sent.push(...spans);
      counts.dropped += dropped;
    };
    return { sent, counts, collector: new TraceCollector({ account: 'a', baseUrl: 'http://x', send }, stored) };
  };
  const row = (messageId: string, state: (typeof EVENT_STATES)[number], time: number) => ({
    messageId,
    state,
    time,
    publisher: PUBLISHER,
  });

  it('spans that cannot be sent are not sent again', () => {
    const sent: number[] = [];
    const send = (spans: readonly MessageSpan[]) => {
      sent.push(spans.length);
      throw new Error('broken');
    };
    const collector = new TraceCollector({ account: 'a', baseUrl: 'http://x', send }, new Map());
    collector.add({ message: 1n, time: 1 }, row('m', 'created', 1), false);
    collector.add({ message: 1n, time: 2 }, row('m', 'failed', 2), false);
    collector.follow({ message: 1n, state: 'failed', time: 2 }, true);
    expect(() => collector.send()).toThrow('broken');
    collector.send();
    expect(sent).toEqual([1]);
  });

  it('drops the oldest of more than 100,000 open messages, and counts its span as dropped', () => {
    const { collector, counts, sent } = create();
    for (let number = 0; number <= 100_000; number += 1)
      collector.add({ message: BigInt(number), time: number }, row(`m${number}`, 'created', number), false);
    collector.drainChanges();
    collector.send();
    expect(counts.dropped).toBe(1);
    for (const message of [0n, 1n]) {
      collector.add({ message, time: 200_000 }, row(`m${message}`, 'failed', 200_000), true);
      collector.follow({ message, state: 'failed', time: 200_000 }, true);
    }
    collector.send();
    expect(sent.map(({ message }) => message.messageId)).toEqual(['m1']);
  });

  it('keeps at most 200 events per message, plus its end', () => {
    const { collector, sent } = create();
    for (let time = 0; time < 300; time += 1) collector.add({ message: 1n, time }, row('m', 'active', time), false);
    const [change] = collector.drainChanges();
    expect(JSON.parse(change?.value ?? '').events).toHaveLength(200);
    collector.add({ message: 1n, time: 400 }, row('m', 'failed', 400), false);
    collector.follow({ message: 1n, state: 'failed', time: 400 }, true);
    collector.send();
    expect(sent.at(-1)).toMatchObject({ kind: 'delivery', isPartial: true, end: 400 });
  });

  it('keeps at most 10,000 ended spans until the next commit, and counts further ones as dropped', () => {
    const { collector, sent, counts } = create();
    for (let number = 0; number < 10_005; number += 1) {
      const message = BigInt(number);
      collector.add({ message, time: number }, row(`m${number}`, 'cancelled', number), false);
      collector.follow({ message, state: 'cancelled', time: number }, true);
    }
    collector.send();
    expect([sent.length, counts.dropped]).toEqual([10_000, 5]);
  });

  it('no two spans have the same id, even if events are delayed and the agent restarts', () => {
    const event = fc.record({ state: fc.constantFrom(...EVENT_STATES), time: fc.integer({ min: 0, max: 30 }) });
    const read = fc.record({
      events: fc.uniqueArray(event, { maxLength: 12, selector: ({ state, time }) => `${state} ${time}` }),
      watermark: fc.integer({ min: 0, max: 10 }),
      isRestarted: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.array(read, { minLength: 1, maxLength: 8 }), reads => {
        let { collector, sent } = create();
        const all: MessageSpan[] = [];
        const rows = new Map<string, string | null>();
        const known = new Set<string>();
        let pending: { readonly state: (typeof EVENT_STATES)[number]; readonly time: number }[] = [];
        let watermark = -1;
        for (const { events, watermark: step, isRestarted } of reads) {
          for (const { state, time } of events) {
            if (known.has(`${state} ${time}`)) continue;
            known.add(`${state} ${time}`);
            const isLate = time <= watermark;
            collector.add({ message: 1n, time }, row('m', state, time), isLate);
            if (isLate) collector.follow({ message: 1n, state, time }, true);
            else pending.push({ state, time });
          }
          watermark += step;
          const due = pending.filter(({ time }) => time <= watermark);
          pending = pending.filter(({ time }) => time > watermark);
          const rank = (state: (typeof EVENT_STATES)[number]) => EVENT_SEQUENCE.indexOf(state);
          due.sort((a, b) => a.time - b.time || rank(a.state) - rank(b.state));
          for (const { state, time } of due) collector.follow({ message: 1n, state, time }, true);
          for (const { key, value } of collector.drainChanges()) rows.set(key, value);
          collector.send();
          all.push(...sent.splice(0));
          if (!isRestarted) continue;
          const text = rows.get('traced/1');
          ({ collector, sent } = create(new Map(text ? [[1n, JSON.parse(text) as OpenTrace]] : [])));
        }
        expect(new Set(all.map(({ spanId }) => spanId)).size).toBe(all.length);
        for (const { spanId, start, end } of all) {
          expect(spanId).toMatch(/^(?!0{16})[0-9a-f]{16}$/);
          expect(end).toBeGreaterThanOrEqual(start);
        }
      }),
      { numRuns: runs(500) },
    );
  });
});
