import fc from 'fast-check';
import { expect, it } from 'vitest';
import { runs } from '../../support/runs.ts';
import { expectTruth } from './expect-truth.ts';
import { counted, createAgent, createLog, type FakeLog, MINUTE, SECOND } from './fake-log.ts';

const OVERLAP = MINUTE;
const WHOLE = ['created', 'active', 'delivered'];

type Agent = ReturnType<typeof createAgent>;

/** Creates an agent that has read the log once. */
async function createStarted(service: FakeLog, options: object = {}): Promise<Agent> {
  const agent = createAgent(service, options);
  await agent.round('tail');
  return agent;
}

/** Returns a pseudo-random number below `most` that is constant for each event. */
const drawn = (index: number, most: number) => (Math.imul(index + 1, 2_654_435_761) >>> 0) % most;

/** Publishes a message every `apart` ms during a period. `lateOf` returns the delay (ms) of an event by its index. */
function publish(service: FakeLog, from: number, to: number, apart: number, lateOf: (index: number) => number): void {
  let index = service.log.length;
  for (let time = from; time < to; time += apart) {
    for (const [step, state] of WHOLE.entries()) {
      const at = Math.floor(time) + step * SECOND + drawn(index, 900);
      service.log.push({ messageId: `msg_${Math.floor(time)}`, state, time: at, listedAt: at + lateOf(index) });
      index += 1;
    }
  }
}

/** Returns the number of rows that a round reading the entire overlap would list. */
function rowsOfOverlap({ log, clock }: FakeLog, newest: number): number {
  return log.filter(({ time, listedAt }) => listedAt <= clock.now && time >= newest - OVERLAP).length;
}

const newestOf = ({ log, clock }: FakeLog) =>
  log.reduce((newest, { time, listedAt }) => (listedAt <= clock.now ? Math.max(newest, time) : newest), 0);

const phase = fc.record({
  most: fc.constantFrom(0, 900, 4 * SECOND, 25 * SECOND, OVERLAP),
  share: fc.constantFrom(1, 10, 100),
});

it('counts events that the log lists late (within events.overlap) once and in order, with few additional reads', {
  timeout: 120_000,
}, async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.record({
        page: fc.constantFrom(7, 40, 1000),
        order: fc.constantFrom('up' as const, 'down' as const, 'mixed' as const),
        seam: fc.boolean(),
        tick: fc.constantFrom(0, 3),
      }),
      fc.integer({ min: 400, max: 4000 }),
      fc.array(phase, { minLength: 2, maxLength: 6 }),
      fc.array(fc.record({ wait: fc.integer({ min: 2 * SECOND, max: 22 * SECOND }), fate: fc.nat(40) }), {
        minLength: 5,
        maxLength: 30,
      }),
      async (shape, apart, phases, rounds) => {
        const service = createLog(shape);
        const { clock, log, service: asks } = service;
        const agent = await createStarted(service, { window: '1m' });
        const start = clock.now;
        const length = 2 * MINUTE;
        for (const [number, { most, share }] of phases.entries()) {
          const from = start + 1 + number * length;
          publish(service, from, from + length, apart, index =>
            drawn(index, 100) < share ? drawn(index + 1, most + 1) : 0,
          );
        }
        let before = 0;
        const seams = shape.seam ? shape.page / (shape.page - 1) : 1;
        asks.rows = 0;
        let whole = 0;
        let newest = start;
        for (let round = 0; clock.now < start + phases.length * length + OVERLAP + 4 * SECOND; round += 1) {
          const { wait, fate } = rounds[round % rounds.length] as (typeof rounds)[number];
          clock.now += wait;
          whole += rowsOfOverlap(service, newest);
          newest = newestOf(service);
          await agent.round('tail', fate < 3 ? fate : undefined);
          expect(counted(agent.shown())).toBeGreaterThanOrEqual(before);
          before = counted(agent.shown());
        }
        if (rounds.every(({ fate }) => fate >= 3)) expect(asks.rows).toBeLessThanOrEqual(1.1 * seams * whole);
        // A read of the entire overlap finds the remaining events; the next read finds none.
        await agent.run(1, MINUTE);
        clock.now += 11 * MINUTE;
        await agent.round('tail');
        expect(agent.shown().log.late).toBe(0);
        expectTruth(agent.shown(), log, clock.now);
      },
    ),
    { numRuns: runs(15) },
  );
});

it('counts each event once for any delay up to lateSweep and any order of rounds', {
  timeout: 120_000,
}, async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(
        fc.record({ most: fc.constantFrom(0, 9 * SECOND, OVERLAP, 5 * MINUTE), share: fc.constantFrom(3, 30) }),
        {
          minLength: 2,
          maxLength: 4,
        },
      ),
      fc.array(fc.record({ wait: fc.integer({ min: SECOND, max: 30 * SECOND }), fate: fc.nat(12) }), {
        minLength: 5,
        maxLength: 30,
      }),
      async (phases, rounds) => {
        const service = createLog({ page: 100 });
        const { clock, log } = service;
        const agent = await createStarted(service, { window: '1m', lateSweep: '5m' });
        const start = clock.now;
        const length = 2 * MINUTE;
        for (const [number, { most, share }] of phases.entries()) {
          const from = start + 1 + number * length;
          const lateOf = (index: number) => (drawn(index, 100) < share ? drawn(index + 1, most + 1) : 0);
          publish(service, from, from + length, 900, lateOf);
        }
        for (let round = 0; clock.now < start + phases.length * length + 6 * MINUTE; round += 1) {
          const { wait, fate } = rounds[round % rounds.length] as (typeof rounds)[number];
          clock.now += wait;
          await agent.round('tail', fate < 2 ? fate : undefined);
          if (fate > 8) await agent.round('sweep', fate === 9 ? 1 : undefined);
          expect(counted(agent.shown())).toBeLessThanOrEqual(log.length);
        }
        // The agent recognizes the previous events as old only after later events are listed.
        service.add('msg_last', ['created'], clock.now);
        for (let minute = 0; minute < 12; minute += 1) {
          await agent.run(1, MINUTE);
          await agent.round('sweep');
        }
        expect(counted(agent.shown())).toBe(log.length);
        expect(agent.shown().destinations.values().next().value?.finished.delivered).toBe((log.length - 1) / 3);
      },
    ),
    { numRuns: runs(15) },
  );
});

/** Reads the log every 15 s up to a time. Returns the numbers of rows and requests. */
async function watch({ clock, service }: FakeLog, agent: Agent, until: number) {
  const [rows, requests] = [service.rows, service.requests];
  while (clock.now < until) await agent.run(1);
  return { rows: service.rows - rows, requests: service.requests - requests };
}

it('reads each row of a busy log less than three times on average, with one additional request per minute', async () => {
  const service = createLog();
  const { clock, log } = service;
  publish(service, clock.now + 1, clock.now + 30 * MINUTE, SECOND, () => 0);
  const agent = await createStarted(service);
  const { rows, requests } = await watch(service, agent, clock.now + 30 * MINUTE);
  expect(counted(agent.shown())).toBeGreaterThan(log.length - 10);
  expect(rows).toBeLessThan(2.8 * log.length);
  expect(requests).toBeLessThanOrEqual(30 * 5);
});

it.each([-1, 1])(
  'keeps counts exact when the agent’s clock is set back (-1) or forward (1) by an hour and later corrected: %d',
  async direction => {
    const service = createLog();
    const { clock, log } = service;
    publish(service, clock.now + 1, clock.now + 40 * MINUTE, SECOND, index => drawn(index, 30 * SECOND));
    const agent = await createStarted(service);
    for (const skew of [0, direction * 60 * MINUTE, 0]) {
      agent.skew = skew;
      await watch(service, agent, clock.now + 10 * MINUTE);
    }
    await watch(service, agent, clock.now + 12 * MINUTE);
    expect(counted(agent.shown())).toBe(log.length);
    expect(agent.shown().gauges?.inFlight).toBe(0);
    expect(agent.shown().log).toMatchObject({ gaps: 0 });
  },
);

it('keeps counts exact after an hour of silence and twenty minutes without reads', async () => {
  const service = createLog({ page: 50 });
  const { clock, log } = service;
  const start = clock.now;
  const late = (index: number) => drawn(index, 20 * SECOND);
  publish(service, start + 1, start + 10 * MINUTE, SECOND, late);
  publish(service, start + 70 * MINUTE, start + 110 * MINUTE, SECOND, late);
  const agent = await createStarted(service);
  await watch(service, agent, start + 80 * MINUTE);
  clock.now = start + 100 * MINUTE;
  await watch(service, agent, start + 112 * MINUTE);
  await agent.run(3, 4 * MINUTE);
  expect(counted(agent.shown())).toBe(log.length);
  expect(agent.shown().log).toMatchObject({ late: 0, gaps: 0, overdue: 0 });
  expectTruth(agent.shown(), log, clock.now);
});

it('counts no message as overdue if its end may be in a skipped part of the log', async () => {
  for (let offset = 0; offset < MINUTE; offset += 10 * SECOND) {
    const service = createLog();
    const { clock, log } = service;
    const start = clock.now;
    const gap = start + 6 * MINUTE + offset;
    publish(service, start + 1, gap, 2 * SECOND, () => 0);
    publish(service, gap + 55 * SECOND, start + 20 * MINUTE, 2 * SECOND, () => 0);
    log.push({ messageId: 'msg_late', state: 'created', time: gap - 270 * SECOND, listedAt: gap - 270 * SECOND });
    const end = gap + 20 * SECOND;
    log.push({ messageId: 'msg_late', state: 'delivered', time: end, listedAt: end + 595 * SECOND });
    const agent = await createStarted(service, { overlap: '10m', lateSweep: '30m', window: '1m' });
    await watch(service, agent, start + 20 * MINUTE);
    expect([offset, agent.shown().log.overdue]).toEqual([offset, 0]);
  }
});
