import fc from 'fast-check';
import { expect, it } from 'vitest';
import { events } from '../../../src/collectors/events/events.ts';
import { createReplay, type Replay, type ReplayRange, type ReplayStep } from '../../../src/collectors/events/replay.ts';
import { runs } from '../../support/runs.ts';
import { expectCounts } from './expect-truth.ts';
import { counted, createLog, type FakeLog, HOUR, MINUTE, SECOND } from './fake-log.ts';
import { eventsOf, life } from './lives.ts';

const OPTIONS = { overlap: '5s', window: '1s' };
const WHOLE = ['created', 'active', 'delivered'];
const { signal } = new AbortController();

const replayOf = ({ api }: FakeLog, range: ReplayRange) =>
  createReplay(api, events.options.parse(OPTIONS), {}, range, signal);

async function stepsOf({ steps }: Replay): Promise<ReplayStep[]> {
  const all: ReplayStep[] = [];
  for await (const step of steps) all.push(step);
  return all;
}

it('a replay returns the counts of every minute for any order of pages', { timeout: 60_000 }, async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.record({
        page: fc.integer({ min: 1, max: 40 }),
        order: fc.constantFrom('up' as const, 'down' as const, 'mixed' as const),
        seam: fc.boolean(),
      }),
      fc.array(fc.tuple(fc.nat(600_000), life), { maxLength: 20 }),
      async (shape, lives) => {
        const log = createLog(shape);
        const from = log.clock.now;
        const all = lives.flatMap(([start, life], number) => eventsOf(`msg_${number}`, from + 1 + start, life));
        log.log.push(...all.map(event => ({ ...event, listedAt: event.time })));
        log.clock.now += 2 * HOUR;
        const steps = await stepsOf(replayOf(log, { from, to: from + 20 * MINUTE + SECOND }));
        expect(steps.map(({ at }) => at)).toEqual([
          ...Array.from({ length: 21 }, (_, minute) => from + minute * MINUTE),
          from + 20 * MINUTE + SECOND,
        ]);
        for (const { at, facts } of steps) {
          expectCounts(
            facts,
            all.filter(({ time }) => time <= at),
            at,
          );
        }
      },
    ),
    { numRuns: runs(30) },
  );
});

it('a replay of a day needs fewer than 100 requests for 60,000 events, instead of one per minute', async () => {
  const log = createLog();
  const from = log.clock.now;
  for (let index = 0; index < 20_000; index += 1) log.add(`msg_${index}`, WHOLE, from + 1 + index * 4000);
  log.clock.now += 24 * HOUR;
  const replay = replayOf(log, { from, to: from + 24 * HOUR });
  let [steps, last] = [0, 0];
  for await (const { facts } of replay.steps) {
    steps += 1;
    last = counted(facts);
  }
  expect(last).toBe(60_000);
  expect(steps).toBe(24 * 60 + 1);
  expect(replay.found).toMatchObject({ events: 60_000, oldest: from + 1 });
  // 60 pages are full, and each range ends with a partial one.
  expect(log.service.requests).toBeLessThan(100);
});

it('a replay finds the start of a short log instead of reading the empty past', async () => {
  const log = createLog({ page: 100 });
  const [from, begin] = [log.clock.now, log.clock.now + 160 * HOUR + 7 * MINUTE + SECOND];
  for (let index = 0; index < 1000; index += 1) log.add(`msg_${index}`, WHOLE, begin + index * 2000);
  log.clock.now += 168 * HOUR;
  const replay = replayOf(log, { from, to: from + 168 * HOUR });
  const steps = await stepsOf(replay);
  const counts = steps.map(({ facts }) => counted(facts));
  expect(counts).toHaveLength(168 * 60 + 1);
  expect(counts.findIndex(count => count > 0)).toBe(160 * 60 + 8);
  expect(counts.at(-1)).toBe(3000);
  expect(replay.found).toMatchObject({ events: 3000, oldest: begin });
  // 30 pages are full. Without the search, the read would take 159 requests.
  expect(log.service.requests).toBeLessThan(100);
});
