import { expect, it } from 'vitest';
import { createUpkeep, openAccountRows } from '../../src/agent/account-rows.ts';
import { Recorder } from '../../src/history/recorder.ts';
import type { Change } from '../../src/model/change.ts';
import { createCollectorState } from '../../src/scheduler/board.ts';
import { createMemoryStore } from '../../src/store/memory.ts';
import type { Store } from '../../src/store/store.ts';
import { createManualClock } from '../support/manual-clock.ts';
import { createTestLog } from '../support/silent.ts';

const MINUTE = 60_000;

async function setUp() {
  const [clock, log, inner, commits] = [createManualClock(), createTestLog(), createMemoryStore(), [] as string[][]];
  const store: Store & { isFull: boolean } = {
    ...inner,
    isFull: false,
    async commit(account: string, changes: readonly Change[]) {
      if (store.isFull) throw new Error('disk full');
      commits.push(changes.map(({ key }) => key));
      await inner.commit(account, changes);
    },
  };
  const staleness = { markAfter: 3, withdrawAfter: 20, withdrawAtMost: 30 * MINUTE };
  const slot = createCollectorState({ account: 'a', collector: 'dlq' }, { full: { every: MINUTE } }, staleness, clock);
  const known = { tokenRejected: undefined as boolean | undefined };
  const rows = await openAccountRows(store, 'a');
  const history = await Recorder.open({ account: 'a', store, clock, log });
  const upkeep = createUpkeep({ states: [slot], rows, history, known: () => known });
  return {
    clock,
    store,
    commits,
    known,
    upkeep,
    stored: async () => (await openAccountRows(store, 'a')).before,
    succeed() {
      slot.observed('full', { at: clock.now(), facts: {} });
      slot.succeeded('full', { durationSeconds: 1 });
      return upkeep.afterRound();
    },
    fail() {
      slot.failed('full', { durationSeconds: 1, complete: false, reason: 'server', message: 'x' });
      return upkeep.afterRound();
    },
  };
}

it('an account immediately commits rows that must survive a crash loop, and commits other rows only on save', async () => {
  const { clock, commits, known, upkeep, stored, succeed, fail } = await setUp();
  const began = clock.now();
  await upkeep.afterRound();
  expect(await stored()).toEqual({ freshness: { dlq: { full: { completeAt: began, tryingSince: began } } } });
  for (let round = 0; round < 10; round += 1) {
    await clock.advance(MINUTE);
    await succeed();
  }
  expect(commits).toHaveLength(2);
  await upkeep.save();
  const completeAt = clock.now();
  expect(await stored()).toEqual({ freshness: { dlq: { full: { completeAt } } } });
  for (let round = 0; round < 10; round += 1) {
    await clock.advance(MINUTE);
    await fail();
  }
  expect(commits).toHaveLength(4);
  expect(await stored()).toMatchObject({ freshness: { dlq: { full: { completeAt, tryingSince: completeAt } } } });
  known.tokenRejected = true;
  await fail();
  expect(commits.slice(4)).toEqual([['account-state/token-rejected']]);
  await upkeep.save();
  expect(commits).toHaveLength(5);
});

it('a rejected commit of account rows does not fail a round, and the next save stores the rows', async () => {
  const { store, upkeep, stored, succeed } = await setUp();
  store.isFull = true;
  await upkeep.afterRound();
  await succeed();
  await expect(upkeep.save()).rejects.toThrow('disk full');
  store.isFull = false;
  await upkeep.save();
  expect((await stored()).freshness?.dlq?.full?.tryingSince).toBeUndefined();
});
