import { expect, it } from 'vitest';
import { createTurns } from '../../src/kit/turns.ts';

/** How long work goes on, in milliseconds, after the others had the process for so long. */
async function workAfter(others: number, longest?: number): Promise<number> {
  let time = 0;
  const turns = createTurns(longest, { monotonic: () => time });
  time += 5;
  const turn = turns.pass();
  time += others;
  await turn;
  const start = time;
  while (turns.pass() === undefined) time += 1;
  return time - start;
}

it('gives the others a turn after 5 ms of work', async () => {
  expect(await workAfter(0)).toBe(5);
  expect(await workAfter(300)).toBe(5);
});

it('goes on for as long as the others did, up to a limit, where it is to have half of the process', async () => {
  expect(await workAfter(1, 20)).toBe(5);
  expect(await workAfter(12, 20)).toBe(12);
  expect(await workAfter(300, 20)).toBe(20);
});
