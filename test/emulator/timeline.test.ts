import fc from 'fast-check';
import { expect, test } from 'vitest';
import { type Order, type Position, RowTimeline, type TimelineRange } from '../../src/emulator/timeline.ts';
import { runs } from '../support/runs.ts';

interface Row extends Position {
  readonly name: string;
}

/** Reference implementation: searches and sorts an array. */
function naive(rows: readonly Row[], { from, to, order, after }: TimelineRange): string[] {
  const sorted = rows.toSorted((a, b) => a.time - b.time || a.seq - b.seq);
  const inRange = sorted.filter(row => row.time >= from && row.time <= to);
  const isBehind = (row: Row, place: Position) => row.time - place.time || row.seq - place.seq;
  const ahead = inRange.filter(row => {
    if (!after) return true;
    return order === 'earliestFirst' ? isBehind(row, after) > 0 : isBehind(row, after) < 0;
  });
  return (order === 'earliestFirst' ? ahead : ahead.reverse()).map(row => row.name);
}

function walked(timeline: RowTimeline<{ name: string }>, range: TimelineRange): string[] {
  const names: string[] = [];
  timeline.walk(range, ({ name }) => {
    names.push(name);
    return true;
  });
  return names;
}

const time = fc.integer({ min: 0, max: 30 });
const change = fc.oneof(
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('add' as const), time }) },
  { weight: 3, arbitrary: fc.record({ kind: fc.constant('remove' as const), index: fc.nat() }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('drop' as const), time, limit: fc.integer({ min: 0, max: 60 }) }),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('compact' as const) }) },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('addAll' as const), times: fc.array(time, { maxLength: 9 }) }),
  },
);
const range = fc.record({
  from: time,
  to: time,
  order: fc.constantFrom<Order>('earliestFirst', 'latestFirst'),
  after: fc.option(fc.record({ time, seq: fc.integer({ min: 0, max: 60 }) }), { nil: undefined }),
});

test('a range of the timeline equals that of a sorted array after any sequence of changes', () => {
  fc.assert(
    fc.property(
      fc.array(change, { maxLength: 60 }),
      fc.array(range, { minLength: 1, maxLength: 8 }),
      (changes, ranges) => {
        const timeline = new RowTimeline<{ name: string }>();
        let rows: Row[] = [];
        for (const [index, each] of changes.entries()) {
          const name = `row ${index}`;
          if (each.kind === 'add') rows.push({ name, ...timeline.add(each.time, { name }) });
          if (each.kind === 'compact') timeline.compact();
          if (each.kind === 'addAll') {
            // Sequence numbers follow the order of the arguments.
            const seq = timeline.add(0, { name: 'removed' }).seq + 1;
            expect(timeline.remove({ time: 0, seq: seq - 1 })).toBe(true);
            const added = each.times.map((time, at) => ({ name: `row ${index}.${at}`, time, seq: seq + at }));
            timeline.addAll(added.map(row => [row.time, row]));
            rows.push(...added);
          }
          if (each.kind === 'remove' && rows.length > 0) {
            const [removed] = rows.splice(each.index % rows.length, 1) as [Row];
            expect(timeline.remove(removed)).toBe(true);
            expect(timeline.remove(removed)).toBe(false);
          }
          if (each.kind === 'drop') {
            timeline.dropEarliest(each.time, each.limit);
            rows = rows.toSorted((a, b) => a.time - b.time || a.seq - b.seq).filter(row => row.time >= each.time);
            rows = rows.slice(Math.max(0, rows.length - each.limit));
          }
        }
        expect(timeline.size).toBe(rows.length);
        for (const each of ranges) expect(walked(timeline, each)).toEqual(naive(rows, each));
      },
    ),
    { numRuns: runs(300) },
  );
});

test('removing most rows keeps the remaining rows in order, and each can still be removed', () => {
  const timeline = new RowTimeline<{ name: string }>();
  const places = Array.from({ length: 20_000 }, (_, index) => timeline.add(index, { name: `${index}` }));
  for (const [index, place] of places.entries()) if (index % 100 !== 0) timeline.remove(place);
  expect(timeline.size).toBe(200);
  const all: TimelineRange = { from: 0, to: Number.POSITIVE_INFINITY, order: 'earliestFirst' };
  expect(walked(timeline, all)).toEqual(Array.from({ length: 200 }, (_, index) => `${index * 100}`));
  expect(walked(timeline, { ...all, from: 900, to: 1100, order: 'latestFirst' })).toEqual(['1100', '1000', '900']);
  expect(timeline.remove(places[300] as Position)).toBe(true);
  expect(timeline.size).toBe(199);
});

test('a row is found by its relative position in the timeline (0 to 1), even next to removed rows', () => {
  const timeline = new RowTimeline<{ name: string }>();
  const places = Array.from({ length: 10 }, (_, index) => timeline.add(index, { name: `${index}` }));
  expect(timeline.at(0.35)?.value.name).toBe('3');
  timeline.remove(places[3] as Position);
  timeline.remove(places[4] as Position);
  expect(timeline.at(0.35)?.value.name).toBe('5');
  timeline.remove(places[9] as Position);
  expect(timeline.at(0.95)).toBeUndefined();
});
