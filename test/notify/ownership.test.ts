import { expect, it } from 'vitest';
import { createOwnership } from '../../src/notify/ownership.ts';
import { StoreError } from '../../src/store/errors.ts';
import { NO_ACCOUNT } from '../../src/store/store.ts';

it('a replica may send alerts of held and removed accounts, but agent-wide alerts only with a valid lease', async () => {
  let left = 1;
  const asked: string[] = [];
  async function confirm(account: string) {
    asked.push(account);
    return account === 'ours';
  }
  const holds = createOwnership({ remaining: () => left, confirm }, account => account !== 'gone');
  const names = [NO_ACCOUNT, 'ours', 'theirs', 'gone'];
  expect(names.map(holds.has)).toEqual([true, true, true, true]);
  left = 0;
  expect(await Promise.all(names.map(holds.has))).toEqual([false, true, false, true]);
  expect(asked).toEqual(['ours', 'theirs']);
  const refused = new StoreError('not_held', 'x');
  expect(['ours', 'gone'].map(account => holds.isLost(account, refused))).toEqual([true, false]);
  expect(holds.isLost('ours', new StoreError('away', 'x'))).toBe(false);
});
