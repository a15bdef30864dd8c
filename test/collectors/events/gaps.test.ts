import { describe, expect, it } from 'vitest';
import { counted, createAgent, createLog, HOUR, type LogShape, MINUTE, SECOND } from './fake-log.ts';

const WHOLE = ['created', 'active', 'delivered'];

/** Creates an agent that has read one message before a downtime. */
async function createRead(shape: LogShape = {}) {
  const service = createLog(shape);
  const agent = createAgent(service);
  await agent.round('tail');
  service.add('msg_before', WHOLE, service.clock.now + 10 * SECOND);
  await agent.run(1);
  const gaps = () => agent.shown().log.gaps;
  return { ...service, agent, gaps };
}

describe('retention shorter than the downtime', () => {
  it.each(['was paused', 'was stopped'])(
    'counts one gap, even after several reads, if the agent %s for longer than the log’s retention',
    async how => {
      const { agent, clock, service, add, gaps } = await createRead();
      service.keeps = HOUR;
      if (how === 'was stopped') agent.kill();
      for (let minute = 0; minute < 240; minute += 1) add(`msg_${minute}`, WHOLE, clock.now + minute * MINUTE);
      clock.now += 4 * HOUR;
      await agent.run(1, 0);
      expect(gaps()).toBe(1);
      expect(counted(agent.shown())).toBe(3 + 60 * 3);
      agent.kill();
      await agent.run(20, MINUTE);
      expect(gaps()).toBe(1);
    },
  );

  it.each(['killed', 'failed'])(
    'counts one gap if the first read after a downtime longer than the retention is interrupted midway: %s',
    async how => {
      const { agent, clock, service, add, gaps } = await createRead({ page: 1, order: 'up' });
      service.keeps = HOUR;
      for (let number = 0; number < 150; number += 1)
        add(`msg_${number}`, ['created'], clock.now + number * 90 * SECOND);
      clock.now += 4 * HOUR;
      agent.kill();
      const before = counted(agent.shown());
      const whole = 3 + 30;
      while (counted(agent.shown()) === before) await agent.step('tail');
      expect(counted(agent.shown())).toBeLessThan(whole);
      if (how === 'failed') {
        service.failsAt = service.requests + 1;
        await expect(agent.round('tail')).rejects.toThrow('away');
      } else agent.kill();
      await agent.round('tail');
      expect(counted(agent.shown())).toBe(whole);
      expect(gaps()).toBe(1);
    },
  );

  it('counts no gap if the known events may be among the unreadable rows', async () => {
    const { agent, clock, service, add, gaps } = await createRead();
    for (let minute = 0; minute < 240; minute += 1) add(`msg_${minute}`, WHOLE, clock.now + minute * MINUTE);
    clock.now += 4 * HOUR;
    service.isReadable = ({ messageId }) => messageId !== 'msg_before';
    agent.kill();
    await agent.run(2);
    expect(gaps()).toBe(0);
  });

  it('counts no gap if all events are still listed', async () => {
    const { agent, clock, add, gaps } = await createRead();
    for (let minute = 0; minute < 240; minute += 1) add(`msg_${minute}`, WHOLE, clock.now + minute * MINUTE);
    clock.now += 4 * HOUR;
    agent.kill();
    await agent.run(2);
    expect(counted(agent.shown())).toBe(241 * 3);
    expect(gaps()).toBe(0);
  });
});

it('counts no gap for a silence without missing events', async () => {
  const { agent, clock, log, add, gaps } = await createRead();
  for (let number = 0; number < 20; number += 1) {
    add(`msg_${number}`, WHOLE, clock.now + 9 * MINUTE);
    await agent.run(40);
    if (number % 3 === 0) agent.kill();
    if (number % 5 === 0) await agent.round('sweep');
  }
  expect(counted(agent.shown())).toBe(log.length);
  expect(gaps()).toBe(0);
});

it('counts no gap if a response is empty although the log has events', async () => {
  const { agent, clock, log, add, gaps } = await createRead();
  for (let number = 0; number < 20; number += 1) {
    add(`msg_${number}`, WHOLE, clock.now + 14 * SECOND);
    const all = number % 7 === 3 ? log.splice(0) : [];
    await agent.run(1);
    log.push(...all);
  }
  await agent.run(5);
  expect(counted(agent.shown())).toBe(log.length);
  expect(gaps()).toBe(0);
});

it.each([5, 13])('counts no gap if events from before a silence are delayed by %d minutes', async minutes => {
  const { agent, clock, log, add, gaps } = await createRead();
  const start = clock.now;
  add('msg_late', WHOLE, start + 3 * SECOND, { late: minutes * MINUTE });
  add('msg_1', WHOLE, start + 10 * MINUTE);
  add('msg_2', WHOLE, start + 11 * MINUTE);
  for (let turn = 0; turn < 10; turn += 1) {
    await agent.run(20);
    await agent.round('sweep');
  }
  expect(counted(agent.shown())).toBe(log.length);
  expect(agent.shown().log).toMatchObject({ gaps: 0, late: 3 });
  expect(gaps()).toBe(0);
});

it('counts no gap and requests no reversed range if the clock is set back by an hour', async () => {
  const { agent, clock, service, gaps } = await createRead();
  clock.now -= HOUR;
  service.asked.length = 0;
  await agent.run(250);
  expect(gaps()).toBe(0);
  expect(service.asked.filter(({ from, to }) => from > to)).toEqual([]);
});
