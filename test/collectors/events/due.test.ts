import fc from 'fast-check';
import { expect, it } from 'vitest';
import { truthOf } from '../../support/event-truth.ts';
import { runs } from '../../support/runs.ts';
import { createAgent, createLog, HOUR, MINUTE, SECOND } from './fake-log.ts';
import { eventsOf, life } from './lives.ts';

const OVERLAP = 5 * SECOND;
const LATE_SWEEP = 20 * MINUTE;
const OPTIONS = { overlap: `${OVERLAP}ms`, lateSweep: `${LATE_SWEEP}ms` };

/** Deliveries and failures may be listed after their message has become overdue. */
const isEnd = (state: string) => state === 'delivered' || state === 'failed';

it('counts each message once as due, and as on time if delivered in time, despite delayed ends, kills and any order', {
  timeout: 120_000,
}, async () => {
  const round = fc.tuple(
    fc.nat(3 * MINUTE),
    fc.constantFrom('tail', 'tail', 'sweep'),
    fc.option(fc.nat(3), { freq: 3 }),
  );
  await fc.assert(
    fc.asyncProperty(
      fc.record({ page: fc.integer({ min: 1, max: 40 }), order: fc.constantFrom('up', 'down', 'mixed') }),
      fc.array(fc.tuple(fc.nat(10 * MINUTE), life, fc.nat(OVERLAP), fc.nat(LATE_SWEEP)), { maxLength: 30 }),
      fc.array(round, { minLength: 5, maxLength: 30 }),
      async (shape, lives, rounds) => {
        const service = createLog(shape);
        const { log, clock } = service;
        const agent = createAgent(service, OPTIONS);
        await agent.round('tail');
        const all = lives.map(([start, one], number) => eventsOf(`msg_${number}`, clock.now + 1 + start, one));
        for (const [index, events] of all.entries()) {
          const [, , late, veryLate] = lives[index] as (typeof lives)[number];
          log.push(...events.map(each => ({ ...each, listedAt: each.time + (isEnd(each.state) ? veryLate : late) })));
        }
        const counts = () => [agent.shown().log.due, agent.shown().log.onTime] as const;
        let before = counts();
        const look = () => {
          const [due, onTime] = counts();
          const truth = truthOf(all.flat(), clock.now);
          expect(due).toBeLessThanOrEqual(truth.due);
          expect(onTime).toBeLessThanOrEqual(Math.min(due, truth.onTime));
          expect([due >= before[0], onTime >= before[1]]).toEqual([true, true]);
          before = [due, onTime];
        };
        for (const [wait, name, killAfter] of rounds) {
          clock.now += wait;
          await agent.round(name, killAfter ?? undefined);
          look();
        }
        clock.now = Math.max(clock.now, ...log.map(({ listedAt }) => listedAt)) + 2 * HOUR;
        for (const name of ['tail', 'sweep', 'tail']) {
          await agent.round(name);
          clock.now += HOUR;
        }
        const truth = truthOf(all.flat(), clock.now);
        expect(counts()).toEqual([truth.due, truth.onTime]);
        agent.kill();
        expect(counts()).toEqual([truth.due, truth.onTime]);
      },
    ),
    { numRuns: runs(300) },
  );
});

it('finds the end of a message even if the log lists the end late and no newer events arrive', async () => {
  const service = createLog();
  const { clock } = service;
  const agent = createAgent(service, OPTIONS);
  await agent.round('tail');
  const start = clock.now + SECOND;
  service.add('msg_late', ['created'], start);
  service.log.push({ messageId: 'msg_late', state: 'delivered', time: start + SECOND, listedAt: start + HOUR });
  service.add('msg_last', ['created', 'delivered'], start + SECOND + OVERLAP);
  clock.now += MINUTE;
  await agent.round('tail');
  clock.now += 2 * HOUR;
  for (const round of ['tail', 'sweep']) await agent.round(round);
  expect(agent.shown().log).toMatchObject({ due: 2, onTime: 2 });
});

it('counts a message as due when it ends or misses its target, but not if it is cancelled before then', async () => {
  const service = createLog();
  const { clock } = service;
  const agent = createAgent(service);
  agent.reconfigure({}, { onTimeWithin: MINUTE });
  await agent.round('tail');
  const counts = async (state: string, wait: number) => {
    const { due, onTime } = agent.shown().log;
    service.add(`msg_${state}_${wait}`, ['created', state], clock.now + SECOND, { wait });
    await agent.run(40);
    const { log } = agent.shown();
    return [log.due - due, log.onTime - onTime];
  };
  expect(await counts('delivered', MINUTE)).toEqual([1, 1]);
  expect(await counts('delivered', MINUTE + 1)).toEqual([1, 0]);
  expect(await counts('failed', MINUTE)).toEqual([1, 0]);
  expect(await counts('failed', 2 * MINUTE)).toEqual([1, 0]);
  expect(await counts('cancelled', MINUTE)).toEqual([0, 0]);
  expect(await counts('cancelled', 2 * MINUTE)).toEqual([1, 0]);
  expect(await counts('created', HOUR)).toEqual([1, 0]);
});

it('counters of due messages start at 0 with a store of an earlier version, and other counters keep their values', async () => {
  const service = createLog();
  const agent = createAgent(service);
  await agent.round('tail');
  service.add('msg_late', ['created'], service.clock.now + SECOND);
  await agent.run(60);
  const { due, onTime, ...earlier } = JSON.parse(agent.rows.get('log') ?? '{}');
  expect([due, onTime, earlier.overdue]).toEqual([1, 0, 1]);
  agent.rows.set('log', JSON.stringify(earlier));
  agent.kill();
  expect(agent.shown().log).toMatchObject({ ...earlier, due: 0, onTime: 0 });
  service.add('msg_fast', ['created', 'delivered'], service.clock.now + SECOND);
  await agent.run(20);
  expect(agent.shown().log).toMatchObject({ overdue: 1, due: 1, onTime: 1 });
});

it('shows the peak lag of recent events, even after a restart, but no lag before the first event', async () => {
  const service = createLog();
  const { clock } = service;
  const agent = createAgent(service);
  const lag = () => agent.shown().gauges?.lag;
  await agent.round('tail');
  expect(lag()).toBeUndefined();
  const addEach = async (times: number, late: number) => {
    for (let time = 0; time < times; time += 1) {
      service.add(`msg_${clock.now}`, ['created'], clock.now + 5 * SECOND, { late });
      await agent.run(1);
    }
  };
  await addEach(8, 0);
  expect(lag()).toBe(0);
  await addEach(8, 40 * SECOND);
  // The reads are 15 s apart, and two of them follow the event before it is listed.
  expect(lag()).toBe(25 * SECOND);
  agent.kill();
  await agent.run(1);
  expect(lag()).toBe(25 * SECOND);
  await agent.run(400);
  expect(lag(), 'a log without new events').toBe(25 * SECOND);
  await addEach(120, 0);
  expect(lag()).toBe(0);
});
