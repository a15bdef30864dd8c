import { expect, it } from 'vitest';
import { events } from '../../../src/collectors/events/events.ts';
import { schedulesOptions } from '../../../src/collectors/events/schedule-options.ts';
import { samplesBy } from '../../support/samples.ts';
import { counted, createAgent, createLog, HOUR, MINUTE, SECOND } from './fake-log.ts';

it('counts each message that misses the configured target once, even after the target changes', async () => {
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
  await agent.run(20);
  expect(overdue()).toBe(2);

  agent.reconfigure({}, { onTimeWithin: HOUR });
  expect(overdue()).toBe(2);
  await agent.run(40);
  expect(overdue()).toBe(2);

  // The new target applies to messages in flight. Messages already counted are not counted again.
  agent.reconfigure({}, { onTimeWithin: 2 * MINUTE });
  await agent.run(4);
  expect(overdue()).toBe(3);
});

it('shows open messages past the target until they end, even after a restart', async () => {
  const service = createLog();
  const { clock } = service;
  const agent = createAgent(service);
  const overdue = () => agent.shown().gauges?.overdue;
  agent.reconfigure({}, { onTimeWithin: MINUTE });
  await agent.round('tail');
  service.add('msg_slow', ['created', 'delivered'], clock.now + SECOND, { wait: 10 * MINUTE });
  service.add('msg_lost', ['created'], clock.now + SECOND);
  service.add('msg_fast', ['created', 'delivered'], clock.now + SECOND, { wait: 10 * SECOND });
  await agent.run(2);
  expect(overdue()).toBe(0);
  await agent.run(26);
  expect(overdue()).toBe(2);
  agent.kill();
  await agent.run(1);
  expect(overdue()).toBe(2);
  await agent.run(40);
  expect(overdue()).toBe(1);
});

/**
 * Creates a log with a message every ten seconds, each delivered after half a minute. From each time in
 * `holds`, the log lists no new events for `hold` (ms).
 */
function createHeldBack(hold: number, holds: readonly number[]) {
  const service = createLog();
  const agent = createAgent(service);
  const start = service.clock.now;
  const minutes = 30 * (holds.length + 1);
  for (let number = 1; number <= minutes * 6; number += 1) {
    const createdAt = start + number * 10 * SECOND;
    for (const [state, after] of Object.entries({ created: 0, active: SECOND, delivered: 30 * SECOND })) {
      const time = createdAt + after;
      const held = holds.find(from => time >= start + from && time < start + from + hold);
      const listedAt = held === undefined ? time : start + held + hold;
      service.log.push({ messageId: `msg_${number}`, state, time, listedAt, schedule: 'scd_1' });
    }
  }
  const every = { name: 'reports', match: { scheduleId: 'scd_1' }, cron: '* * * * *', grace: '10s', endsWithin: '1m' };
  agent.reconfigure({}, { onTimeWithin: MINUTE, schedules: schedulesOptions.parse([every]) });
  return {
    agent,
    minutes,
    verdicts() {
      const { missed, late } = agent.shown().schedules.get('reports') ?? {};
      return { overdue: agent.shown().log.overdue, missed, late };
    },
  };
}

it('counts nothing as overdue or missed while the log is delayed by less than five minutes', async () => {
  const { agent, minutes, verdicts } = createHeldBack(4 * MINUTE, [10 * MINUTE]);
  await agent.round('tail');
  await agent.run(minutes * 4);
  expect(counted(agent.shown(), 'delivered')).toBe(minutes * 6 - 3);
  expect(verdicts()).toEqual({ overdue: 0, missed: 0, late: 0 });
});

it('counts no message as overdue while the log’s delay is within its previous peak, even after a restart', async () => {
  const { agent, minutes, verdicts } = createHeldBack(12 * MINUTE, [20 * MINUTE, 50 * MINUTE]);
  await agent.round('tail');
  await agent.run(45 * 4);
  const first = verdicts();
  expect(first).not.toEqual({ overdue: 0, missed: 0, late: 0 });
  agent.kill();
  await agent.run((minutes - 45) * 4);
  expect(counted(agent.shown(), 'delivered')).toBe(minutes * 6 - 3);
  expect(verdicts()).toEqual(first);
});

it('counts overdue messages of a quiet log after five minutes', async () => {
  const service = createLog();
  const agent = createAgent(service);
  await agent.round('tail');
  service.add('msg_1', ['created'], service.clock.now + SECOND);
  const steps = 4 * 10;
  await agent.run(steps - 1);
  expect(agent.shown().log.overdue).toBe(0);
  await agent.run(2);
  expect(agent.shown().log.overdue).toBe(1);
});

it('reports the very first read as the start of the counter, even after a restart', async () => {
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
  expect(samplesBy(events, agent.shown()).since).toEqual([{ labels: {}, value: first / 1000 }]);
});
