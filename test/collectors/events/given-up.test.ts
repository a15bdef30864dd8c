import { expect, it } from 'vitest';
import { foldSweep } from '../../../src/collectors/events/events.ts';
import { eventIdentity, type KeptEvent } from '../../../src/collectors/events/kept-event.ts';
import { addToMinutes, boundMinutes } from '../../../src/collectors/events/memory.ts';
import type { RangeRead } from '../../../src/collectors/events/read.ts';
import { restoreMemory } from '../../../src/collectors/events/rows.ts';
import { NO_ROUTES } from '../../../src/collectors/routes.ts';
import { MINUTE } from '../../../src/kit/duration.ts';

const START = 28_000_000 * MINUTE;

function eventAt(number: number, time: number): KeptEvent {
  const message = BigInt(number);
  const identity = eventIdentity(message, 0, time);
  return { identity, message, state: 0, time, dueAt: 0, schedules: undefined, destination: '', statusClass: 0 };
}

it('a sweep counts no event twice even if the minutes that it covers are dropped from memory during its read', () => {
  const times = { floor: START - 1, newest: START, readTo: START, foundAt: START, judgedTo: 0, judgedLast: START - 1 };
  const checkpoint = { ...times, rememberedFrom: START, sweptTo: START - 1, nextChunk: 0, destination: 'none' };
  const rows = new Map([['checkpoint', JSON.stringify(checkpoint)]]);
  const memory = restoreMemory(
    rows,
    { destination: 'none', maxDestinations: 1, overlap: 60_000 },
    { routes: NO_ROUTES },
  );
  const known = Array.from({ length: 10 }, (_, index) => eventAt(index, START + index));
  addToMinutes(memory, known);
  const late = eventAt(1000, START + MINUTE + 1);
  const events = new Map([...known, late].map(event => [event.identity, event]));
  const range = { from: START, to: START + 2 * MINUTE - 1, events, twice: [], pages: 1 } as unknown as RangeRead;
  // These events exceed the limit, so the agent drops stored minutes.
  memory.minutes.set(START / MINUTE + 1, new BigUint64Array(2_000_000));
  boundMinutes(memory);
  expect(memory.minutes.has(START / MINUTE)).toBe(false);
  foldSweep(memory, range, { overlap: 1000, onTimeWithin: 300_000, maxOpen: 10 });
  expect(memory.log.late).toBe(1);
  expect(memory.destinations.copies().get('')?.events.created).toBe(1);
});
