import { describe, expect, it } from 'vitest';
import { counted, createAgent, createLog, HOUR, type LogShape, MINUTE, SECOND } from './fake-log.ts';

const WHOLE = ['created', 'active', 'delivered'];

/** An agent that has read one message and is about to be down. */
async function createRead(shape: LogShape = {}) {
  const service = createLog(shape);
  const agent = createAgent(service);
  await agent.round('tail');
  service.add('msg_before', WHOLE, service.clock.now + 10 * SECOND);
  await agent.run(1);
  const gaps = () => agent.shown().log.gaps;
  return { ...service, agent, gaps };
}

describe('a log that keeps less than the agent was down for', () => {
  it.each(['stood still', 'was killed'])('has one gap where the agent %s, however often it is read', async how => {
    const { agent, clock, service, add, gaps } = await createRead();
    service.keeps = HOUR;
    if (how === 'was killed') agent.kill();
    for (let minute = 0; minute < 240; minute += 1) add(`msg_${minute}`, WHOLE, clock.now + minute * MINUTE);
    clock.now += 4 * HOUR;
    await agent.run(1, 0);
    expect(gaps()).toBe(1);
    expect(counted(agent.shown())).toBe(3 + 60 * 3);
    agent.kill();
    await agent.run(20, MINUTE);
    expect(gaps()).toBe(1);
  });

  it.each(['killed', 'failed'])('has its gap though the first read after it is %s half-way', async how => {
    const { agent, clock, service, add, gaps } = await createRead({ page: 1, order: 'up' });
    service.keeps = HOUR;
    for (let number = 0; number < 150; number += 1) add(`msg_${number}`, ['created'], clock.now + number * 90 * SECOND);
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
  });

  it('has none where what was known may be among the rows that can not be read', async () => {
    const { agent, clock, service, add, gaps } = await createRead();
    for (let minute = 0; minute < 240; minute += 1) add(`msg_${minute}`, WHOLE, clock.now + minute * MINUTE);
    clock.now += 4 * HOUR;
    service.isReadable = ({ messageId }) => messageId !== 'msg_before';
    agent.kill();
    await agent.run(2);
    expect(gaps()).toBe(0);
  });

  it('has none when everything is still there', async () => {
    const { agent, clock, add, gaps } = await createRead();
    for (let minute = 0; minute < 240; minute += 1) add(`msg_${minute}`, WHOLE, clock.now + minute * MINUTE);
    clock.now += 4 * HOUR;
    agent.kill();
    await agent.run(2);
    expect(counted(agent.shown())).toBe(241 * 3);
    expect(gaps()).toBe(0);
  });
});

it('counts a silence once, when it ends with an answer to an attempt that nobody saw begin', async () => {
  const { agent, clock, add, gaps } = await createRead();
  for (let number = 0; number < 30; number += 1) add(`msg_${number}`, WHOLE, clock.now + number);
  await agent.run(1);
  add('msg_lost', ['delivered'], clock.now + 10 * MINUTE);
  add('msg_lost_too', ['error', 'active', 'delivered'], clock.now + 10 * MINUTE + SECOND);
  await agent.run(80);
  expect(gaps()).toBe(1);
});

it('takes no silence for a gap that has nothing missing', async () => {
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

it('takes an empty answer for nothing', async () => {
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

it.each([5, 13])('takes what comes in %d minutes late, from before a silence, for no gap', async minutes => {
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

it('expects nothing of a service that shows no attempt beginning', async () => {
  const { agent, clock, add, gaps } = await createRead();
  // The one that began is not enough to go by when more have not.
  add('msg_first', ['created', 'delivered'], clock.now + SECOND);
  for (let number = 0; number < 50; number += 1) {
    await agent.run(8);
    add(`msg_${number}`, ['created', 'delivered'], clock.now + SECOND);
    if (number % 10 === 5) agent.kill();
  }
  expect(gaps()).toBe(0);
});

it('takes a clock that goes back an hour for no gap', async () => {
  const { agent, clock, service, gaps } = await createRead();
  clock.now -= HOUR;
  service.asked.length = 0;
  await agent.run(250);
  expect(gaps()).toBe(0);
  expect(service.asked.filter(({ from, to }) => from > to)).toEqual([]);
});

it('a service that mostly shows no attempt beginning has no gap', async () => {
  const service = createLog();
  const agent = createAgent(service);
  await agent.round('tail');
  for (let number = 0; number < 100; number += 1) {
    service.add(`msg_${number}`, number % 10 === 0 ? WHOLE : ['created', 'delivered'], service.clock.now + MINUTE);
    await agent.run(1, 2 * MINUTE);
  }
  expect(agent.shown().log.gaps).toBe(0);
});
