import fc from 'fast-check';
import { expect, it } from 'vitest';
import { type EventsFacts, type EventsServices, events } from '../../../src/collectors/events/events.ts';
import { createReplay, type Replay, type ReplayRange, type ReplayStep } from '../../../src/collectors/events/replay.ts';
import { truthOf } from '../../support/event-truth.ts';
import { runs } from '../../support/runs.ts';
import { expectTruth } from './expect-truth.ts';
import { counted, createAgent, createLog, type FakeLog, HOUR, MINUTE, SECOND } from './fake-log.ts';
import { eventsOf, life } from './lives.ts';

const OVERLAP = 5000;
const OPTIONS = { overlap: `${OVERLAP}ms`, window: '1s' };
const WHOLE = ['created', 'active', 'delivered'];
const { signal } = new AbortController();

const replayOf = ({ api }: FakeLog, range: ReplayRange, chosen: object = OPTIONS, services: EventsServices = {}) =>
  createReplay(api, events.options.parse(chosen), services, range, signal);

async function stepsOf({ steps }: Replay): Promise<ReplayStep[]> {
  const all: ReplayStep[] = [];
  for await (const step of steps) all.push(step);
  return all;
}

/** Every number that must never fall. */
/** Native buckets are of other sizes from one time to another. */
function rising(facts: EventsFacts): number[] {
  const { gauges: _gauges, schedules: _schedules, log, destinations } = facts;
  const numbers: number[] = [];
  JSON.stringify([log, [...destinations]], (key, value: unknown) => {
    if (key === 'native') return undefined;
    if (typeof value === 'number') numbers.push(value);
    return value;
  });
  return numbers;
}

const mark = (time: number) => Math.ceil(time / MINUTE) * MINUTE;

it('tells at every step what had happened until then, whatever the order of pages', { timeout: 60_000 }, async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.record({
        page: fc.integer({ min: 1, max: 40 }),
        order: fc.constantFrom('up' as const, 'down' as const, 'mixed' as const),
        seam: fc.boolean(),
      }),
      fc.array(fc.tuple(fc.nat(600_000), life), { maxLength: 20 }),
      fc.constantFrom(20 * SECOND, MINUTE, 7 * MINUTE),
      async (shape, lives, step) => {
        const log = createLog(shape);
        const from = log.clock.now;
        const all = lives.flatMap(([start, life], number) => eventsOf(`msg_${number}`, from + 1 + start, life));
        log.log.push(...all.map(event => ({ ...event, listedAt: event.time })));
        log.clock.now += 2 * HOUR;
        const steps = await stepsOf(replayOf(log, { from, to: from + 20 * MINUTE, step }));
        expect(steps.map(({ at }) => at)).toEqual(
          Array.from({ length: Math.floor((20 * MINUTE) / step) + 1 }, (_, n) => from + n * step),
        );
        for (const { at, facts } of steps) {
          expectTruth(
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

it('joins what an agent showed before it was killed and after it caught up: nothing falls, all is counted once', {
  timeout: 60_000,
}, async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 40 }),
      fc.array(fc.tuple(fc.nat(1_800_000), life), { minLength: 1, maxLength: 40 }),
      fc.array(fc.nat(OVERLAP - 1), { minLength: 1, maxLength: 30 }),
      fc.array(fc.tuple(fc.integer({ min: 100, max: 120_000 }), fc.option(fc.nat(4), { freq: 3 })), {
        minLength: 1,
        maxLength: 15,
      }),
      fc.integer({ min: 2 * MINUTE, max: HOUR / 2 }),
      async (page, lives, lateness, rounds, away) => {
        const log = createLog({ page });
        const { clock } = log;
        const agent = createAgent(log, { ...OPTIONS, lateSweep: '1h' });
        await agent.round('tail');
        const floor = clock.now;
        const all = lives.flatMap(([start, life], number) => eventsOf(`msg_${number}`, floor + 1 + start, life));
        for (const [index, event] of all.entries()) {
          log.log.push({ ...event, listedAt: event.time + (lateness[index % lateness.length] as number) });
        }
        for (const [wait, killAfter] of rounds) {
          clock.now += wait;
          await agent.round('tail', killAfter ?? undefined);
        }
        agent.kill();
        const before = rising(agent.shown());
        const rows = new Map(agent.rows);
        const from = mark(clock.now + 1);
        clock.now += away;
        await agent.round('tail');
        const after = { facts: agent.shown(), at: clock.now };
        const watermark = agent.watermark();
        clock.now += HOUR;
        let last = before;
        for (const { at, facts } of await stepsOf(replayOf(log, { from, to: Math.max(from, after.at), rows }))) {
          const shown = rising(facts);
          expect(shown.filter((value, index) => !(value >= (last[index] ?? 0)))).toEqual([]);
          last = shown;
          if (at <= watermark) {
            // What is overdue in a quiet log is found up to five minutes later than what is listed in it.
            const { log } = after.facts;
            const end = rising({ ...after.facts, log: { ...log, overdue: Number.MAX_VALUE } });
            expect(shown.filter((value, index) => !(value <= (end[index] as number)))).toEqual([]);
          }
          const until = all.filter(({ time }) => time <= at);
          expect(facts.log.overdue).toBe(truthOf(until, at).overdue);
          expectTruth(facts, until, at);
        }
      },
    ),
    { numRuns: runs(60) },
  );
});

it('needs as few requests as a backlog needs, not one a minute', async () => {
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
  expect(replay.found).toMatchObject({ events: 60_000, oldest: from + 1, missing: 0 });
  // 60 pages are full; each range ends in one that is not.
  expect(log.service.requests).toBeLessThan(100);
});

it('says how many of the events that were counted before the log no longer lists', async () => {
  const log = createLog();
  const agent = createAgent(log, OPTIONS);
  await agent.round('tail');
  log.add('msg_1', WHOLE, log.clock.now + SECOND);
  await agent.run(1, 3 * SECOND);
  const rows = new Map(agent.rows);
  const from = log.clock.now;
  log.clock.now += HOUR;
  const kept = replayOf(log, { from, to: from + MINUTE, rows });
  await stepsOf(kept);
  expect(kept.found.missing).toBe(0);
  const [first] = log.log;
  log.service.keeps = log.clock.now - (first?.time ?? 0) - 1;
  const partly = replayOf(log, { from, to: from + MINUTE, rows });
  await stepsOf(partly);
  expect(partly.found.missing).toBe(1);
  log.service.keeps = HOUR;
  const gone = replayOf(log, { from, to: from + MINUTE, rows });
  const steps = await stepsOf(gone);
  expect(gone.found.missing).toBe(3);
  // What was counted is still followed: it was read before.
  expect(steps.at(-1)?.facts.destinations.get('')?.finished.delivered).toBe(1);
});

it('looks for where a short log begins, and does not read a long past minute by minute', async () => {
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
  // 30 pages are full. Without a begin it takes 159.
  expect(log.service.requests).toBeLessThan(100);
});

it('does not read what is left of a log that has surely forgotten what was known', async () => {
  const log = createLog();
  const agent = createAgent(log, OPTIONS);
  await agent.round('tail');
  log.add('msg_1', WHOLE, log.clock.now + SECOND);
  await agent.run(1, 3 * SECOND);
  const rows = new Map(agent.rows);
  const from = log.clock.now;
  for (let index = 0; index < 10_000; index += 1) log.add(`msg_${index}`, WHOLE, from + 10 * HOUR + index * 1000);
  log.clock.now = from + 20 * HOUR;
  log.service.keeps = 15 * HOUR;
  log.service.requests = 0;
  const replay = replayOf(log, { from, to: log.clock.now, rows });
  expect(await stepsOf(replay)).toEqual([]);
  expect(replay.found.missing).toBe(3);
  const { begin = 0 } = replay.found;
  expect(begin).toBeGreaterThan(from + 9 * HOUR);
  expect(begin).toBeLessThanOrEqual(from + 10 * HOUR);
  expect(log.service.requests).toBeLessThan(10);
});
