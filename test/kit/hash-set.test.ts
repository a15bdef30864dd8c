import fc from 'fast-check';
import { expect, it } from 'vitest';
import { createHashSet, wordsOf } from '../../src/kit/hash-set.ts';
import { runs } from '../support/runs.ts';

/** Few, so that some are equal, some share a half or all of a slot, and zero is among them. */
const hash = fc.oneof(
  fc.bigInt({ min: 0n, max: 2n }),
  fc.bigInt({ min: 0n, max: 2n }).map(high => high << 32n),
  fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
);
const hashes = fc.array(hash, { maxLength: 40 });

it('has what was added, and nothing else', () => {
  fc.assert(
    fc.property(hashes, hashes, (added, asked) => {
      const set = createHashSet(added.length);
      const words = wordsOf(BigUint64Array.from(added));
      for (const index of added.keys()) set.add(words, index);
      const all = [...added, ...asked];
      // The words of a part of an array.
      const known = wordsOf(BigUint64Array.from([7n, ...all]).subarray(1));
      expect(all.map((_, index) => set.has(known, index))).toEqual(all.map(each => added.includes(each)));
    }),
    { numRuns: runs(200) },
  );
});
