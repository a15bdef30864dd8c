import { expect, it } from 'vitest';
import { counted, createAgent, createLog, HOUR, lives, MINUTE, SECOND } from './fake-log.ts';

const WHOLE = ['created', 'active', 'delivered'];

it('keeps counting when a clock that was an hour ahead at the first start is corrected', async () => {
  const service = createLog();
  const agent = createAgent(service);
  agent.skew = HOUR;
  await agent.round('tail');
  agent.skew = 0;
  await agent.run(1);
  for (let number = 0; number < 50; number += 1) {
    service.add(`msg_${number}`, WHOLE, service.clock.now + 5 * SECOND);
    await agent.run(1);
  }
  expect(counted(agent.shown())).toBe(150);
});

it('tracks the first message that is added to an empty log, even if the clock is ahead by more than the overlap', async () => {
  const service = createLog();
  const agent = createAgent(service);
  agent.skew = 2 * MINUTE;
  await agent.round('tail');
  await agent.run(3, MINUTE);
  service.add('msg_1', WHOLE, service.clock.now + SECOND);
  await agent.run(12);
  expect(lives(agent.shown())).toBe(1);
  expect(agent.shown().log).toMatchObject({ late: 0, untracked: { unknown_start: 0 } });
});

it('the sweep counts an event delayed by less than lateSweep even if the local clock is 25 minutes ahead', async () => {
  const service = createLog();
  const agent = createAgent(service, { lateSweep: '30m' });
  agent.skew = 25 * MINUTE;
  service.add('msg_old', ['retry'], service.clock.now - 1);
  await agent.round('tail');
  await agent.run(26, MINUTE);
  service.add('msg_late', ['retry'], service.clock.now + MINUTE, { late: 20 * MINUTE });
  for (let minute = 0; minute < 90; minute += 1) {
    service.add(`msg_${minute}`, ['retry'], service.clock.now + SECOND);
    await agent.run(1, MINUTE);
    await agent.round('sweep');
  }
  expect(agent.shown().log.late).toBe(1);
});
