import { describe, expect, it } from 'vitest';
import { createSlot } from '../../src/scheduler/board.ts';
import { createRunner, type Observer } from '../../src/scheduler/runner.ts';
import { createMemoryStore } from '../../src/store/memory.ts';
import type { Store } from '../../src/store/store.ts';
import { createManualClock } from '../support/manual-clock.ts';
import { createTestLog, createTestTracer } from '../support/silent.ts';

type Step = Awaited<ReturnType<Observer['observe']>>;

const STALENESS = { markAfter: 3, withdrawAfter: 20, withdrawAtMost: 1_800_000 };

class Refusal extends Error {
  readonly reason = 'rate_limited';
}

async function setUp(observe: Observer['observe'], store: Store = createMemoryStore()) {
  const clock = createManualClock();
  const log = createTestLog();
  const tracer = createTestTracer();
  const slot = createSlot({ account: 'a', collector: 'x' }, { list: 1000 }, STALENESS, clock);
  const observer: Observer = {
    name: 'x',
    restore: rows => [...rows].map(([key, value]) => `${key}=${value}`).join(),
    observe,
  };
  const run = await createRunner({ observer, slot, store, clock, log, tracer });
  const round = () => slot.status().rounds[0];
  return {
    clock,
    log,
    tracer,
    slot,
    store,
    round,
    run: (signal = new AbortController().signal) => run('list', signal),
  };
}

const done = (facts: unknown, more: Partial<Step> = {}): Step => ({
  facts,
  memory: undefined,
  changes: [],
  more: undefined,
  ...more,
});

describe('runner', () => {
  it('commits before it shows: while a commit is under way the old facts stand', async () => {
    const inner = createMemoryStore();
    const seen: unknown[] = [];
    const store: Store = {
      ...inner,
      async commit(account, changes) {
        seen.push(['committing', set.slot.visible(), changes]);
        await inner.commit(account, changes);
      },
    };
    const set = await setUp(async () => done('new', { changes: [{ key: 'n', value: '1' }] }), store);
    await set.run();
    expect(seen).toEqual([['committing', undefined, [{ key: 'x/n', value: '1' }]]]);
    expect(set.slot.visible()).toBe('new');
    expect(await inner.scan('a', 'x/')).toEqual(new Map([['x/n', '1']]));
  });

  it('shows nothing of a round that could not be committed, and says it is the store', async () => {
    const store: Store = { ...createMemoryStore(), commit: async () => Promise.reject(new Error('disk full')) };
    const memories: unknown[] = [];
    const { run, slot, round } = await setUp(async ({ memory }) => {
      memories.push(memory);
      return done('new', { memory: 'advanced', changes: [{ key: 'n', value: '1' }] });
    }, store);
    await run();
    await run();
    expect(slot.visible()).toBeUndefined();
    expect(round()).toMatchObject({
      success: false,
      complete: true,
      consecutiveFailures: 2,
      failure: { reason: 'store' },
    });
    expect(memories).toEqual(['', '']);
  });

  it('hands memory on, from the store at the start, and through every step of a round', async () => {
    const store = createMemoryStore();
    await store.commit('a', [
      { key: 'x/kept', value: '7' },
      { key: 'y/other', value: '8' },
    ]);
    const steps: unknown[] = [];
    const { run, slot, clock } = await setUp(async ({ memory, walk, now }) => {
      steps.push([memory, walk, now]);
      const count = Number(walk ?? 0) + 1;
      return count < 3
        ? { facts: undefined, memory: `m${count}`, changes: [], more: count }
        : done('facts', { memory: 'end' });
    }, store);
    const begun = clock.now();
    await run();
    await clock.advance(10);
    await run();
    expect(steps.slice(0, 4)).toEqual([
      ['kept=7', undefined, begun],
      ['m1', 1, begun],
      ['m2', 2, begun],
      ['end', undefined, begun + 10],
    ]);
    expect(slot.visible()).toBe('facts');
  });

  it('keeps the last good facts when a round fails, drops the unfinished walk, and logs the first failure once', async () => {
    const results: (() => Step)[] = [
      () => done('good'),
      () => ({ facts: undefined, memory: undefined, changes: [], more: 'half' }),
      () => {
        throw new Refusal('slow down');
      },
      () => {
        throw new Refusal('slow down');
      },
      () => done('better'),
    ];
    const walks: unknown[] = [];
    const { run, slot, clock, round, log, tracer } = await setUp(async ({ walk }) => {
      walks.push(walk);
      return (results.shift() as () => Step)();
    });
    await run();
    await clock.advance(500);
    await run();
    expect(slot.visible()).toBe('good');
    expect(round()).toMatchObject({
      success: false,
      complete: false,
      consecutiveFailures: 1,
      dataAt: clock.now() - 500,
      failure: { reason: 'rate_limited', message: 'slow down' },
    });
    await run();
    expect(round()?.consecutiveFailures).toBe(2);
    await run();
    expect(walks).toEqual([undefined, undefined, 'half', undefined, undefined]);
    expect(slot.visible()).toBe('better');
    expect(round()).toMatchObject({ success: true, consecutiveFailures: 0, failure: undefined });
    expect(log.lines.filter(({ level }) => level !== 'debug').map(({ level, message }) => [level, message])).toEqual([
      ['warn', 'collecting failed'],
      ['info', 'collecting works again'],
    ]);
    expect(tracer.spans).toEqual(Array(4).fill('collect x'));
  });

  it('calls an error without a reason a bug, with its stack', async () => {
    const { run, round, log } = await setUp(
      async () => (undefined as unknown as { missing: { field: Step } }).missing.field,
    );
    await run();
    expect(round()?.failure?.reason).toBe('bug');
    expect(log.lines[0]).toMatchObject({
      level: 'error',
      fields: { stack: expect.stringContaining('runner.test.ts') },
    });
  });

  it('counts nothing when it is stopped', async () => {
    const stop = new AbortController();
    const { run, round, log } = await setUp(async () => {
      stop.abort(new Error('stopping'));
      stop.signal.throwIfAborted();
      return done('never');
    });
    await run(stop.signal);
    expect(round()).toMatchObject({ success: undefined, consecutiveFailures: 0 });
    expect(log.lines).toEqual([]);
  });
});
