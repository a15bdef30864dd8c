import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { runs } from '../../support/runs.ts';
import { createAgent, createLog, type FakeLog, HOUR, MINUTE, SECOND } from './fake-log.ts';

const OVERLAP = 60 * SECOND;

const createCounting = async () => {
  const service = createLog();
  const agent = createAgent(service);
  await agent.round('tail');
  const redelivered = () => [...agent.shown().destinations.values()].reduce((sum, each) => sum + each.redelivered, 0);
  return { ...service, agent, redelivered };
};

type Counting = Awaited<ReturnType<typeof createCounting>>;

/** Lets the sweep read everything that has been listed so far. */
async function settle({ agent, add, clock }: Pick<Counting, 'agent' | 'add' | 'clock'>): Promise<void> {
  for (const wait of [2 * MINUTE, 45 * MINUTE, 2 * MINUTE]) {
    add(`msg_later_${clock.now}`, ['created'], clock.now);
    clock.now += wait;
    await agent.round('tail');
    await agent.round('sweep');
  }
}

describe('an attempt that begins while the previous one has no result', () => {
  it('a redelivery is counted once, after the time for delayed results, even across restarts', async () => {
    const counting = await createCounting();
    const { agent, clock, add, redelivered } = counting;
    add('msg_twice', ['created', 'active', 'active', 'delivered'], clock.now + SECOND);
    await agent.run(10);
    expect(redelivered(), 'before the sweep').toBe(0);
    expect(agent.rowsOf('redelivery')).toHaveLength(1);
    agent.kill();
    await settle(counting);
    expect(redelivered()).toBe(1);
    expect(agent.rowsOf('redelivery')).toEqual([]);
    agent.kill();
    await settle(counting);
    expect(redelivered()).toBe(1);
  });

  it.each([
    ['in the order of the log', 0],
    ['two minutes late', 2 * MINUTE],
    ['25 minutes late', 25 * MINUTE],
  ])('no redelivery is counted if the result of the previous attempt is listed %s', async (_when, late) => {
    const counting = await createCounting();
    const { agent, clock, add, log, redelivered } = counting;
    const start = clock.now + SECOND;
    add('msg_retried', ['created', 'active'], start);
    log.push({ messageId: 'msg_retried', state: 'error', time: start + SECOND, listedAt: start + SECOND + late });
    add('msg_retried', ['active', 'delivered'], start + 20 * SECOND);
    await agent.run(20);
    agent.kill();
    await settle(counting);
    expect(redelivered()).toBe(0);
  });

  it('no redelivery is counted if the sweep has already read the late result of the previous attempt', async () => {
    const counting = await createCounting();
    const { agent, clock, add, log, redelivered } = counting;
    const start = clock.now + SECOND;
    add('msg_retried', ['created', 'active'], start);
    log.push({ messageId: 'msg_retried', state: 'error', time: start + SECOND, listedAt: start + 10 * MINUTE });
    await agent.run(1);
    await settle(counting);
    agent.kill();
    add('msg_retried', ['active', 'delivered'], clock.now + SECOND);
    await settle(counting);
    expect(redelivered()).toBe(0);
  });

  it.each(['error', 'retry'])('no redelivery is counted after %s, even in the same millisecond', async state => {
    const counting = await createCounting();
    const { clock, add, redelivered } = counting;
    add('msg_1', ['created', 'active', state, 'active', 'delivered'], clock.now + SECOND, { wait: 10 });
    add('msg_2', ['created', 'active'], clock.now + SECOND, { wait: 10 });
    add('msg_2', [state, 'active', 'delivered'], clock.now + SECOND + 20, { wait: 0 });
    await settle(counting);
    expect(redelivered()).toBe(0);
  });

  it('no redelivery is counted for an attempt if its start is listed more than `overlap` late', async () => {
    const counting = await createCounting();
    const { agent, clock, add, redelivered } = counting;
    const start = clock.now + SECOND;
    add('msg_late', ['active'], start + 10, { late: 2 * MINUTE });
    add('msg_late', ['created'], start);
    add('msg_late', ['error', 'retry', 'active', 'delivered'], start + 20, { wait: 20 });
    add('msg_other', ['created'], start);
    await agent.run(20);
    await settle(counting);
    expect(redelivered()).toBe(0);
  });

  it('no redelivery is counted if a gap in the log may hide the result of the previous attempt', async () => {
    const counting = await createCounting();
    const { agent, clock, add, service, redelivered } = counting;
    add('msg_before', ['created', 'active'], clock.now + SECOND);
    await agent.run(10);
    service.keeps = HOUR;
    clock.now += 4 * HOUR;
    add('msg_before', ['active', 'delivered'], clock.now - MINUTE);
    await agent.run(10);
    expect(agent.shown().log.gaps).toBe(1);
    service.keeps = Number.POSITIVE_INFINITY;
    await settle(counting);
    expect(redelivered()).toBe(0);
  });
});

describe('an attempt after the end of the message', () => {
  it.each([
    [1, 1],
    [OVERLAP, 1],
    [OVERLAP + 1, 0],
  ])('%d ms later: %d are counted, wherever the reads end', async (after, expected) => {
    for (const every of [5 * SECOND, 20 * SECOND, 10 * MINUTE]) {
      const counting = await createCounting();
      const { agent, clock, add, redelivered } = counting;
      add('msg_1', ['created', 'active', 'delivered'], clock.now + SECOND);
      add('msg_1', ['active', 'delivered'], clock.now + SECOND + 20 + after);
      for (let minutes = 0; minutes < 12; minutes += 1)
        add(`msg_${minutes}`, ['created'], clock.now + minutes * MINUTE);
      for (let passed = 0; passed < 10 * MINUTE; passed += every) {
        await agent.run(1, every);
        agent.kill();
      }
      await settle(counting);
      expect(redelivered(), `read every ${every} ms`).toBe(expected);
    }
  });
});

it('an attempt after the end of its message is counted even if one read lists both events and the agent then restarts', async () => {
  // The read settles the end, and may leave the attempt pending.
  for (let newest = OVERLAP - 30; newest <= OVERLAP + 60; newest += 1) {
    const counting = await createCounting();
    const { agent, clock, add, redelivered } = counting;
    const start = clock.now + SECOND;
    add('msg_1', ['created', 'active', 'delivered', 'active'], start);
    add('msg_2', ['created'], start + newest);
    await agent.run(1, 2 * MINUTE);
    agent.kill();
    await settle(counting);
    expect(redelivered(), `newest event ${newest} ms after the start`).toBe(1);
  }
});

/** Adds a message with attempts, and returns the number of redeliveries by the definition in docs/collectors.md. */
function addMessage(
  { log }: Pick<FakeLog, 'log'>,
  messageId: string,
  start: number,
  [attempts, lateness, end, after]: Life,
): number {
  const push = (state: string, time: number, late = 0) => log.push({ messageId, state, time, listedAt: time + late });
  push('created', start);
  let time = start;
  for (const [index, { wait, result, takes }] of attempts.entries()) {
    // Two starts in the same millisecond would be one event.
    time += Math.max(wait, attempts[index - 1]?.result === 'none' || index === 0 ? 1 : 0);
    push('active', time);
    if (result === 'none') continue;
    time += takes;
    push(result, time, lateness[index % lateness.length]);
    time += 1;
  }
  const own = log.filter(event => event.messageId === messageId);
  const starts = own.filter(({ state }) => state === 'active').map(event => event.time);
  const isAnswered = (from: number, to: number) =>
    own.some(({ state, time }) => (state === 'error' || state === 'retry') && time >= from && time <= to);
  const repeated = starts.filter((start, index) => index > 0 && !isAnswered(starts[index - 1] as number, start));
  if (!end) return repeated.length;
  time += 1;
  const isFollowed = starts.length > 0;
  push('delivered', time);
  if (isFollowed && after > 0) push('active', time + after);
  return repeated.length + Number(isFollowed && after > 0 && after <= OVERLAP);
}

const attempt = fc.record({
  wait: fc.oneof(fc.constantFrom(0, 1), fc.nat(60 * SECOND), fc.nat(40 * MINUTE)),
  takes: fc.oneof(fc.constantFrom(0, 1), fc.nat(30 * SECOND)),
  result: fc.constantFrom('none', 'error', 'retry'),
});
const life = fc.tuple(
  fc.array(attempt, { maxLength: 4 }),
  fc.array(fc.oneof(fc.constant(0), fc.nat(OVERLAP / 2), fc.nat(20 * MINUTE)), { minLength: 1, maxLength: 4 }),
  fc.boolean(),
  fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 3 * OVERLAP })),
);
type Life = typeof life extends fc.Arbitrary<infer L> ? L : never;

it('redeliveries are counted exactly despite late results, arbitrary reads and kills', {
  timeout: 120_000,
}, async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.tuple(fc.nat(10 * MINUTE), life), { maxLength: 8 }),
      fc.array(fc.tuple(fc.integer({ min: SECOND, max: 5 * MINUTE }), fc.option(fc.nat(3), { freq: 3 })), {
        minLength: 3,
        maxLength: 30,
      }),
      async (lives, rounds) => {
        const counting = await createCounting();
        const { agent, clock, log, add, redelivered } = counting;
        const floor = clock.now;
        let expected = 0;
        for (const [index, [start, life]] of lives.entries()) {
          expected += addMessage({ log }, `msg_${index}`, floor + 1 + start, life);
        }
        let before = 0;
        for (const [wait, killAfter] of rounds) {
          add(`msg_at_${clock.now}`, ['created'], clock.now);
          clock.now += wait;
          await agent.round('tail', killAfter ?? undefined);
          await agent.round('sweep', killAfter ?? undefined);
          expect(redelivered()).toBeGreaterThanOrEqual(before);
          before = redelivered();
        }
        clock.now = Math.max(clock.now, ...log.map(({ listedAt }) => listedAt)) + 1;
        await settle(counting);
        await settle(counting);
        expect(redelivered()).toBe(expected);
        agent.kill();
        await settle(counting);
        expect(redelivered()).toBe(expected);
      },
    ),
    { numRuns: runs(150) },
  );
});
