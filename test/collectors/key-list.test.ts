import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { largestOf, OTHER } from '../../src/collectors/cap.ts';
import { createKeyList } from '../../src/collectors/key-list.ts';
import { runs } from '../support/runs.ts';

type Selection = Parameters<typeof createKeyList>[0];
interface Key {
  readonly key: string;
  readonly waitlistSize: number;
}
type Rounds = readonly (readonly Key[])[];

/** Reads lists sequentially. */
function readAll(selection: Selection, rounds: Rounds) {
  return rounds.map(rows => {
    const list = createKeyList(selection);
    for (const row of rows) list.add(row);
    return list.end(0).facts;
  });
}

/** Reference implementation. */
function atOnce({ exclude, maxSeries, watch }: Selection, rounds: Rounds) {
  return rounds.map(rows => {
    const all = new Map(rows.map(row => [row.key, row]));
    const wanted = [...all.values()].filter(({ key }) => watch.includes(key) || !exclude.includes(key));
    const ranked = wanted.filter(({ key }) => key !== OTHER && !watch.includes(key));
    const sizes = new Map(ranked.map(({ key, waitlistSize }) => [key, waitlistSize]));
    const largest = largestOf([...sizes], Math.max(0, maxSeries - watch.length));
    const shown = wanted.filter(({ key }) => largest.has(key) || (watch.includes(key) && key !== OTHER));
    const rest = wanted.filter(row => !shown.includes(row));
    const beyondCapWaiting = rest.reduce((sum, { waitlistSize }) => sum + waitlistSize, 0);
    return { keys: all.size, shown, beyondCap: rest.length, beyondCapWaiting };
  });
}

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
const rounds = (rows: fc.Arbitrary<readonly Key[]>) => fc.array(rows, { minLength: 1, maxLength: 5 });

describe('key lists', () => {
  it('shows the same keys as a reference implementation', () => {
    const distinct = fc.uniqueArray(row, { maxLength: 60, selector: ({ key }) => key });
    fc.assert(
      fc.property(selection, rounds(distinct), (selection, lists) => {
        expect(readAll(selection, lists)).toEqual(atOnce(selection, lists));
      }),
      { numRuns: runs(150) },
    );
  });

  it('a key that is listed twice counts once, and its last row is used', () => {
    fc.assert(
      fc.property(selection, rounds(fc.array(row, { maxLength: 200 })), (selection, lists) => {
        const summary = ({ keys, shown, beyondCap, beyondCapWaiting }: ReturnType<typeof readAll>[0]) => ({
          keys,
          count: shown.length + beyondCap,
          waiting: shown.reduce((sum, { waitlistSize = 0 }) => sum + waitlistSize, beyondCapWaiting),
        });
        expect(readAll(selection, lists).map(summary)).toEqual(atOnce(selection, lists).map(summary));
        for (const [index, { shown }] of readAll(selection, lists).entries()) {
          for (const entry of shown) expect(lists[index]?.findLast(({ key }) => key === entry.key)).toBe(entry);
        }
      }),
      { numRuns: runs(150) },
    );
  });

  it('shows the largest of 100,000 keys and each watched key, and sums the others', () => {
    const list = createKeyList({ include: [], exclude: [], maxSeries: 10, watch: ['key-5'] });
    for (let index = 0; index < 100_000; index += 1) list.add({ key: `key-${index}`, waitlistSize: index });
    const { facts } = list.end(0);
    expect(facts).toMatchObject({
      keys: 100_000,
      beyondCap: 99_990,
      beyondCapWaiting: (99_999 * 100_000) / 2 - 899_955 - 5,
    });
    expect(facts.shown.map(({ waitlistSize }) => waitlistSize)).toEqual([
      5, 99_991, 99_992, 99_993, 99_994, 99_995, 99_996, 99_997, 99_998, 99_999,
    ]);
  });
});

it('shows the key with the longest current waitlist after larger keys were listed again with shorter waitlists', () => {
  const options = { include: [], exclude: [], maxSeries: 1, watch: [] };
  const list = createKeyList(options);
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
  for (const [key, waitlistSize] of sizes) list.add({ key, waitlistSize });
  expect(list.end(0).facts.shown.map(({ key }) => key)).toEqual(['f']);
});
