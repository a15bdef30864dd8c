import fc from 'fast-check';
import { expect, it } from 'vitest';
import { createRecentEvents } from '../../../src/collectors/events/memory.ts';
import { EVENT_STATES } from '../../../src/model/message.ts';

it('counts the events since a given time by state, with a resolution of a ten-thousandth of the window', () => {
  fc.assert(
    fc.property(
      fc.array(fc.tuple(fc.nat(8), fc.nat(1000)), { maxLength: 100 }),
      fc.array(fc.nat(1000), { maxLength: 3 }),
      fc.constantFrom(1, 7),
      (events, edges, slice) => {
        const recent = createRecentEvents(10_000 * slice);
        for (const [state, time] of events) recent.add(state, time);
        for (const from of edges.sort((a, b) => a - b)) {
          const start = Math.floor(from / slice) * slice;
          const counts = EVENT_STATES.map(
            (_state, index) => events.filter(([s, t]) => s === index && t >= start).length,
          );
          expect(Object.values(recent.since(from))).toEqual(counts);
        }
      },
    ),
  );
});
