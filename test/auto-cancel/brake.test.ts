// Import this first: evaluate.ts must be mocked before another import loads it.
import '../support/auto-cancel-scene.ts';
import { describe, expect, it } from 'vitest';
import { BRAKE, createBrake, pauseAutoCancel, resumeAutoCancel } from '../../src/auto-cancel/brake.ts';
import { openJournal, readJournal } from '../../src/auto-cancel/journal.ts';
import { StoreError } from '../../src/store/errors.ts';
import { createMemoryStore } from '../../src/store/memory.ts';
import type { Store } from '../../src/store/store.ts';
import { rule } from '../support/auto-cancel-options.ts';
import { createManualClock } from '../support/manual-clock.ts';
import { operatorClock } from '../support/operators.ts';
import { createTestLog } from '../support/silent.ts';
import { warmScene } from './warm-scene.ts';

const ANN = { by: 'ann', reason: 'incident' };
const BOB = { by: 'bob', reason: 'over' };

function setUp(store: Store = createMemoryStore()) {
  const clock = createManualClock();
  const log = createTestLog();
  const { signal } = new AbortController();
  const brakeOf = () => createBrake(store, clock, log);
  const waited: number[] = [];
  const deps = { clock: operatorClock(clock), signal, waiting: (count: number) => void waited.push(count) };
  return {
    store,
    clock,
    log,
    brakeOf,
    waited,
    pause: (order = ANN, more: Partial<typeof deps> = {}) => pauseAutoCancel(store, order, { ...deps, ...more }),
    resume: (order = BOB) => resumeAutoCancel(store, order, clock),
    row: async () => JSON.parse((await store.scan('', BRAKE)).get(BRAKE) ?? 'null'),
  };
}

describe('brake', () => {
  it('the first start creates the brake as running, and later starts do not overwrite a pause', async () => {
    const { brakeOf, pause, row } = setUp();
    const first = brakeOf();
    expect([first.isKnown, first.guard().value]).toEqual([false, '']);
    await first.synchronize([]);
    expect([first.isKnown, first.pause, await row()]).toEqual([
      true,
      undefined,
      {
        state: 'running',
        id: expect.any(String),
        at: expect.any(Number),
        by: 'delivery-watch',
        reason: expect.any(String),
      },
    ]);
    await pause();
    const second = brakeOf();
    await second.synchronize([]);
    expect([second.pause, (await row()).state]).toEqual([expect.objectContaining(ANN), 'paused']);
  });

  it('the first start creates the brake as paused if a journal already ends with a pause', async () => {
    const { store, brakeOf } = setUp();
    const journal = await openJournal(store, 'a');
    await journal.append([{ at: 1, step: 'paused', ...ANN }]);
    const brake = brakeOf();
    await brake.synchronize([await openJournal(store, 'b'), journal]);
    expect(brake.pause).toMatchObject({ at: 1, ...ANN });
  });

  it.each([
    ['is missing', null],
    ['is not JSON', 'garbage'],
    ['has an unknown state', JSON.stringify({ state: 'slow', id: crypto.randomUUID(), at: 1, ...ANN })],
    ['has no UUID', JSON.stringify({ state: 'running', id: 'x', at: 1, ...ANN })],
    ['has an unknown field', JSON.stringify({ state: 'running', id: crypto.randomUUID(), at: 1, ...ANN, until: 2 })],
  ])('the brake counts as paused if its row %s, until auto-cancel is resumed', async (_what, value) => {
    const { store, brakeOf, resume } = setUp();
    const brake = brakeOf();
    await brake.synchronize([]);
    await store.commit('', [{ key: BRAKE, value }]);
    await brake.synchronize([]);
    expect([brake.pause?.by, brake.guard().value]).toEqual(['unknown', '']);
    expect(await resume()).toMatchObject({ by: 'unknown' });
    await brake.read();
    expect([brake.pause, brake.guard().value]).toEqual([undefined, (await store.scan('', BRAKE)).get(BRAKE)]);
  });

  it('the state of the brake is unknown while the store cannot be read', async () => {
    const store = createMemoryStore();
    const { brakeOf } = setUp(store);
    const brake = brakeOf();
    await brake.synchronize([]);
    const { scan } = store;
    Object.assign(store, { scan: () => Promise.reject(new StoreError('away', 'the store')) });
    await brake.read();
    expect(brake.isKnown).toBe(false);
    Object.assign(store, { scan });
    await brake.read();
    expect([brake.isKnown, brake.pause]).toEqual([true, undefined]);
  });
});

describe('concurrent reads of the brake', () => {
  /** `begin` starts a read that waits until `end` or `fail` is called. */
  async function setUpReads() {
    const store = createMemoryStore();
    const { brakeOf, pause } = setUp(store);
    const brake = brakeOf();
    await brake.synchronize([]);
    const { scan } = store;
    async function begin() {
      const begun = Promise.withResolvers<void>();
      const wait = Promise.withResolvers<void>();
      async function slowScan(...what: Parameters<typeof scan>) {
        const rows = await scan(...what);
        begun.resolve();
        await wait.promise;
        return rows;
      }
      Object.assign(store, { scan: slowScan });
      const read = brake.read();
      await begun.promise;
      Object.assign(store, { scan });
      return {
        end() {
          wait.resolve();
          return read;
        },
        fail() {
          wait.reject(new StoreError('slow', 'the store'));
          return read;
        },
      };
    }
    return { brake, begin, pause };
  }

  it('the previous state of the brake applies until a read in flight ends', async () => {
    const { brake, begin } = await setUpReads();
    const read = await begin();
    expect(brake.isKnown).toBe(true);
    await read.fail();
    expect(brake.isKnown).toBe(false);
  });

  it.each(['end', 'fail'] as const)('a read of the brake starts after the reads before it %s', async how => {
    const { brake, begin, pause } = await setUpReads();
    const stale = await begin();
    await pause();
    const newest = brake.read();
    await stale[how]();
    await newest;
    expect([brake.pause, brake.isKnown]).toEqual([expect.objectContaining(ANN), true]);
  });
});

describe('pause and resume commands', () => {
  it('pause and resume return the previous pause; a resume without a pause changes nothing', async () => {
    const { brakeOf, pause, resume, row, store } = setUp();
    await brakeOf().synchronize([]);
    expect([await resume(), (await row()).by]).toEqual([undefined, 'delivery-watch']);
    expect(await pause()).toBeUndefined();
    expect(await pause(BOB)).toMatchObject(ANN);
    expect(await resume()).toMatchObject(BOB);
    expect((await store.scan('', 'auto-cancel-stops/')).size).toBe(3);
  });

  it('pause and resume work with an empty store', async () => {
    const { pause, resume, row } = setUp();
    expect([await pause(), (await row()).state]).toEqual([undefined, 'paused']);
    expect(await resume()).toMatchObject(ANN);
  });

  it.each([
    ['already paused', true],
    ['no row yet', false],
  ])('a resume fails if another operator pauses concurrently (%s)', async (_what, exists) => {
    const store = createMemoryStore();
    const { pause, row } = setUp(store);
    if (exists) await pause();
    const racing = {
      ...store,
      async scan(account: string, prefix: string) {
        const found = await store.scan(account, prefix);
        await pause({ by: 'carl', reason: 'another' });
        return found;
      },
    };
    await expect(resumeAutoCancel(racing, BOB, createManualClock())).rejects.toMatchObject({
      reason: 'guard_failed',
    });
    expect(await row()).toMatchObject({ state: 'paused', by: 'carl' });
  });

  it.each([
    { by: ' ', reason: 'x' },
    { by: 'x', reason: '\n' },
  ])('pause and resume reject a blank operator or reason: %j', async order => {
    const { pause, resume, store } = setUp();
    await expect(pause(order)).rejects.toThrow(RangeError);
    await expect(resume(order)).rejects.toThrow(RangeError);
    expect((await store.scan('', '')).size).toBe(0);
  });
});

describe('pauses with requests in flight', () => {
  const sending = (sendBy: unknown) => [{ key: 'auto-cancel/sending', value: JSON.stringify({ sendBy }) }];

  it('a pause does not wait for a request a day after its deadline', async () => {
    const { store, pause, waited, clock } = setUp();
    await store.commit('a', sending(clock.now() - 24 * 3_600_000));
    await pause();
    expect(waited).toEqual([]);
  });

  it('a pause waits the full 30 s for a request in flight even if the operator’s clock is an hour ahead', async () => {
    const { store, pause, waited, clock } = setUp();
    await store.commit('a', sending(clock.now() + 30_000));
    const ahead = operatorClock({ now: () => clock.now() + 3_600_000 });
    await pause(ANN, { clock: ahead });
    expect([waited, ahead.monotonic()]).toEqual([[1], 30_000]);
  });

  it('a pause waits until the last request in flight has received its response', async () => {
    const { store, pause, waited, clock } = setUp();
    await store.commit('a', sending(clock.now() + 30_000));
    await store.commit('b', sending(clock.now() + 30_000));
    const left = ['a', 'b'];
    const own = operatorClock(clock, async () => {
      const account = left.shift();
      if (account) await store.commit(account, [{ key: 'auto-cancel/sending', value: null }]);
    });
    await pause(ANN, { clock: own });
    expect([waited, own.monotonic()]).toEqual([[2], 200]);
  });

  it.each(['{"sendBy":9e15}', 'garbage'])(
    'a pause waits 30 s if the row of the request in flight is damaged: %s',
    async value => {
      const { store, pause, waited, clock } = setUp();
      await store.commit('a', [{ key: 'auto-cancel/sending', value }]);
      const own = operatorClock(clock);
      await pause(ANN, { clock: own });
      expect([waited, own.monotonic()]).toEqual([[1], 30_000]);
    },
  );

  it('a pause waits 30 s if the store cannot be read after the pause was stored', async () => {
    const store = createMemoryStore();
    const { pause, row, clock } = setUp(store);
    Object.assign(store, { valuesOf: () => Promise.reject(new StoreError('away', 'the store')) });
    const own = operatorClock(clock);
    await pause(ANN, { clock: own });
    expect([own.monotonic(), (await row()).state]).toEqual([30_000, 'paused']);
  });

  it('aborting a pause while it waits does not revert it', async () => {
    const { store, pause, row, clock } = setUp();
    await store.commit('a', sending(clock.now() + 30_000));
    const controller = new AbortController();
    const paused = pause(ANN, { clock: createManualClock(), signal: controller.signal });
    controller.abort(new Error('interrupted'));
    await expect(paused).rejects.toThrow('interrupted');
    expect((await row()).state).toBe('paused');
  });
});

describe('pauses while auto-cancel acts', () => {
  it('a pause prevents every later intent even if the agent has not read the pause yet', async () => {
    const scene = await warmScene({ rules: [rule('jobs')] });
    scene.events.set('m-a', scene.clock.now() - 3 * 3_600_000);
    let looks = 0;
    // The agent last read the brake before this pause.
    scene.onEvents = async () => {
      looks += 1;
      if (looks === 2) await scene.store.commit('', [{ key: BRAKE, value: 'paused by another process' }]);
    };
    expect(await scene.walk('a:asks_events')).toBe('left a paused');
    expect([scene.sent, (await scene.lines()).filter(({ step }) => step === 'intent')]).toEqual([[], []]);
  });

  it('a request is recorded as in flight from before it is sent until its response is stored', async () => {
    const scene = await warmScene({ rules: [rule('jobs')] });
    const inFlight = async () => (await scene.store.valuesOf('auto-cancel/sending')).size;
    const seen: number[] = [];
    scene.onTurn = async () => void seen.push(await inFlight());
    await scene.walk('a');
    expect([seen, await inFlight(), scene.sent]).toEqual([[1], 0, ['a']]);
  });
});

describe('audit lines for pauses and resumes', () => {
  const steps = async (store: Store, account: string) =>
    (await readJournal(store, account)).flatMap(line => ('reason' in line ? [`${line.step} ${line.reason}`] : []));

  it('audit lines of pauses and resumes are appended to every journal exactly once, even if no agent was running', async () => {
    const { store, clock, brakeOf, pause, resume } = setUp();
    for (const [n, order] of [ANN, BOB].entries()) {
      await pause({ ...order, reason: `p${n}` });
      await clock.advance(1);
      await resume({ ...order, reason: `r${n}` });
      await clock.advance(1);
    }
    const expected = ['paused p0', 'resumed r0', 'paused p1', 'resumed r1'];
    const journals = await Promise.all(['a', 'b'].map(name => openJournal(store, name)));
    const brake = brakeOf();
    await brake.synchronize(journals);
    await brake.synchronize(journals);
    const later = await openJournal(store, 'c');
    await brake.synchronize([...journals, later]);
    const [again] = await Promise.all(['a'].map(name => openJournal(store, name)));
    await brakeOf().synchronize(again ? [again] : []);
    for (const name of ['a', 'b', 'c']) expect(await steps(store, name)).toEqual(expected);
    const [line] = await readJournal(store, 'a');
    expect(line).toMatchObject({ by: 'ann', order: expect.stringMatching(/^[0-9a-f-]{36}$/) });
  });

  it('a journal that cannot be written delays only its own audit lines', async () => {
    const store = createMemoryStore();
    const { brakeOf, pause } = setUp(store);
    const journals = await Promise.all(['a', 'b'].map(name => openJournal(store, name)));
    const brake = brakeOf();
    await brake.synchronize(journals);
    await pause();
    const { commit } = store;
    Object.assign(store, {
      commit: (...what: Parameters<typeof commit>) =>
        what[0] === 'a' ? Promise.reject(new StoreError('full', 'the store')) : commit(...what),
    });
    await expect(brake.synchronize(journals)).rejects.toMatchObject({ reason: 'full' });
    expect([brake.pause?.by, await steps(store, 'b')]).toEqual(['ann', ['paused incident']]);
    Object.assign(store, { commit });
    await brake.synchronize(journals);
    expect([await steps(store, 'a'), await steps(store, 'b')]).toEqual([['paused incident'], ['paused incident']]);
  });

  it('audit lines of pauses are appended exactly once even if a commit failed after writing them', async () => {
    const store = createMemoryStore();
    const { brakeOf, pause } = setUp(store);
    const journal = await openJournal(store, 'a');
    const brake = brakeOf();
    await brake.synchronize([journal]);
    await pause();
    const { commit } = store;
    Object.assign(store, {
      async commit(...what: Parameters<typeof commit>) {
        await commit(...what);
        throw new StoreError('slow', 'the store');
      },
    });
    await expect(brake.synchronize([journal])).rejects.toMatchObject({ reason: 'slow' });
    Object.assign(store, { commit });
    await brake.synchronize([journal]);
    expect(await steps(store, 'a')).toEqual(['paused incident']);
  });

  it('audit lines are never dated later than the agent’s clock', async () => {
    const { store, clock, brakeOf } = setUp();
    const ahead = { now: () => clock.now() + 86_400_000 };
    await resumeAutoCancel(store, BOB, ahead);
    const journal = await openJournal(store, 'a');
    await brakeOf().synchronize([journal]);
    expect(journal.state.lastAt).toBe(clock.now());
  });
});
