import { expect, it } from 'vitest';
import { packPart, unpackPart } from '../../../src/app/backtest/log-part.ts';
import { byTime, type KeptEvent } from '../../../src/collectors/events/kept-event.ts';

/** Three at a time, at most, as the service lists them: the latest first. */
const events = Array.from(
  { length: 2500 },
  (_, index): KeptEvent => ({
    identity: BigInt(index),
    message: BigInt(index % 900),
    state: index % 3,
    time: 1_700_000_000_000 + Math.floor(index / 3),
    dueAt: index % 2 === 0 ? 0 : 1_700_000_000_500,
    destination: `host-${index % 4}`,
    schedules: index % 5 === 0 ? ['scd_1'] : undefined,
    statusClass: index % 5,
  }),
).reverse();

it('gives a part again, in the order of time', () => {
  const slices = [...unpackPart(packPart({ readTo: 1_800_000_000_000, rejected: 2, events }))];
  expect(slices.length).toBeGreaterThan(2);
  expect(slices.flatMap(({ events }) => events)).toEqual(events.toSorted(byTime));
  expect(new Set(slices.map(({ rejected }) => rejected))).toEqual(new Set([2]));
});

it('says of no slice that more is read than it and those before it have', () => {
  const slices = [...unpackPart(packPart({ readTo: 1_800_000_000_000, rejected: 0, events }))];
  let given = 0;
  for (const { readTo, events: slice } of slices) {
    given += slice.length;
    expect(events.filter(({ time }) => time <= readTo).length).toBeLessThanOrEqual(given);
  }
  expect(slices.at(-1)?.readTo).toBe(1_800_000_000_000);
});

it('gives a part without events, too', () => {
  const part = { readTo: 7, rejected: 1, events: [] };
  expect([...unpackPart(packPart(part))]).toEqual([part]);
});
