import { expect, it } from 'vitest';
import { createTurns } from '../../src/kit/turns.ts';

/** Returns the duration of work (ms) after the event loop ran other tasks for a time. */
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

it('yields to the event loop after 5 ms of work', async () => {
  expect(await workAfter(0)).toBe(5);
  expect(await workAfter(300)).toBe(5);
});

it('works as long as other tasks did, up to a limit, if it may use half of the process', async () => {
  expect(await workAfter(1, 20)).toBe(5);
  expect(await workAfter(12, 20)).toBe(12);
  expect(await workAfter(300, 20)).toBe(20);
});
