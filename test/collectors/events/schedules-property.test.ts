import fc from 'fast-check';
import { expect, it } from 'vitest';
import { schedulesOptions } from '../../../src/collectors/events/schedule-options.ts';
import { runs } from '../../support/runs.ts';
import { createAgent, createLog, HOUR, MINUTE, SECOND } from './fake-log.ts';

const EVERY = 10 * MINUTE;
const OVERLAP = 30 * SECOND;
/** Period of all expected and actual starts (ms). All messages have ended half an hour later. */
const BUSY = 2 * HOUR;
const JUDGED = BUSY + 29 * MINUTE;

/** Maximum time by which a message may be created before its expected start (ms). */
const EARLY = 2 * SECOND;

interface Life {
  readonly created: number;
  /** Delivery time; undefined if the message fails. */
  readonly delivered: number | undefined;
  readonly late: number;
  readonly isOther: boolean;
}

/** Reference implementation: evaluates each expectation separately with complete knowledge. */
function truthOf(lives: readonly Life[], grace: number, endsWithin: number) {
  const counts = { missed: 0, late: 0 };
  for (let at = EVERY; at + grace <= JUDGED; at += EVERY) {
    const its = lives.filter(({ created, isOther }) => !isOther && created >= at - EARLY && created <= at + grace);
    const first = Math.min(...its.map(({ created }) => created));
    if (its.length === 0) counts.missed += 1;
    else if (!its.some(({ delivered }) => delivered !== undefined && delivered <= first + endsWithin)) counts.late += 1;
  }
  return counts;
}

const life: fc.Arbitrary<Life> = fc
  .record({
    expected: fc.integer({ min: 1, max: BUSY / EVERY - 1 }),
    after: fc.oneof(
      fc.constantFrom(-EARLY - 1, -EARLY, -20, 0, MINUTE, 3 * MINUTE),
      fc.integer({ min: -3 * SECOND, max: 9 * MINUTE }),
    ),
    takes: fc.option(fc.oneof(fc.constant(5 * MINUTE), fc.integer({ min: 1, max: 12 * MINUTE })), { nil: undefined }),
    late: fc.nat(OVERLAP - SECOND),
    isOther: fc.boolean(),
  })
  .map(({ expected, after, takes, late, isOther }) => {
    const created = expected * EVERY + after;
    return { created, delivered: takes === undefined ? undefined : created + takes, late, isOther };
  });

it('counts missed and late starts like the reference, for any sequence of reads', async () => {
  const property = fc.asyncProperty(
    fc.array(life, { maxLength: 15 }),
    fc.constantFrom(MINUTE, 3 * MINUTE, 4 * MINUTE),
    fc.constantFrom(MINUTE, 5 * MINUTE, 8 * MINUTE),
    fc.array(fc.record({ wait: fc.integer({ min: SECOND, max: 25 * MINUTE }), killAfter: fc.option(fc.nat(2)) }), {
      maxLength: 20,
    }),
    fc.constantFrom('up', 'down', 'mixed'),
    async (lives, grace, endsWithin, reads, order) => {
      const service = createLog({ page: 3, order });
      const { clock } = service;
      const start = Date.parse('2026-06-01T00:00:00Z');
      clock.now = start;
      // An event that is always listed proves that the log is complete.
      service.add('before', ['created', 'delivered'], start - MINUTE);
      for (const [index, { created, delivered, late, isOther }] of lives.entries()) {
        const of = { schedule: isOther ? 'other' : 'scd', late };
        service.add(`m${index}`, ['created'], start + created, of);
        const [state, end] = delivered === undefined ? ['failed', created + 1] : ['delivered', delivered];
        service.add(`m${index}`, [state], start + end, { ...of, late: (late * 7) % OVERLAP });
      }
      const [schedule] = schedulesOptions.parse([
        { name: 's', match: { scheduleId: 'scd' }, cron: '*/10 * * * *', grace: '1m', endsWithin: '1m' },
      ]);
      const agent = createAgent(service);
      const options = { overlap: `${OVERLAP}ms` };
      agent.reconfigure(options, { schedules: [{ ...schedule, grace, endsWithin } as never] });
      await agent.round('tail');
      for (const { wait, killAfter } of reads) {
        clock.now = Math.min(clock.now + wait, start + JUDGED);
        await agent.round('tail', killAfter ?? undefined);
      }
      while (clock.now < start + JUDGED) {
        clock.now = Math.min(clock.now + 2 * MINUTE, start + JUDGED);
        await agent.round('tail');
      }
      // Events found by the first read are evaluated an overlap later.
      await agent.run(2, OVERLAP);
      const { missed, late } = agent.shown().schedules.get('s') ?? {};
      expect({ missed, late }).toEqual(truthOf(lives, grace, endsWithin));
    },
  );
  await fc.assert(property, { numRuns: runs(60) });
});
