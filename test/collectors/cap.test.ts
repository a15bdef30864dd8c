import fc from 'fast-check';
import { expect, it } from 'vitest';
import { largestOf } from '../../src/collectors/cap.ts';
import { runs } from '../support/runs.ts';

const sizesOf = (...sizes: number[]) => sizes.map((size, index) => [`k${index}`, size] as const);
const names = (sizes: ReturnType<typeof sizesOf>, cap: number) => [...largestOf(sizes, cap)];

it('largestOf returns all names if the cap permits, otherwise the names with the largest values', () => {
  expect(names(sizesOf(1, 2), 2)).toEqual(['k1', 'k0']);
  expect(names(sizesOf(1, 5, 3, 5), 2)).toEqual(['k1', 'k3']);
  expect(names(sizesOf(1, 1, 1), 2)).toEqual(['k0', 'k1']);
});

it('largestOf returns the same names as a sort of all values', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 12 }), fc.array(fc.nat(30), { maxLength: 400 }), (cap, values) => {
      const sorted = sizesOf(...values).toSorted(([a, x], [b, y]) => y - x || (a < b ? -1 : 1));
      expect(names(sizesOf(...values), cap)).toEqual(sorted.slice(0, cap).map(([name]) => name));
    }),
    { numRuns: runs(500) },
  );
});
