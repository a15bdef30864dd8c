import fc from 'fast-check';
import { expect, it } from 'vitest';
import { truthOf } from '../../support/event-truth.ts';
import { runs } from '../../support/runs.ts';
import {
  answersOf,
  counted,
  createAgent,
  createLog,
  finished,
  HOUR,
  type LoggedEvent,
  MINUTE,
  SECOND,
} from './fake-log.ts';

const OVERLAP = 5 * SECOND;
const LATE_SWEEP = 10 * MINUTE;
const OPTIONS = { overlap: '5s', lateSweep: '10m' };

const shape = fc.record({
  page: fc.integer({ min: 1, max: 40 }),
  order: fc.constantFrom('up' as const, 'down' as const, 'mixed' as const),
  seam: fc.boolean(),
  tick: fc.constantFrom(0, 3, 200),
});

const lateness = fc.oneof(
  { weight: 3, arbitrary: fc.nat(OVERLAP) },
  { weight: 1, arbitrary: fc.nat(LATE_SWEEP) },
  { weight: 1, arbitrary: fc.constantFrom(OVERLAP, OVERLAP + 1, LATE_SWEEP) },
);

const life = fc.record({
  start: fc.nat(15 * MINUTE),
  waits: fc.array(fc.tuple(fc.nat(MINUTE), lateness, fc.nat(5)), { minLength: 1, maxLength: 3 }),
});

const act = fc.record({
  wait: fc.nat(90 * SECOND),
  round: fc.constantFrom('tail', 'tail', 'tail', 'sweep'),
  steps: fc.integer({ min: 1, max: 5 }),
  fate: fc.constantFrom('go on', 'go on', 'go on', 'lose a step', 'kill', 'go at once'),
});

it('counts events delayed by up to lateSweep exactly once, in any order of tail and sweep rounds and despite kills', async () => {
  await fc.assert(
    fc.asyncProperty(
      shape,
      fc.array(life, { maxLength: 40 }),
      fc.array(act, { minLength: 5, maxLength: 60 }),
      async (shape, lives, acts) => {
        const service = createLog(shape);
        const { clock, log } = service;
        const agent = createAgent(service, OPTIONS);
        await agent.round('tail');
        const all: LoggedEvent[] = lives.flatMap(({ start, waits }, number) => {
          let time = clock.now + 1 + start;
          return waits.map(([wait, late, twice], index) => {
            time += wait;
            const state = ['created', 'active', 'delivered'][index] as string;
            const status = [undefined, 0, 200, 500][(number + index) % 4];
            return { messageId: `msg_${number}`, state, time, status, listedAt: time + late, twice: twice === 0 };
          });
        });
        log.push(...all);
        let before = 0;
        const look = () => {
          const total = counted(agent.shown());
          expect(total).toBeGreaterThanOrEqual(before);
          expect(total).toBeLessThanOrEqual(all.length);
          before = total;
        };
        for (const { wait, round, steps, fate } of acts) {
          clock.now += wait;
          if (fate === 'go at once') {
            const fold = await agent.begin(round === 'tail' ? 'sweep' : 'tail');
            await agent.step(round);
            fold();
          } else if (fate === 'lose a step') await agent.round(round, steps - 1);
          else for (let step = 0; step < steps && !(await agent.step(round)); step += 1);
          if (fate === 'kill') agent.kill();
          look();
        }
        clock.now = Math.max(clock.now, ...all.map(({ listedAt }) => listedAt));
        // Complete the running rounds first.
        for (const round of ['tail', 'sweep', 'tail']) await agent.round(round);
        // The agent recognizes the previous events as old only after later events are listed.
        clock.now += HOUR;
        service.add('msg_last', ['retry'], clock.now - 1);
        await agent.round('tail');
        clock.now += LATE_SWEEP;
        await agent.round('tail');
        await agent.round('sweep');
        const truth = truthOf([...all, { messageId: 'msg_last', state: 'retry', time: 0 }], 0);
        const [tally] = agent.shown().destinations.values();
        const some = Object.fromEntries(Object.entries(tally?.events ?? {}).filter(([, count]) => count > 0));
        expect(some).toEqual(truth.events);
        expect(tally?.finished).toEqual(truth.finished);
        expect(answersOf(agent.shown())).toEqual(truth.answers);
      },
    ),
    { numRuns: runs(250) },
  );
});

it('counts delayed events and closes a message even if its end is listed late', async () => {
  const service = createLog();
  const { clock } = service;
  const agent = createAgent(service);
  await agent.round('tail');
  const start = clock.now;
  service.add('msg_1', ['created', 'active'], start + 1);
  service.add('msg_1', ['delivered'], start + 50, { late: 20 * MINUTE });
  for (let minute = 0; minute < 60; minute += 1) {
    service.add(`msg_other_${minute}`, ['retry'], clock.now + SECOND);
    await agent.run(4);
    if (minute === 10) expect(agent.shown().gauges?.inFlight).toBe(1);
    if (minute % 5 === 0) await agent.round('sweep');
  }
  expect(agent.shown()).toMatchObject({ gauges: { inFlight: 0 }, log: { late: 1, overdue: 1, gaps: 0 } });
  expect(counted(agent.shown())).toBe(63);
  expect(finished(agent.shown())).toBe(1);
});

it('sweeps read each complete minute that is older than lateSweep exactly once', async () => {
  const service = createLog();
  const { clock, service: asks } = service;
  const agent = createAgent(service, OPTIONS);
  await agent.round('tail');
  let sweptTo = clock.now;
  for (let minute = 0; minute < 90; minute += 1) {
    service.add(`msg_${minute}`, ['created', 'delivered'], clock.now + SECOND);
    await agent.run(2, 30 * SECOND);
    asks.asked.length = 0;
    if (minute % 7 === 0) await agent.round('sweep');
    if (minute % 20 === 3) agent.kill();
    for (const { from, to } of asks.asked) {
      expect(from).toBe(sweptTo + 1);
      expect((to + 1) % MINUTE).toBe(0);
      expect(to).toBeLessThanOrEqual(clock.now - LATE_SWEEP);
      sweptTo = to;
    }
  }
  expect(sweptTo).toBeGreaterThan(clock.now - LATE_SWEEP - 10 * MINUTE);
});

it('a sweep reads fewer minutes per range if they contain many events', async () => {
  const service = createLog({ page: 10_000, order: 'up' });
  const { clock, log, service: asks } = service;
  const agent = createAgent(service, OPTIONS);
  await agent.round('tail');
  const start = clock.now;
  const end = start + 6 * MINUTE;
  const many = 180_000;
  for (let number = 0; number < many; number += 1) {
    const time = start + 1 + Math.floor((number * 6 * MINUTE) / many);
    log.push({ messageId: `msg_${number}`, state: 'retry', time, listedAt: time });
  }
  await agent.run(6, MINUTE);
  clock.now = end + LATE_SWEEP + 2 * MINUTE;
  service.add('msg_last', ['retry'], clock.now - 1);
  service.add('msg_late', ['retry'], start + MINUTE, { late: LATE_SWEEP });
  await agent.run(1);
  asks.asked.length = 0;
  await agent.round('sweep');
  expect(counted(agent.shown())).toBe(many + 2);
  expect(asks.asked.length).toBeGreaterThan(2);
  for (const { from, to } of asks.asked) {
    expect(log.filter(({ time }) => time >= from && time <= to).length).toBeLessThan(90_000);
  }
});

it('a sweep does not change gauges', async () => {
  const service = createLog({ page: 1, order: 'up' });
  const { clock } = service;
  const agent = createAgent(service);
  await agent.round('sweep');
  expect(agent.shown().gauges).toBeUndefined();
  await agent.round('tail');
  const start = clock.now;
  for (let number = 0; number < 100; number += 1) {
    service.add(`msg_${number}`, ['created', 'delivered'], start + number * MINUTE, { wait: 59 * SECOND });
  }
  clock.now += 2 * HOUR;
  const before = agent.shown().gauges;
  for (let isLast = false; !isLast; ) {
    await agent.step('sweep');
    expect(agent.shown().gauges).toEqual(before);
    isLast = await agent.step('tail');
  }
  expect(agent.shown().gauges?.inFlight).toBe(0);
});
