import fc from 'fast-check';
import { expect, it } from 'vitest';
import { createRecentEvents, MAX_KEPT } from '../../../src/collectors/events/recent.ts';
import { EVENT_STATES } from '../../../src/model/message.ts';

it('counts the events since a given time by state', () => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.nat(8), fc.nat(1000)), { maxLength: 100 }),
      fc.array(fc.nat(1000), { maxLength: 3 }),
      (events, edges) => {
        const recent = createRecentEvents();
        for (const [state, time] of events) recent.add(state, time);
        for (const from of edges.sort((a, b) => a - b)) {
          const counts = EVENT_STATES.map(
            (_state, index) => events.filter(([s, t]) => s === index && t >= from).length,
          );
          expect(Object.values(recent.since(from))).toEqual(counts);
        }
      },
    ),
  );
});

it('above its limit, the count of recent events is exact in total and accurate to 0.2 % for the second half', () => {
  const recent = createRecentEvents();
  const many = MAX_KEPT * 3;
  for (let time = 0; time < many; time += 1) recent.add(time % 9, time * 7);
  const counted = Object.values(recent.since(0)).reduce((a, b) => a + b, 0);
  expect(counted).toBe(many);
  const half = Object.values(recent.since((many / 2) * 7)).reduce((a, b) => a + b, 0);
  expect(Math.abs(half - many / 2)).toBeLessThan(many / 1000);
});
