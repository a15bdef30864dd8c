import { describe, expect, it } from 'vitest';
import { createCommitQueue } from '../../src/scheduler/commit-queue.ts';
import { StoreError, type StoreReason } from '../../src/store/errors.ts';
import { createMemoryStore } from '../../src/store/memory.ts';
import type { Store } from '../../src/store/store.ts';
import { createTestLog } from '../support/silent.ts';

/** Creates a queue with a store that rejects commits with `fails.reason` if set, but still writes them if `fails.isWritten`. */
function create() {
  const memory = createMemoryStore();
  const fails: { reason?: StoreReason | undefined; isWritten?: boolean } = {};
  let committed = 0;
  const store: Store = {
    ...memory,
    async commit(account, changes) {
      if (fails.reason === undefined || fails.isWritten) await memory.commit(account, changes);
      if (fails.reason !== undefined) throw new StoreError(fails.reason, 'the store');
      committed += changes.length;
    },
  };
  const queue = createCommitQueue({ account: 'a', collector: 'x', store, log: createTestLog() });
  return {
    queue,
    fails,
    committed: () => committed,
    async add(key: string, value: string | null) {
      queue.add([{ key, value }]);
      await queue.commit().catch(() => undefined);
    },
  };
}

describe('a commit queue', () => {
  it.each(['away', 'slow', 'io'] as const)(
    'a commit queue deletes a row even if its commit failed with %s, because the commit may have written it',
    async reason => {
      const { queue, fails, add } = create();
      await add('old', 'v');
      fails.reason = reason;
      await add('other', 'v');
      fails.isWritten = true;
      await add('row', 'v');
      fails.isWritten = false;
      await add('row', null);
      fails.reason = undefined;
      await queue.commit();
      expect([...(await queue.committed()).keys()]).toEqual(['old', 'other']);
    },
  );

  it('a commit queue deletes a row that one failed commit may have written, even if other failed commits definitely wrote nothing', async () => {
    const { queue, fails, add } = create();
    fails.reason = 'full';
    await add('other', 'v');
    Object.assign(fails, { reason: 'io', isWritten: true });
    await add('row', 'v');
    Object.assign(fails, { reason: 'full', isWritten: false });
    await add('row', null);
    fails.reason = undefined;
    await queue.commit();
    expect([...(await queue.committed()).keys()]).toEqual(['other']);
  });

  it('a commit queue drops the delete of a row that was definitely never written', async () => {
    const { queue, fails, add, committed } = create();
    await add('old', 'v');
    fails.reason = 'full';
    for (let n = 0; n < 100; n += 1) {
      await add(`row ${n}`, 'v');
      await add(`row ${n}`, null);
    }
    await add('old', null);
    fails.reason = undefined;
    await add('last', 'v');
    expect([...(await queue.committed()).keys()]).toEqual(['last']);
    expect(committed()).toBe(3);
  });
});
