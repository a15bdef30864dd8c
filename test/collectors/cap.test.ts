import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { chooseMembers } from '../../src/collectors/cap.ts';

const sizesOf = (...sizes: number[]) => new Map(sizes.map((size, index) => [`k${index}`, size]));
const names = (members: ReadonlyMap<string, number>) => [...members.keys()].sort();

describe('cap', () => {
  it('shows everything below the cap, and the largest above it', () => {
    expect(names(chooseMembers(sizesOf(1, 2), new Map(), 2))).toEqual(['k0', 'k1']);
    expect(names(chooseMembers(sizesOf(1, 5, 3, 5), new Map(), 2))).toEqual(['k1', 'k3']);
    expect(names(chooseMembers(sizesOf(1, 1, 1), new Map(), 2))).toEqual(['k0', 'k1']);
  });

  it('keeps a member that falls just below the edge, and one that is clearly below it for two rounds', () => {
    const cap = 10;
    const before = chooseMembers(sizesOf(...Array.from({ length: 20 }, (_, index) => 100 - index)), new Map(), cap);
    expect(before.has('k9')).toBe(true);
    const fell = sizesOf(...Array.from({ length: 20 }, (_, index) => (index === 9 ? 1 : 100 - index)));
    const once = chooseMembers(fell, before, cap);
    const twice = chooseMembers(fell, once, cap);
    const thrice = chooseMembers(fell, twice, cap);
    expect([once.has('k9'), twice.has('k9'), thrice.has('k9')]).toEqual([true, true, false]);
    expect(thrice.has('k10')).toBe(true);
    const justBelow = sizesOf(...Array.from({ length: 20 }, (_, index) => (index === 9 ? 89.5 : 100 - index)));
    let members = before;
    for (let round = 0; round < 10; round += 1) members = chooseMembers(justBelow, members, cap);
    expect(members.has('k9')).toBe(true);
  });

  it('never shows more than the cap, nor what is not there, and always fills it', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 6 }),
        fc.array(fc.dictionary(fc.constantFrom(...'abcdefghij'), fc.nat(9)), { minLength: 1, maxLength: 8 }),
        (cap, rounds) => {
          let members: ReadonlyMap<string, number> = new Map();
          for (const round of rounds) {
            const sizes = new Map(Object.entries(round));
            members = chooseMembers(sizes, members, cap);
            expect(members.size).toBe(Math.min(cap, sizes.size));
            for (const name of members.keys()) expect(sizes.has(name)).toBe(true);
          }
        },
      ),
    );
  });
});
