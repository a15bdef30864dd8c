import { expect, test } from 'vitest';
import { emptyEmulator, emulator, HOUR, NOON } from './emulated.ts';

const sum = (counts: Readonly<Record<string, number>>) => Object.values(counts).reduce((all, count) => all + count, 0);

test('countEvents counts each retained event once, by state, whether or not it is listed', async () => {
  const dialect = { logLateShare: 1, logLateMs: 1000, logDuplicates: 1 } as const;
  const { state } = await emulator({ dialect });
  const expected = Map.groupBy(state.eventRows(), row => row.state);
  for (const [name, count] of Object.entries(state.countEvents()))
    expect(count).toBe(expected.get(name as never)?.length ?? 0);
  expect(sum(state.countEvents())).toBeGreaterThan(10_000);
});

test('the events of the last six hours are retained, and older ones are dropped', async () => {
  const { state, clock } = await emulator();
  const first = state.countEvents();
  clock.advance(5 * HOUR - 1);
  expect(state.countEvents({ to: NOON })).toEqual(first);
  clock.advance(1.5 * HOUR);
  expect(sum(state.countEvents({ to: NOON - HOUR / 2 - 1 }))).toBe(0);
  clock.advance(0.5 * HOUR);
  expect(sum(state.countEvents({ to: NOON }))).toBeLessThan(10);
});

test('at most maxEvents events are retained', async () => {
  const { state } = await emptyEmulator({ maxEvents: 10 });
  for (let index = 0; index < 25; index++) state.addEvent({ time: NOON - 100 + index });
  expect(state.eventRows().map(row => Number(row.time) - NOON)).toEqual(
    Array.from({ length: 10 }, (_, index) => index - 85),
  );
});
