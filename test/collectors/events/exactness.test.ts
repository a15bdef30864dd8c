import fc from 'fast-check';
import { expect, it } from 'vitest';
import { truthOf } from '../../support/event-truth.ts';
import { runs } from '../../support/runs.ts';
import { expectTruth } from './expect-truth.ts';
import { counted, createAgent, createLog } from './fake-log.ts';
import { eventsOf, life } from './lives.ts';

const OVERLAP = 5000;
/** Time after which all open messages are overdue and their ends can no longer be delayed in the log (ms). */
const ALL_LATE = 11 * 60_000;

it('counts each event once and tracks each message lifecycle despite delays, duplicates, page boundaries and kills', {
  timeout: 120_000,
}, async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.record({
        page: fc.integer({ min: 1, max: 40 }),
        order: fc.constantFrom('up' as const, 'down' as const, 'mixed' as const),
        seam: fc.boolean(),
        tick: fc.constantFrom(0, 3),
      }),
      fc.array(fc.tuple(fc.nat(600_000), life), { maxLength: 40 }),
      fc.array(fc.tuple(fc.nat(OVERLAP), fc.nat(9)), { minLength: 1, maxLength: 30 }),
      fc.array(fc.tuple(fc.integer({ min: 100, max: 120_000 }), fc.option(fc.nat(4), { freq: 3 })), {
        minLength: 3,
        maxLength: 25,
      }),
      async (shape, lives, lateness, rounds) => {
        const service = createLog(shape);
        const { log, clock } = service;
        const agent = createAgent(service, { overlap: `${OVERLAP}ms`, lateSweep: '1h' });
        await agent.round('tail');
        const floor = clock.now;
        const all = lives.flatMap(([start, life], number) => eventsOf(`msg_${number}`, floor + 1 + start, life));
        for (const [index, event] of all.entries()) {
          const [late, twice] = lateness[index % lateness.length] as [number, number];
          log.push({ ...event, listedAt: event.time + late, twice: twice === 0 });
        }
        let before = 0;
        for (const [wait, killAfter] of rounds) {
          clock.now += wait;
          await agent.round('tail', killAfter ?? undefined);
          const total = counted(agent.shown());
          expect(total).toBeGreaterThanOrEqual(before);
          before = total;
          expect(agent.shown().log.overdue).toBeLessThanOrEqual(truthOf(all, clock.now).overdue);
        }
        const last = Math.max(clock.now, ...all.map(({ time }) => time)) + OVERLAP;
        clock.now = last + 1;
        // The first read returns the remaining events; the next one returns none.
        await agent.round('tail');
        clock.now += ALL_LATE;
        await agent.round('tail');
        expectTruth(agent.shown(), all, clock.now);
        agent.kill();
        clock.now += 1000;
        await agent.round('tail');
        expectTruth(agent.shown(), all, clock.now);
      },
    ),
    { numRuns: runs(400) },
  );
});
