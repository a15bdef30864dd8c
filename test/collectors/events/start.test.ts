import { describe, expect, it } from 'vitest';
import { counted, createAgent, createLog, finished, HOUR, lives, MINUTE, SECOND } from './fake-log.ts';

const WHOLE = ['created', 'active', 'delivered'];

describe('first start', () => {
  it('counts events from the agent’s first start on, and tracks messages that were already in flight', async () => {
    const service = createLog();
    const { clock } = service;
    const start = clock.now;
    service.add('msg_over', WHOLE, start - 3 * MINUTE);
    service.add('msg_open', ['created', 'active'], start - 2 * MINUTE);
    service.add('msg_open', ['delivered'], start + SECOND);
    const agent = createAgent(service);
    await agent.round('tail');
    expect(counted(agent.shown())).toBe(0);
    expect(agent.shown().gauges).toMatchObject({ inFlight: 1, oldestInFlight: start - 2 * MINUTE });
    expect(agent.shown().gauges?.recent).toMatchObject({ created: 2, delivered: 1 });
    await agent.run(20);
    expect(counted(agent.shown())).toBe(1);
    expect(lives(agent.shown())).toBe(1);
    expect(agent.shown()).toMatchObject({ gauges: { inFlight: 0 }, log: { late: 0, gaps: 0, overdue: 0 } });
  });

  it('treats an event in the millisecond of the first read as history, and counts the next event', async () => {
    const service = createLog();
    const { clock } = service;
    service.add('msg_1', ['created', 'active'], clock.now, { wait: 1 });
    const agent = createAgent(service);
    await agent.round('tail');
    await agent.run(3);
    expect(counted(agent.shown())).toBe(1);
    expect(counted(agent.shown(), 'active')).toBe(1);
  });

  it('shows no counters before the first complete read, and starts over if that read is interrupted', async () => {
    const service = createLog({ page: 1, order: 'up' });
    const { clock } = service;
    for (let number = 0; number < 50; number += 1) service.add(`msg_${number}`, ['created'], clock.now - 60 + number);
    const agent = createAgent(service);
    await agent.round('tail', 1);
    expect(agent.shown().gauges).toBeUndefined();
    await agent.round('tail');
    expect(counted(agent.shown())).toBe(0);
    expect(agent.shown().gauges?.inFlight).toBe(50);
  });

  it.each(['up', 'down', 'mixed'] as const)(
    'reads a day of history without counting it if the order of the log is: %s',
    async order => {
      const service = createLog({ page: 10, order });
      const { clock } = service;
      const start = clock.now - 2 * HOUR;
      for (let number = 0; number < 400; number += 1) {
        service.add(`msg_${number}`, number % 4 === 0 ? WHOLE : ['created'], start + number * 10);
      }
      const agent = createAgent(service, { window: '24h' });
      await agent.round('tail');
      expect(agent.shown().gauges).toMatchObject({ inFlight: 300, oldestInFlight: start + 10 });
      expect(counted(agent.shown())).toBe(0);
      expect(agent.shown().log).toMatchObject({ overdue: 0, gaps: 0, late: 0 });
    },
  );
});

it('keeps counting after a restart, and the first read restores the gauges of recent events', async () => {
  const service = createLog();
  const { clock } = service;
  const agent = createAgent(service);
  await agent.round('tail');
  service.add('msg_1', WHOLE, clock.now + SECOND);
  service.add('msg_2', WHOLE, clock.now + SECOND, { wait: 6 * MINUTE });
  await agent.run(8);
  agent.kill();
  expect(counted(agent.shown())).toBe(4);
  expect(agent.shown().gauges).toBeUndefined();
  await agent.run(1);
  expect(agent.shown().gauges?.recent).toMatchObject({ created: 2, active: 1, delivered: 1 });
  clock.now += 20 * MINUTE;
  agent.kill();
  await agent.run(8);
  expect(counted(agent.shown())).toBe(6);
  expect(lives(agent.shown())).toBe(2);
  expect(agent.shown().gauges?.inFlight).toBe(0);
});

describe('local clock', () => {
  it.each([-HOUR, -2 * MINUTE, 0, 2 * MINUTE])(
    'a clock that is %d ms ahead of the service does not affect counters',
    async skew => {
      const service = createLog();
      const { clock } = service;
      service.add('msg_old', ['created', 'cancelled'], clock.now - SECOND);
      const agent = createAgent(service);
      agent.skew = skew;
      await agent.round('tail');
      await agent.run(3, MINUTE);
      for (let number = 0; number < 50; number += 1) {
        // The end of the message is listed before its start.
        const start = clock.now + SECOND;
        service.add(`msg_${number}`, ['created', 'active'], start, { wait: 100, late: 20 * SECOND });
        service.add(`msg_${number}`, ['delivered'], start + 200);
        await agent.run(8);
        if (number % 20 === 7) agent.kill();
      }
      // If its clock is behind, an agent reads each event with an additional delay equal to the clock skew.
      await agent.run(5 - Math.min(0, skew) / MINUTE, MINUTE);
      expect(lives(agent.shown())).toBe(50);
      expect(counted(agent.shown(), 'delivered')).toBe(50);
      expect(agent.shown().log).toMatchObject({ late: 0, gaps: 0, overdue: 0, untracked: { unknown_start: 0 } });
    },
  );

  it.each([
    ['back', -HOUR],
    ['forward', HOUR],
  ])('a clock that is temporarily set %s does not affect counters', async (_where, step) => {
    const service = createLog();
    const { clock } = service;
    const agent = createAgent(service);
    await agent.round('tail');
    service.add('msg_old', WHOLE, clock.now + SECOND);
    await agent.run(2);
    let number = 0;
    for (const skew of [step, 0, step, 0]) {
      agent.skew = skew;
      await agent.run(1);
      agent.skew = 0;
      for (let turn = 0; turn < 10; turn += 1) {
        service.add(`msg_${number}`, WHOLE, clock.now + 5 * SECOND);
        number += 1;
        await agent.run(1);
      }
    }
    await agent.run(8);
    expect(counted(agent.shown())).toBe(3 + number * 3);
    expect(finished(agent.shown())).toBe(number + 1);
    expect(lives(agent.shown())).toBe(number + 1);
    expect(agent.shown().log).toMatchObject({ late: 0, gaps: 0, overdue: 0 });
  });

  it('an open message counts as overdue once even if the clock is temporarily set forward', async () => {
    const service = createLog();
    const { clock } = service;
    const agent = createAgent(service);
    await agent.round('tail');
    service.add('msg_1', ['created'], clock.now + SECOND);
    await agent.run(2);
    agent.skew = HOUR;
    await agent.run(1);
    agent.skew = 0;
    await agent.run(60);
    expect(agent.shown().log.overdue).toBe(1);
  });
});
