import fc from 'fast-check';
import { expect, it } from 'vitest';
import { expectTruth } from './expect-truth.ts';
import { counted, createAgent, createLog, type FakeLog, MINUTE, SECOND } from './fake-log.ts';

const OVERLAP = MINUTE;
const WHOLE = ['created', 'active', 'delivered'];

type Agent = ReturnType<typeof createAgent>;

/** An agent that has seen nothing late for hours. */
async function createLearned(service: FakeLog, options: object = {}): Promise<Agent> {
  const agent = createAgent(service, options);
  await agent.round('tail');
  const checkpoint = JSON.parse(agent.rows.get('checkpoint') ?? '');
  const lateness = { since: service.clock.now, now: 0, before: 0 };
  agent.rows.set('checkpoint', JSON.stringify({ ...checkpoint, lateness }));
  agent.kill();
  await agent.round('tail');
  return agent;
}

/** A number below `most` that an event has for itself. */
const drawn = (index: number, most: number) => ((index * 7919 + 104_729) % 997) % most;

/** Messages that are created so often, for so long, and how late the event of each number is. */
function publish(service: FakeLog, from: number, to: number, apart: number, lateOf: (index: number) => number): void {
  let index = service.log.length;
  for (let time = from; time < to; time += apart) {
    for (const [step, state] of WHOLE.entries()) {
      const at = Math.floor(time) + step * (300 + drawn(index, 700));
      service.log.push({ messageId: `msg_${Math.floor(time)}`, state, time: at, listedAt: at + lateOf(index) });
      index += 1;
    }
  }
}

/** What a round would read that always goes back by the whole overlap. */
function rowsOfOverlap({ log, clock }: FakeLog, newest: number): number {
  return log.filter(({ time, listedAt }) => listedAt <= clock.now && time >= newest - OVERLAP).length;
}

const newestOf = ({ log, clock }: FakeLog) =>
  log.reduce((newest, { time, listedAt }) => (listedAt <= clock.now ? Math.max(newest, time) : newest), 0);

const phase = fc.record({
  most: fc.constantFrom(0, 900, 4 * SECOND, 25 * SECOND, OVERLAP),
  share: fc.constantFrom(1, 10, 100),
});

it('counts each event once and follows each life in order, however late within the overlap, and reads no more than before', {
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
        const agent = await createLearned(service, { window: '1m' });
        const start = clock.now;
        const length = 2 * MINUTE;
        for (const [number, { most, share }] of phases.entries()) {
          const from = start + 1 + number * length;
          publish(service, from, from + length, apart, index =>
            drawn(index, 100) < share ? drawn(index + 1, most + 1) : 0,
          );
        }
        let before = 0;
        asks.rows = 0;
        let whole = 0;
        let newest = start;
        for (let round = 0; clock.now < start + phases.length * length + OVERLAP; round += 1) {
          const { wait, fate } = rounds[round % rounds.length] as (typeof rounds)[number];
          clock.now += wait;
          whole += rowsOfOverlap(service, newest);
          newest = newestOf(service);
          await agent.round('tail', fate < 3 ? fate : undefined);
          expect(counted(agent.shown())).toBeGreaterThanOrEqual(before);
          before = counted(agent.shown());
        }
        if (rounds.every(({ fate }) => fate >= 3)) expect(asks.rows).toBeLessThanOrEqual(whole);
        clock.now += 11 * MINUTE;
        await agent.round('tail');
        expect(agent.shown().log.late).toBe(0);
        expectTruth(agent.shown(), log, clock.now);
      },
    ),
    { numRuns: 60 },
  );
});
