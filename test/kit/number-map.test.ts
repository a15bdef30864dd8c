import fc from 'fast-check';
import { expect, it } from 'vitest';
import { createNumberMap } from '../../src/kit/number-map.ts';

it('is a map', () => {
  // Few low halves and few high ones: many share a part and a place.
  const word = fc.oneof(fc.constantFrom(0n, 1n, 256n, 0xffff_ffffn), fc.bigInt({ min: 0n, max: 600n }));
  const hash = fc.tuple(word, word).map(([high, low]) => (high << 32n) | low);
  fc.assert(
    fc.property(fc.array(fc.tuple(hash, fc.double()), { maxLength: 300 }), entries => {
      const [ours, builtIn] = [createNumberMap(), new Map<bigint, number>()];
      for (const [hash, value] of entries) {
        expect(ours.set(hash, value)).toBe(builtIn.get(hash));
        builtIn.set(hash, value);
        expect(ours.size).toBe(builtIn.size);
      }
      ours.close();
    }),
  );
});
