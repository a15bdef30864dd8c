import fc from 'fast-check';
import { expect, it } from 'vitest';
import { largestOf, OTHER } from '../../../src/collectors/cap.ts';
import { createFlowControl, flowControl } from '../../../src/collectors/flow-control/flow-control.ts';
import { chooseKeys } from '../../../src/collectors/flow-control/key-list.ts';
import type { Reader } from '../../../src/upstream/api.ts';
import { runs } from '../../support/runs.ts';

type Selection = Parameters<typeof chooseKeys>[2];
interface Key {
  readonly key: string;
  readonly waitlistSize: number;
}
/** Reference implementation. */
function bySorting({ exclude, maxSeries, watch }: Selection, rows: readonly Key[]) {
  const wanted = rows.filter(({ key }) => watch.includes(key) || !exclude.includes(key));
  const ranked = wanted.filter(({ key }) => key !== OTHER && !watch.includes(key));
  const sizes = ranked.map(({ key, waitlistSize }) => [key, waitlistSize] as const);
  const largest = largestOf(sizes, Math.max(0, maxSeries - watch.length));
  const shown = wanted.filter(({ key }) => largest.has(key) || (watch.includes(key) && key !== OTHER));
  const rest = wanted.filter(row => !shown.includes(row));
  const beyondCapWaiting = rest.reduce((sum, { waitlistSize }) => sum + waitlistSize, 0);
  return { keys: rows.length, shown, beyondCap: rest.length, beyondCapWaiting };
}

const toMap = (rows: readonly Key[]) => new Map(rows.map(row => [row.key, row]));

const key = fc.oneof(
  { weight: 9, arbitrary: fc.nat(60).map(number => `k${number}`) },
  fc.constantFrom(OTHER, 'w1', 'w2', 'x1', ''),
);
const row = fc.record({ key, waitlistSize: fc.nat(30) });
const selection = fc.record({
  include: fc.constant([]),
  exclude: fc.constantFrom([], ['x1', 'k7']),
  maxSeries: fc.integer({ min: 1, max: 12 }),
  watch: fc.constantFrom([], ['w1'], ['w1', 'k3', OTHER]),
});

it('shows the same keys as a reference implementation', () => {
  const distinct = fc.uniqueArray(row, { maxLength: 60, selector: ({ key }) => key });
  fc.assert(
    fc.property(selection, distinct, (selection, rows) => {
      expect(chooseKeys(toMap(rows), 0, selection)).toEqual(bySorting(selection, rows));
    }),
    { numRuns: runs(300) },
  );
});

it('shows the largest of 100,000 keys and each watched key, and sums the others', () => {
  const rows = Array.from({ length: 100_000 }, (_, index) => ({ key: `key-${index}`, waitlistSize: index }));
  const facts = chooseKeys(toMap(rows), 0, { include: [], exclude: [], maxSeries: 10, watch: ['key-5'] });
  expect(facts).toMatchObject({
    keys: 100_000,
    beyondCap: 99_990,
    beyondCapWaiting: (99_999 * 100_000) / 2 - 899_955 - 5,
  });
  expect(facts.shown.map(({ waitlistSize }) => waitlistSize)).toEqual([
    5, 99_991, 99_992, 99_993, 99_994, 99_995, 99_996, 99_997, 99_998, 99_999,
  ]);
});

it('a key that is listed twice counts once, and its last row is used', async () => {
  const sizes: [string, number][] = [
    ['a', 100],
    ['b', 99],
    ['c', 1],
    ['d', 1],
    ['e', 1],
    ['a', 0],
    ['b', 0],
    ['f', 50],
  ];
  const api = {
    async flowControl(_: AbortSignal, add: (entry: Key) => void) {
      for (const [key, waitlistSize] of sizes) add({ key, waitlistSize });
      return 0;
    },
    globalParallelism: async () => ({}),
  } as unknown as Reader;
  const collector = createFlowControl(flowControl.options.parse({ maxSeries: 1 }));
  const memory = collector.restore(new Map());
  const { signal } = new AbortController();
  const { fold } = await collector.observe({ api, round: 'list', now: 0, memory, walk: undefined, signal });
  const { facts } = fold(memory);
  expect(facts?.shown.map(({ key }) => key)).toEqual(['f']);
  expect(facts).toMatchObject({ keys: 6, beyondCap: 5, beyondCapWaiting: 3 });
});
