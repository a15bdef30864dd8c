import { setImmediate as nextTurn } from 'node:timers/promises';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createGroupCommit } from '../../src/store/group-commit.ts';
import { createManualClock } from '../support/manual-clock.ts';

/** Creates a group commit that records its writes. A write that contains one of the `bad` items fails. */
function setUp(limit = 100, bad: readonly string[] = [], affectsAll = () => false) {
  const writes: string[][] = [];
  const failed: string[][] = [];
  const groupCommit = createGroupCommit<string, string>(
    async items => {
      if (items.some(item => bad.includes(item))) {
        failed.push([...items]);
        throw new Error(`bad ${items}`);
      }
      writes.push([...items]);
      return items.map(item => `wrote ${item}`);
    },
    { limit, affectsAll },
  );
  return { groupCommit, writes, failed };
}

describe('group commit', () => {
  it('a group commit writes items added in one turn of the event loop together, and items added later in another group', async () => {
    const { groupCommit, writes } = setUp();
    await Promise.all(['a', 'b', 'c'].map(item => groupCommit.add(item, 1)));
    await groupCommit.add('d', 1);
    expect(writes).toEqual([['a', 'b', 'c'], ['d']]);
  });

  it('a group commit waits for the configured spacing after a group', async () => {
    const clock = createManualClock();
    const writes: string[][] = [];
    const write = async (items: readonly string[]) => {
      writes.push([...items]);
      return items;
    };
    const groupCommit = createGroupCommit<string, string>(write, {
      limit: 100,
      affectsAll: () => false,
      spacing: () => 50,
      clock,
    });
    await groupCommit.add('a', 1);
    const later = [groupCommit.add('b', 1)];
    await clock.advance(30);
    later.push(groupCommit.add('c', 1));
    await clock.advance(19);
    expect(writes).toEqual([['a']]);
    await clock.advance(1);
    await Promise.all(later);
    expect(writes).toEqual([['a'], ['b', 'c']]);
    const last = groupCommit.add('d', 1);
    await clock.advance(50);
    await last;
    expect(writes).toEqual([['a'], ['b', 'c'], ['d']]);
    await groupCommit.ended();
    expect(clock.sleepers).toBe(0);
    // Once the spacing has elapsed, items that exceed a group's limit are written without further delay.
    await clock.advance(50);
    await Promise.all(['e', 'f', 'g'].map(item => groupCommit.add(item, 50)));
    expect(writes.slice(3)).toEqual([['e', 'f'], ['g']]);
  });

  it('a group commit writes no items before the current turn of the event loop ends', async () => {
    const { groupCommit, writes } = setUp();
    const added = groupCommit.add('a', 1);
    await Promise.resolve();
    expect(writes).toEqual([]);
    await added;
  });

  it('a group commit limits the weight of a group, but accepts a single item of any weight, and yields between groups', async () => {
    const { groupCommit, writes } = setUp(10);
    const added = ['a', 'b', 'c', 'd'].map((item, n) => groupCommit.add(item, [4, 6, 50, 1][n] as number));
    await nextTurn();
    expect(writes).toEqual([['a', 'b']]);
    await Promise.all(added);
    expect(writes).toEqual([['a', 'b'], ['c'], ['d']]);
  });

  it('a group commit retries the items of a failed group one by one, so that only the invalid one fails', async () => {
    const { groupCommit, writes, failed } = setUp(100, ['b']);
    const results = await Promise.allSettled(['a', 'b', 'c'].map(item => groupCommit.add(item, 1)));
    expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
    expect(results[1]).toMatchObject({ reason: { message: 'bad b' } });
    expect(writes).toEqual([['a'], ['c']]);
    expect(failed).toEqual([['a', 'b', 'c'], ['b']]);
    await Promise.all(['d', 'e'].map(item => groupCommit.add(item, 1)));
    expect(writes.at(-1)).toEqual(['d', 'e']);
  });

  it('a group commit does not retry items one by one if the error affects the whole group', async () => {
    const bad = ['b'];
    const { groupCommit, writes, failed } = setUp(100, bad, () => true);
    const results = await Promise.allSettled(['a', 'b', 'c'].map(item => groupCommit.add(item, 1)));
    expect(results.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected']);
    expect([writes, failed]).toEqual([[], [['a', 'b', 'c']]]);
    bad.pop();
    await Promise.all(['a', 'b'].map(item => groupCommit.add(item, 1)));
    expect(writes).toEqual([['a', 'b']]);
  });

  it('a group commit resolves each item with its own result', async () => {
    const { groupCommit } = setUp(2);
    expect(await Promise.all(['a', 'b', 'c'].map(item => groupCommit.add(item, 1)))).toEqual([
      'wrote a',
      'wrote b',
      'wrote c',
    ]);
  });

  it('a group commit rejects all waiting items after an error that affects them all', async () => {
    const { groupCommit, failed } = setUp(1, ['a'], () => true);
    const results = await Promise.allSettled(['a', 'b'].map(item => groupCommit.add(item, 1)));
    expect(results.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
    expect(failed).toEqual([['a']]);
  });

  it('settled() resolves between groups, and ended() resolves when no item waits', async () => {
    const events: string[] = [];
    const groupCommit = createGroupCommit<string, string>(
      async items => {
        events.push(`begin ${items}`);
        await nextTurn();
        events.push(`end ${items}`);
        return items;
      },
      { limit: 1, affectsAll: () => false },
    );
    void groupCommit.add('a', 1);
    void groupCommit.add('b', 1);
    await groupCommit.settled();
    expect(events).toEqual([]);
    await nextTurn();
    await groupCommit.settled();
    expect(events).toEqual(['begin a', 'end a']);
    await groupCommit.ended();
    expect(events).toEqual(['begin a', 'end a', 'begin b', 'end b']);
    await groupCommit.ended();
  });

  it('a group commit writes every valid item once and in order, regardless of failures', async () => {
    const item = fc.record({ bad: fc.boolean(), weight: fc.nat(12), turn: fc.boolean() });
    await fc.assert(
      fc.asyncProperty(fc.array(item, { maxLength: 30 }), async items => {
        const names = items.map((_, n) => String(n));
        const bad = names.filter((_, n) => items[n]?.bad);
        const { groupCommit, writes } = setUp(20, bad);
        const added: Promise<unknown>[] = [];
        for (const [n, { weight, turn }] of items.entries()) {
          added.push(
            groupCommit.add(String(n), weight).then(
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
