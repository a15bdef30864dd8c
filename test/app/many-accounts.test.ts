import { expect, it } from 'vitest';
import { preparing } from '../../src/app/many-accounts.ts';

/** So many accounts, and what was prepared of them. */
function setUp(count: number) {
  const ended = Array<number>(count).fill(0);
  const accounts = ended.map((_, index) => ({ name: `account-${index}`, roundsEnded: () => ended[index] as number }));
  const prepared: string[][] = [];
  const exposition = {
    async prepare(names: Iterable<string>) {
      prepared.push([...names]);
      if (prepared.length === 2) throw new Error('a bug');
    },
  };
  const [loop] = preparing(accounts, exposition);
  return { ended, prepared, look: async () => loop?.body(new AbortController().signal), isLooking: loop !== undefined };
}

it('prepares accounts whose rounds have ended since the last look, whatever fails', async () => {
  const { ended, prepared, look } = setUp(50);
  await look();
  expect(prepared[0]).toHaveLength(50);
  ended[3] = 1;
  ended[7] = 2;
  await look();
  ended[3] = 2;
  await look();
  await look();
  expect(prepared.slice(1)).toEqual([['account-3', 'account-7'], ['account-3'], []]);
});

it('leaves few accounts to the scrape', () => {
  expect(setUp(49).isLooking).toBe(false);
});
