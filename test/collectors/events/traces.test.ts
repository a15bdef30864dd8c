import { describe, expect, it } from 'vitest';
import type { LifecycleTrace } from '../../../src/model/lifecycle-trace.ts';
import { createAgent, createLog, MINUTE, SECOND } from './fake-log.ts';

const DELIVERED = ['created', 'active', 'delivered'];
const RETRIED = ['created', 'active', 'error', 'retry', 'active', 'delivered'];

/** Creates a queue with a capacity. `waiting`: number of queued traces. */
function createQueue(capacity = Number.POSITIVE_INFINITY) {
  const queue = {
    waiting: 0,
    restore(count: number) {
      queue.waiting = count;
    },
    add() {
      if (queue.waiting >= capacity) return false;
      queue.waiting += 1;
      return true;
    },
  };
  return queue;
}

/** Creates a tracing agent and performs its first read. */
async function createTracing(sampleRatio: number, account = 'a', queue = createQueue()) {
  const service = createLog();
  const agent = createAgent(service, { overlap: '5s', lateSweep: '10m' }, { account, sampleRatio, queue });
  await agent.round('tail');
  const exported = () =>
    [...agent.rows]
      .filter(([key]) => key.startsWith('outbox/'))
      .map(([, text]) => JSON.parse(text) as LifecycleTrace)
      .sort((a, b) => a.messageId.localeCompare(b.messageId));
  const names = () => exported().map(({ messageId }) => messageId);
  return { ...service, agent, exported, names };
}

describe('selection of traced messages', () => {
  it('all failed, cancelled and retried messages are traced, regardless of the sample ratio', async () => {
    const { agent, add, clock, names } = await createTracing(0);
    add('msg_delivered', DELIVERED, clock.now + SECOND);
    add('msg_retried', RETRIED, clock.now + SECOND);
    add('msg_failed', ['created', 'active', 'error', 'failed'], clock.now + SECOND);
    add('msg_cancelled', ['created', 'cancel_requested', 'cancelled'], clock.now + SECOND);
    add('msg_open', ['created', 'active'], clock.now + SECOND);
    await agent.run(3);
    expect(names()).toEqual(['msg_cancelled', 'msg_failed', 'msg_retried']);
    expect(agent.rowsOf('trace')).toHaveLength(1);
  });

  it('the slowest messages are traced once enough deliveries have been counted', async () => {
    const { agent, add, clock, names } = await createTracing(0);
    for (let number = 0; number < 200; number += 1) add(`msg_${number}`, DELIVERED, clock.now + SECOND + number);
    await agent.run(2);
    expect(names()).toEqual([]);
    add('msg_slow', DELIVERED, clock.now, { wait: 2 * SECOND });
    add('msg_usual', DELIVERED, clock.now);
    await agent.run(3);
    expect(names()).toEqual(['msg_slow']);
  });

  it('every replica traces the same sample of other messages, but each account has its own sample', async () => {
    const chosen = async (account: string) => {
      const { agent, add, clock, names } = await createTracing(0.3, account);
      for (let number = 0; number < 1000; number += 1) add(`msg_${number}`, DELIVERED, clock.now + SECOND + number);
      await agent.run(2);
      return names();
    };
    const [one, replica, other] = [await chosen('a'), await chosen('a'), await chosen('b')];
    expect(one.length).toBeGreaterThan(250);
    expect(one.length).toBeLessThan(350);
    expect(replica).toEqual(one);
    expect(other).not.toEqual(one);
  });

  it('messages created before counting started are not traced', async () => {
    const service = createLog();
    service.add('msg_old', ['created', 'failed'], service.clock.now - MINUTE);
    const agent = createAgent(service, {}, { account: 'a', sampleRatio: 1, queue: createQueue() });
    await agent.run(8);
    expect(agent.rowsOf('outbox')).toEqual([]);
  });
});

describe('trace content', () => {
  it('a trace contains the data of the rows, but only the origin of the URL', async () => {
    const { agent, log, clock, exported } = await createTracing(0);
    const traceparent = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01';
    const detail = { method: 'POST', hasFlowControlKey: true, traceparent };
    const fields = { status: 500, schedule: 's', detail };
    const time = clock.now + SECOND;
    for (const [index, state] of ['created', 'failed'].entries()) {
      const row = { messageId: 'm', state, time: time + index, listedAt: time, queue: 'q', ...fields };
      log.push({ ...row, url: 'https://api.example.com/path?key=secret' });
    }
    await agent.run(2);
    expect(exported()).toEqual([
      {
        traceId: expect.stringMatching(/^[0-9a-f]{32}$/),
        messageId: 'm',
        events: [
          { state: 'created', time, dueAt: 0, status: 500 },
          { state: 'failed', time: time + 1, dueAt: 0, status: 500 },
        ].reverse(),
        host: 'api.example.com',
        origin: 'https://api.example.com',
        method: 'POST',
        queue: 'q',
        schedule: 's',
        hasFlowControlKey: true,
        traceparent,
        lateEvents: 0,
        partial: [],
      },
    ]);
  });

  it('a trace is created once even if the agent is killed at every step', async () => {
    const { agent, add, clock, exported } = await createTracing(0);
    add('msg', RETRIED, clock.now + SECOND, { wait: 10 * SECOND });
    const seen: string[] = [];
    for (let round = 0; round < 20; round += 1) {
      agent.kill();
      await agent.run(1, 5 * SECOND);
      // Deleting a row marks its trace as exported.
      for (const { messageId, traceId, events } of exported()) {
        seen.push(`${messageId} ${events.length}`);
        agent.rows.delete(`outbox/${traceId}`);
      }
    }
    expect(seen).toEqual(['msg 6']);
    expect(agent.rowsOf('trace')).toEqual([]);
  });

  it('a trace includes delayed events and is not created again for events that are listed after its end', async () => {
    const { agent, add, clock, exported } = await createTracing(0);
    add('msg', ['created'], clock.now + SECOND);
    add('msg', ['error'], clock.now + 2 * SECOND, { late: 25 * SECOND });
    add('msg', ['error'], clock.now + 3 * SECOND, { late: 60 * SECOND });
    add('msg', ['failed'], clock.now + 20 * SECOND);
    add('other', DELIVERED, clock.now + 25 * SECOND);
    await agent.run(2, 15 * SECOND);
    expect(exported()).toMatchObject([{ messageId: 'msg', lateEvents: 0 }]);
    const [{ events, traceId } = { events: [], traceId: '' }] = exported();
    expect(events.map(({ state }) => state).sort()).toEqual(['created', 'error', 'failed']);
    agent.rows.delete(`outbox/${traceId}`);
    // The same applies after a restart, when the end of the trace is no longer stored.
    agent.kill();
    for (let minute = 0; minute < 15; minute += 1) {
      add(`other_${minute}`, DELIVERED, clock.now + 30 * SECOND);
      await agent.run(1, MINUTE);
      await agent.round('sweep');
    }
    await agent.run(3);
    expect(exported()).toEqual([]);
    expect(agent.rowsOf('trace')).toEqual([]);
  });

  it('a trace includes the delayed events of an open message and reports their number', async () => {
    const { agent, add, clock, exported } = await createTracing(0);
    add('msg', ['created'], clock.now + SECOND);
    add('msg', ['error'], clock.now + 2 * SECOND, { late: 2 * MINUTE });
    add('msg', ['failed'], clock.now + 16 * MINUTE);
    for (let minute = 0; minute < 18; minute += 1) {
      add(`other_${minute}`, DELIVERED, clock.now + 30 * SECOND);
      await agent.run(1, MINUTE);
      await agent.round('sweep');
    }
    const [{ events, lateEvents } = { events: [] }, ...others] = exported();
    expect(events.map(({ state }) => state).sort()).toEqual(['created', 'error', 'failed']);
    expect(lateEvents).toBe(1);
    expect(others).toEqual([]);
  });

  it('a trace is marked as partial if the log lost events before the message ended', async () => {
    const { agent, add, clock, service, exported } = await createTracing(0);
    add('msg', ['created'], clock.now + SECOND);
    await agent.run(2);
    service.keeps = MINUTE;
    clock.now += 60 * MINUTE;
    add('msg', ['failed'], clock.now - 10 * SECOND);
    await agent.run(2);
    expect(exported()).toMatchObject([{ messageId: 'msg', partial: ['gap'] }]);
  });
});

describe('trace limits', () => {
  it('keeps traces of at most 10,000 open messages; beyond that, exports the oldest as incomplete', async () => {
    const { agent, add, clock, exported } = await createTracing(1);
    for (let number = 0; number < 10_001; number += 1) add(`msg_${number}`, ['created'], clock.now + SECOND + number);
    await agent.run(2);
    expect(agent.rowsOf('trace')).toHaveLength(10_000);
    expect(exported()).toMatchObject([{ partial: ['evicted'] }]);
    add(exported()[0]?.messageId ?? '', ['active'], clock.now - SECOND);
    await agent.run(1);
    expect(agent.rowsOf('trace')).toHaveLength(10_000);
    expect(exported()).toHaveLength(1);
  });

  it('keeps at most 200 events per traced message, plus its end', async () => {
    const { agent, add, clock, exported } = await createTracing(0);
    add('msg', ['created', ...Array.from({ length: 300 }, () => 'active')], clock.now + SECOND);
    add('msg', ['failed'], clock.now + 8 * SECOND);
    await agent.run(3);
    const [{ events, partial } = { events: [], partial: [] }] = exported();
    expect(events.length).toBeLessThanOrEqual(201);
    expect(events.map(({ state }) => state)).toContain('failed');
    expect(partial).toEqual(['too_many_events']);
  });

  it('keeps traces up to the capacity of the queue, even after a restart', async () => {
    const queue = createQueue(3);
    const { agent, add, clock, names } = await createTracing(1, 'a', queue);
    const fail = async (...ids: string[]) => {
      for (const [index, id] of ids.entries()) add(id, ['created', 'failed'], clock.now + SECOND + index * 100);
      await agent.run(3);
    };
    await fail('a', 'b');
    agent.kill();
    expect(queue.waiting).toBe(2);
    await fail('c', 'd', 'e');
    expect(names()).toEqual(['a', 'b', 'c']);
    // Traces above the capacity are closed as well.
    expect(agent.rowsOf('trace')).toEqual([]);
    queue.waiting -= 1;
    await fail('f', 'g');
    expect(names()).toEqual(['a', 'b', 'c', 'f']);
  });

  it('deletes the rows of traces when tracing is disabled', async () => {
    const { add, clock, api, agent } = await createTracing(1);
    add('msg', ['created'], clock.now + SECOND);
    add('gone', ['created', 'failed'], clock.now + SECOND);
    await agent.run(2);
    expect([agent.rowsOf('trace').length, agent.rowsOf('outbox').length]).toEqual([1, 1]);
    const untraced = createAgent({ api, clock }, { overlap: '5s' });
    for (const [key, value] of agent.rows) untraced.rows.set(key, value);
    untraced.kill();
    await untraced.run(1);
    expect([untraced.rowsOf('trace'), untraced.rowsOf('outbox')]).toEqual([[], []]);
  });
});
