import { expect, it } from 'vitest';
import { liveBytes } from '../../support/live-bytes.ts';
import { createAgent, createLog, MINUTE } from './fake-log.ts';

const MESSAGES = 1000;
const STATES = ['created', 'active', 'delivered'];

/** Creates an agent, lets it read `minutes` minutes of a log, and then empties the log and the store. */
async function read(minutes: number, options: object) {
  const service = createLog({ page: 100_000 });
  const agent = createAgent(service, options);
  await agent.round('tail');
  for (let minute = 0; minute < minutes; minute += 1) {
    service.log.length = 0;
    for (let number = 0; number < MESSAGES; number += 1) {
      service.add(`msg_${minute}_${number}`, STATES, service.clock.now + 1 + number * 30, { wait: 5000 });
    }
    service.clock.now += MINUTE;
    await agent.round('tail');
  }
  service.log.length = 0;
  agent.rows.clear();
  return agent;
}

// Warm up first, so that compiled code and object shapes are not measured.
const warmUp = () => read(2, {});

it('deduplication uses less than 160 bytes per stored event', async () => {
  await warmUp();
  const before = liveBytes();
  const agent = await read(10, { overlap: '1h', window: '1h', lateSweep: '1h' });
  const events = 10 * MESSAGES * STATES.length;
  expect((liveBytes() - before) / events).toBeLessThan(160);
  expect(agent.shown().gauges).toMatchObject({ inFlight: 0, recent: { created: 10 * MESSAGES } });
});

it('the event collector retains no memory for ended messages', async () => {
  const options = { overlap: '1s', window: '1s', lateSweep: '1s' };
  await warmUp();
  const before = liveBytes();
  const agent = await read(40, options);
  // Any table that retained all 40,000 messages would take at least a hundred bytes per message.
  expect(liveBytes() - before).toBeLessThan(2_000_000);
  expect(agent.shown().log.overdue).toBe(0);
  expect(agent.shown().gauges?.inFlight).toBe(0);
});
