import { expect, it } from 'vitest';
import { events } from '../../../src/collectors/events/events.ts';
import { createAgent, createLog, HOUR, MINUTE, SECOND } from './fake-log.ts';

it('counts against the target that is set, each message once, and goes on when the target changes', async () => {
  const service = createLog();
  const { clock } = service;
  const agent = createAgent(service);
  const overdue = () => agent.shown().log.overdue;
  agent.reconfigure({}, { onTimeWithin: MINUTE });
  await agent.round('tail');
  service.add('msg_long', ['created'], clock.now + SECOND);
  service.add('msg_short', ['created', 'delivered'], clock.now + SECOND, { wait: 90 * SECOND });
  service.add('msg_fast', ['created', 'delivered'], clock.now + SECOND, { wait: 59 * SECOND });
  await agent.run(8);
  service.add('msg_later', ['created'], clock.now + SECOND);
  await agent.run(4);
  expect(overdue()).toBe(2);

  agent.reconfigure({}, { onTimeWithin: HOUR });
  expect(overdue()).toBe(2);
  await agent.run(40);
  expect(overdue()).toBe(2);

  // What is in flight is compared with the new target; what was counted is not counted again.
  agent.reconfigure({}, { onTimeWithin: 2 * MINUTE });
  await agent.run(4);
  expect(overdue()).toBe(3);
});

it('says since when it counts: the very first read, across restarts, also of a store of 0.1.0', async () => {
  const service = createLog();
  const { clock } = service;
  service.add('msg_before', ['created', 'active', 'delivered'], clock.now - HOUR);
  const agent = createAgent(service);
  expect(agent.shown().since).toBeUndefined();
  const first = clock.now;
  await agent.round('tail');
  expect(agent.shown().since).toBe(first);
  await agent.run(10);
  agent.kill();
  expect(agent.shown().since).toBe(first);
  expect(events.samples(agent.shown()).since).toEqual([{ labels: {}, value: first / 1000 }]);
  // The row has had this name since the first version.
  expect(JSON.parse(agent.rows.get('checkpoint') ?? '')).toMatchObject({ floor: first });
});
