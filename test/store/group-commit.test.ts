import { setImmediate as nextTurn } from 'node:timers/promises';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createGroupCommit } from '../../src/store/group-commit.ts';
import { createManualClock } from '../support/manual-clock.ts';

/** A gathering whose writes are listed; a write with one of the `bad` items fails. */
function setUp(limit = 100, bad: readonly string[] = [], isOfAll = () => false) {
  const writes: string[][] = [];
  const failed: string[][] = [];
  const gathering = createGroupCommit<string>(
    items => {
      if (items.some(item => bad.includes(item))) {
        failed.push([...items]);
        throw new Error(`bad ${items}`);
      }
      writes.push([...items]);
    },
    limit,
    isOfAll,
  );
  return { gathering, writes, failed };
}

describe('gathering', () => {
  it('writes together what was added in one turn, and later what was added later', async () => {
    const { gathering, writes } = setUp();
    await Promise.all(['a', 'b', 'c'].map(item => gathering.add(item, 1)));
    await gathering.add('d', 1);
    expect(writes).toEqual([['a', 'b', 'c'], ['d']]);
  });

  it('waits for others after a group, where it is told to', async () => {
    const clock = createManualClock();
    const writes: string[][] = [];
    const write = (items: readonly string[]) => void writes.push([...items]);
    const gathering = createGroupCommit<string>(write, 100, undefined, () => 50, clock);
    await gathering.add('a', 1);
    const later = [gathering.add('b', 1)];
    await clock.advance(30);
    later.push(gathering.add('c', 1));
    await clock.advance(19);
    expect(writes).toEqual([['a']]);
    await clock.advance(1);
    await Promise.all(later);
    expect(writes).toEqual([['a'], ['b', 'c']]);
    const drained = gathering.add('d', 1);
    gathering.drain();
    await drained;
    await clock.advance(50);
    expect(writes).toEqual([['a'], ['b', 'c'], ['d']]);
    expect(clock.sleepers).toBe(0);
    // The last group is long ago, and what is too much for one is not held up.
    await Promise.all(['e', 'f', 'g'].map(item => gathering.add(item, 50)));
    expect(writes.slice(3)).toEqual([['e', 'f'], ['g']]);
  });

  it('writes nothing before the turn ends', async () => {
    const { gathering, writes } = setUp();
    const added = gathering.add('a', 1);
    await Promise.resolve();
    expect(writes).toEqual([]);
    await added;
  });

  it('ends a group before it gets too heavy; one item always fits; other work gets in between', async () => {
    const { gathering, writes } = setUp(10);
    const added = ['a', 'b', 'c', 'd'].map((item, n) => gathering.add(item, [4, 6, 50, 1][n] as number));
    await nextTurn();
    expect(writes).toEqual([['a', 'b']]);
    await Promise.all(added);
    expect(writes).toEqual([['a', 'b'], ['c'], ['d']]);
  });

  it('writes one by one what failed together, so that only the bad one fails', async () => {
    const { gathering, writes, failed } = setUp(100, ['b']);
    const results = await Promise.allSettled(['a', 'b', 'c'].map(item => gathering.add(item, 1)));
    expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
    expect(results[1]).toMatchObject({ reason: { message: 'bad b' } });
    expect(writes).toEqual([['a'], ['c']]);
    expect(failed).toEqual([['a', 'b', 'c'], ['b']]);
    await Promise.all(['d', 'e'].map(item => gathering.add(item, 1)));
    expect(writes.at(-1)).toEqual(['d', 'e']);
  });

  it('tries no item alone where what failed is no fault of one', async () => {
    const bad = ['b'];
    const { gathering, writes, failed } = setUp(100, bad, () => true);
    const results = await Promise.allSettled(['a', 'b', 'c'].map(item => gathering.add(item, 1)));
    expect(results.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected']);
    expect([writes, failed]).toEqual([[], [['a', 'b', 'c']]]);
    bad.pop();
    await Promise.all(['a', 'b'].map(item => gathering.add(item, 1)));
    expect(writes).toEqual([['a', 'b']]);
  });

  it('drains at once', () => {
    const { gathering, writes } = setUp(2, ['b']);
    const added = ['a', 'b', 'c'].map(item => gathering.add(item, 1));
    gathering.drain();
    expect(writes).toEqual([['a'], ['c']]);
    return Promise.allSettled(added);
  });

  it('writes every good item once and in order, whatever fails', async () => {
    const item = fc.record({ bad: fc.boolean(), weight: fc.nat(12), turn: fc.boolean() });
    await fc.assert(
      fc.asyncProperty(fc.array(item, { maxLength: 30 }), fc.boolean(), async (items, drain) => {
        const names = items.map((_, n) => String(n));
        const bad = names.filter((_, n) => items[n]?.bad);
        const { gathering, writes } = setUp(20, bad);
        const added: Promise<unknown>[] = [];
        for (const [n, { weight, turn }] of items.entries()) {
          added.push(
            gathering.add(String(n), weight).then(
              () => undefined,
              () => String(n),
            ),
          );
          if (turn) await nextTurn();
        }
        if (drain) gathering.drain();
        const rejected = (await Promise.all(added)).filter(name => name !== undefined);
        expect(rejected).toEqual(bad);
        expect(writes.flat()).toEqual(names.filter(name => !bad.includes(name)));
      }),
    );
  });
});
