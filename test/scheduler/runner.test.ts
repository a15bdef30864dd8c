import { describe, expect, it } from 'vitest';
import { StoreError } from '../../src/store/errors.ts';
import { createMemoryStore } from '../../src/store/memory.ts';
import type { Store } from '../../src/store/store.ts';
import { done, Refusal, type Step, setUp, step } from './runner-scene.ts';

describe('runner', () => {
  it('a runner shows the facts of a round with unreadable rows, and reports the round as incomplete until the next complete one', async () => {
    const partial = { ...step('walk', {}), isPartial: true };
    const steps = [done('first'), partial, done('partial'), new Refusal('no'), done('whole')];
    const set = await setUp(async () => {
      const next = steps.shift() as Step | Refusal;
      if (next instanceof Error) throw next;
      return next;
    });
    const seen: unknown[] = [];
    for (let round = 0; round < 4; round += 1) {
      await set.run();
      const { success, complete, partial } = set.round() ?? {};
      seen.push([set.slot.visible().now, success, complete, partial]);
    }
    expect(seen).toEqual([
      ['first', true, true, false],
      ['partial', true, false, true],
      // The facts of the previous round are still shown.
      ['partial', false, false, true],
      ['whole', true, true, false],
    ]);
  });

  it('a runner publishes counters only after the commit; the old values stay visible during the commit', async () => {
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
    const duringCommit = { now: 'new', committed: undefined };
    expect(seen).toEqual([['committing', duringCommit, [{ key: 'x/n', value: '1' }]]]);
    expect(set.slot.visible()).toEqual({ now: 'new', committed: 'new' });
    expect(await inner.scan('a', 'x/')).toEqual(new Map([['x/n', '1']]));
  });

  it('a runner publishes partial facts before the commit, and even if the store rejects the commit', async () => {
    const seen: unknown[] = [];
    const store: Store = {
      ...createMemoryStore(),
      async commit() {
        seen.push([set.slot.visible().now, set.round()?.partial]);
        throw new Error('disk full');
      },
    };
    const partial = { ...done('half', { changes: [{ key: 'n', value: '1' }] }), isPartial: true };
    const set = await setUp(async () => partial, store);
    await set.run();
    expect([...seen, [set.slot.visible().now, set.round()?.partial]]).toEqual([
      ['half', true],
      ['half', true],
    ]);
  });

  it('a runner keeps rejected rows for the next commit while counters are frozen and gauges are updated', async () => {
    const inner = createMemoryStore();
    let full = true;
    const commits: unknown[] = [];
    const store: Store = {
      ...inner,
      async commit(account, changes) {
        commits.push(changes);
        if (full) throw new Error('disk full');
        await inner.commit(account, changes);
      },
    };
    const memories: unknown[] = [];
    const { run, slot, round } = await setUp(async ({ memory }) => {
      memories.push(memory);
      const turn = memories.length;
      const changes = [
        { key: 'total', value: String(turn) },
        { key: `row${turn}`, value: 'x' },
      ];
      return done(`facts ${turn}`, { memory: `after ${turn}`, changes });
    }, store);
    await run();
    await run();
    expect(slot.visible()).toEqual({ now: 'facts 2', committed: undefined });
    const failure = { reason: 'store', message: 'the store could not commit: disk full' };
    expect(round()).toMatchObject({ success: false, complete: true, consecutiveFailures: 2, failure });
    expect(round()?.dataAt).toBeDefined();
    full = false;
    await run();
    expect(slot.visible()).toEqual({ now: 'facts 3', committed: 'facts 3' });
    expect(memories).toEqual(['', 'after 1', 'after 2']);
    expect(commits.at(-1)).toEqual([
      { key: 'x/total', value: '3' },
      { key: 'x/row1', value: 'x' },
      { key: 'x/row2', value: 'x' },
      { key: 'x/row3', value: 'x' },
    ]);
  });

  it('a runner completes a round with several steps and publishes gauges while the store rejects rows', async () => {
    const inner = createMemoryStore();
    let isFull = false;
    let tries = 0;
    const store: Store = {
      ...inner,
      async commit(account, changes) {
        tries += 1;
        if (isFull) throw new Error('disk full');
        await inner.commit(account, changes);
      },
    };
    let rounds = 0;
    const { run, slot, round } = await setUp(async ({ walk }) => {
      const at = Number(walk ?? 0);
      if (at === 0) rounds += 1;
      const changes = [{ key: `step ${at}`, value: String(rounds) }];
      return at < 9 ? step(at + 1, { changes }) : done(rounds);
    }, store);
    await run();
    isFull = true;
    tries = 0;
    await run();
    expect(slot.visible()).toEqual({ now: 2, committed: 1 });
    expect(round()).toMatchObject({ success: false, complete: true, stale: false, failure: { reason: 'store' } });
    // One attempt, which is rejected, after the first step, and one at the end of the round.
    expect(tries).toBe(2);
    isFull = false;
    await run();
    expect(slot.visible()).toEqual({ now: 3, committed: 3 });
    expect(round()).toMatchObject({ success: true, complete: true });
    expect((await inner.scan('a', 'x/')).get('x/step 8')).toBe('3');
  });

  it('a runner limits the uncommitted rows while the store rejects commits for a long time, without losing rows or counts', async () => {
    const inner = createMemoryStore();
    await inner.commit('a', [{ key: 'x/open/before', value: 'stored' }]);
    let isFull = true;
    const sizes: { rows: number; text: number }[] = [];
    const store: Store = {
      ...inner,
      async commit(account, changes) {
        const text = changes.reduce((sum, { key, value }) => sum + key.length + (value?.length ?? 0), 0);
        sizes.push({ rows: changes.length, text });
        if (isFull) throw new StoreError('full', 'the store');
        await inner.commit(account, changes);
      },
    };
    /** Expected rows of the folded state. */
    const truth = new Map([['open/before', 'stored']]);
    let folds = 0;
    let kept = 0;
    const { run, log, slot, round } = await setUp(
      async () => ({
        fold() {
          folds += 1;
          // A thousand rows are added and removed again, one stays, a stored one is removed, and a total increases.
          const opened = Array.from({ length: 1000 }, (_, index) => `open/${folds}-${index}`);
          const removed = folds === 1 ? [] : Array.from({ length: 1000 }, (_, index) => `open/${folds - 1}-${index}`);
          const changes = [
            ...opened.map(key => ({ key, value: 'o' })),
            ...[...removed, 'open/before'].map(key => ({ key, value: null })),
            { key: `kept/${folds}`, value: 'k'.repeat(kept) },
            { key: 'total', value: String(folds) },
          ];
          for (const { key, value } of changes) {
            if (value === null) truth.delete(key);
            else truth.set(key, value);
          }
          return { facts: folds, memory: undefined, changes };
        },
        more: undefined,
      }),
      store,
    );
    for (let turn = 0; turn < 200; turn += 1) await run();
    // Rows that were added and removed again are neither written nor deleted.
    expect(sizes.at(-1)?.rows).toBe(1000 + 200 + 1 + 1);
    const committed = slot.visible().committed;
    expect([folds, slot.visible().now]).toEqual([200, 200]);

    kept = 4 * 1024 * 1024;
    for (let turn = 0; turn < 20; turn += 1) await run();
    expect(folds).toBeLessThan(210);
    expect(slot.visible()).toEqual({ now: folds, committed });
    expect(round()?.failure?.reason).toBe('store');
    expect(Math.max(...sizes.map(({ text }) => text))).toBeLessThan(24 * 1024 * 1024);
    const warnings = log.lines.filter(({ message }) => message.startsWith('too many uncommitted rows'));
    expect(warnings).toMatchObject([{ level: 'warn', fields: { account: 'a', collector: 'x' } }]);

    isFull = false;
    kept = 1;
    const before = folds;
    await run();
    expect(folds).toBe(before + 1);
    expect(slot.visible()).toEqual({ now: folds, committed: folds });
    expect(await inner.scan('a', 'x/')).toEqual(new Map([...truth].map(([key, value]) => [`x/${key}`, value])));
  });

  it('a runner publishes restored counters immediately, and counters of every committed step', async () => {
    const store = createMemoryStore();
    await store.commit('a', [{ key: 'x/total', value: '5' }]);
    const seen: unknown[] = [];
    const { run, slot } = await setUp(async ({ walk }) => {
      seen.push(slot.visible());
      return walk === undefined ? step('rest', { facts: 'first step' }) : done('all');
    }, store);
    expect(slot.visible()).toEqual({ now: undefined, committed: 'recalled total=5' });
    await run();
    expect(seen[1]).toEqual({ now: undefined, committed: 'first step' });
    expect(slot.visible()).toEqual({ now: 'all', committed: 'all' });
  });

  it('a runner restores the committed state when a fold fails midway', async () => {
    const store = createMemoryStore();
    await store.commit('a', [{ key: 'x/n', value: '1' }]);
    const memories: unknown[] = [];
    const { run, round } = await setUp(async ({ memory }) => {
      memories.push(memory);
      if (memories.length === 2) return step(undefined, {});
      const fold = () => {
        throw new Error('half of it is folded');
      };
      return { fold, more: undefined };
    }, store);
    await run();
    expect(round()?.failure?.reason).toBe('bug');
    await run();
    expect(memories).toEqual(['n=1', 'n=1']);
  });

  it('a runner reads the rounds of a collector concurrently and folds their results sequentially', async () => {
    const inner = createMemoryStore();
    let release = () => {};
    const blocked = new Promise<void>(resolve => {
      release = resolve;
    });
    const folds: unknown[] = [];
    const reads: string[] = [];
    const store: Store = {
      ...inner,
      async commit(account, changes) {
        await blocked;
        await inner.commit(account, changes);
      },
    };
    const set = await setUp(
      async ({ round }) => {
        reads.push(round);
        return {
          fold(memory) {
            folds.push([round, memory]);
            return { facts: round, memory: `after ${round}`, changes: [{ key: round, value: '1' }] };
          },
          more: undefined,
        };
      },
      store,
      ['list', 'watch'],
    );
    const rounds = [set.run(undefined, 'list'), set.run(undefined, 'watch')];
    await new Promise(resolve => setImmediate(resolve));
    expect(reads).toEqual(['list', 'watch']);
    expect(folds).toEqual([['list', '']]);
    release();
    await Promise.all(rounds);
    expect(folds).toEqual([
      ['list', ''],
      ['watch', 'after list'],
    ]);
    expect(set.slot.visible()).toEqual({ now: 'watch', committed: 'watch' });
  });

  it('a runner passes the memory restored from the store through every step of a round', async () => {
    const store = createMemoryStore();
    await store.commit('a', [
      { key: 'x/kept', value: '7' },
      { key: 'y/other', value: '8' },
    ]);
    const steps: unknown[] = [];
    const { run, slot, clock } = await setUp(async ({ memory, walk, now }) => {
      steps.push([memory, walk, now]);
      const count = Number(walk ?? 0) + 1;
      return count < 3 ? step(count, { memory: `m${count}` }) : done('facts', { memory: 'end' });
    }, store);
    const startedAt = clock.now();
    await run();
    await clock.advance(10);
    await run();
    expect(steps.slice(0, 4)).toEqual([
      ['kept=7', undefined, startedAt],
      ['m1', 1, startedAt],
      ['m2', 2, startedAt],
      ['end', undefined, startedAt + 10],
    ]);
    expect(slot.visible()).toEqual({ now: 'facts', committed: 'facts' });
  });
});
