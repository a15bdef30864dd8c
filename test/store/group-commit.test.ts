import { setImmediate as nextTurn } from 'node:timers/promises';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createGroupCommit } from '../../src/store/group-commit.ts';
import { createManualClock } from '../support/manual-clock.ts';

/** A gathering whose writes are listed; a write with one of the `bad` items fails. */
function setUp(limit = 100, bad: readonly string[] = [], isOfAll = () => false) {
  const writes: string[][] = [];
  const failed: string[][] = [];
  const gathering = createGroupCommit<string, string>(
    async items => {
      if (items.some(item => bad.includes(item))) {
        failed.push([...items]);
        throw new Error(`bad ${items}`);
      }
      writes.push([...items]);
      return items.map(item => `wrote ${item}`);
    },
    { limit, isOfAll },
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
    const write = async (items: readonly string[]) => {
      writes.push([...items]);
      return items;
    };
    const gathering = createGroupCommit<string, string>(write, {
      limit: 100,
      isOfAll: () => false,
      spacing: () => 50,
      clock,
    });
    await gathering.add('a', 1);
    const later = [gathering.add('b', 1)];
    await clock.advance(30);
    later.push(gathering.add('c', 1));
    await clock.advance(19);
    expect(writes).toEqual([['a']]);
    await clock.advance(1);
    await Promise.all(later);
    expect(writes).toEqual([['a'], ['b', 'c']]);
    const last = gathering.add('d', 1);
    await clock.advance(50);
    await last;
    expect(writes).toEqual([['a'], ['b', 'c'], ['d']]);
    await gathering.ended();
    expect(clock.sleepers).toBe(0);
    // The spacing is over, and items beyond the limit are not delayed.
    await clock.advance(50);
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

  it('resolves each item with its own result', async () => {
    const { gathering } = setUp(2);
    expect(await Promise.all(['a', 'b', 'c'].map(item => gathering.add(item, 1)))).toEqual([
      'wrote a',
      'wrote b',
      'wrote c',
    ]);
  });

  it('fails all items that wait when the error would be the same for each', async () => {
    const { gathering, failed } = setUp(1, ['a'], () => true);
    const results = await Promise.allSettled(['a', 'b'].map(item => gathering.add(item, 1)));
    expect(results.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    expect(failed).toEqual([['a']]);
  });

  it('is settled between groups and ended when no item waits', async () => {
    const course: string[] = [];
    const gathering = createGroupCommit<string, string>(
      async items => {
        course.push(`begin ${items}`);
        await nextTurn();
        course.push(`end ${items}`);
        return items;
      },
      { limit: 1, isOfAll: () => false },
    );
    void gathering.add('a', 1);
    void gathering.add('b', 1);
    await gathering.settled();
    expect(course).toEqual([]);
    await nextTurn();
    await gathering.settled();
    expect(course).toEqual(['begin a', 'end a']);
    await gathering.ended();
    expect(course).toEqual(['begin a', 'end a', 'begin b', 'end b']);
    await gathering.ended();
  });

  it('writes every good item once and in order, whatever fails', async () => {
    const item = fc.record({ bad: fc.boolean(), weight: fc.nat(12), turn: fc.boolean() });
    await fc.assert(
      fc.asyncProperty(fc.array(item, { maxLength: 30 }), async items => {
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
        const rejected = (await Promise.all(added)).filter(name => name !== undefined);
        expect(rejected).toEqual(bad);
        expect(writes.flat()).toEqual(names.filter(name => !bad.includes(name)));
      }),
    );
  });
});
