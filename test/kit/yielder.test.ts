import { expect, it } from 'vitest';
import { createYielder } from '../../src/kit/yielder.ts';

/** Returns how long a task runs (ms) before it yields again, after other tasks have run for `others` ms. */
async function workAfter(others: number, longest?: number): Promise<number> {
  let time = 0;
  const turns = createYielder(longest, { monotonic: () => time });
  time += 5;
  const turn = turns.pass();
  time += others;
  await turn;
  const start = time;
  while (turns.pass() === undefined) time += 1;
  return time - start;
}

it('a task yields to the event loop after 5 ms', async () => {
  expect(await workAfter(0)).toBe(5);
  expect(await workAfter(300)).toBe(5);
});

it('a task with a higher limit runs for as long as other tasks ran before it, at least 5 ms and at most that limit', async () => {
  expect(await workAfter(1, 20)).toBe(5);
  expect(await workAfter(12, 20)).toBe(12);
  expect(await workAfter(300, 20)).toBe(20);
});
