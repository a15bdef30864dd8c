import { expect, it } from 'vitest';
import { createHolds } from '../../src/notify/holds.ts';
import { StoreError } from '../../src/store/errors.ts';
import { NO_ACCOUNT } from '../../src/store/store.ts';

it('permits sending for held and removed accounts, and for agent-wide alerts only during a valid lease', async () => {
  let left = 1;
  const asked: string[] = [];
  async function confirm(account: string) {
    asked.push(account);
    return account === 'ours';
  }
  const holds = createHolds({ remaining: () => left, confirm }, account => account !== 'gone');
  const names = [NO_ACCOUNT, 'ours', 'theirs', 'gone'];
  expect(names.map(holds.has)).toEqual([true, true, true, true]);
  left = 0;
  expect(await Promise.all(names.map(holds.has))).toEqual([false, true, false, true]);
  expect(asked).toEqual(['ours', 'theirs']);
  const refused = new StoreError('not_held', 'x');
  expect(['ours', 'gone'].map(account => holds.isLost(account, refused))).toEqual([true, false]);
  expect(holds.isLost('ours', new StoreError('away', 'x'))).toBe(false);
});
