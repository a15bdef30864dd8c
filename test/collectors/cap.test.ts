import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { chooseMembers } from '../../src/collectors/cap.ts';
import { runs } from '../support/runs.ts';

const sizesOf = (...sizes: number[]) => sizes.map((size, index) => [`k${index}`, size] as const);
const names = (members: ReadonlyMap<string, number>) => [...members.keys()].sort();

/** Reference implementation of the cap. */
function bySorting(entries: ReturnType<typeof sizesOf>, before: ReadonlyMap<string, number>, cap: number) {
  const sizes = new Map(entries);
  const ranked = [...sizes.keys()].sort((a, b) => (sizes.get(b) ?? 0) - (sizes.get(a) ?? 0) || (a < b ? -1 : 1));
  if (ranked.length <= cap) return new Map(ranked.map(name => [name, 0]));
  const stay = ranked.flatMap((name, rank): [string, number][] => {
    const rounds = rank < cap * 1.1 ? 0 : (before.get(name) ?? 0) + 1;
    return before.has(name) && rounds < 3 ? [[name, rounds]] : [];
  });
  const rest = ranked.filter(name => !before.has(name)).map((name): [string, number] => [name, 0]);
  return new Map([...stay.slice(0, cap), ...rest].slice(0, cap));
}

describe('values shown under a cap', () => {
  it('chooseMembers chooses all values if the cap permits, otherwise the largest ones', () => {
    expect(names(chooseMembers(sizesOf(1, 2), new Map(), 2))).toEqual(['k0', 'k1']);
    expect(names(chooseMembers(sizesOf(1, 5, 3, 5), new Map(), 2))).toEqual(['k1', 'k3']);
    expect(names(chooseMembers(sizesOf(1, 1, 1), new Map(), 2))).toEqual(['k0', 'k1']);
  });

  it('chooseMembers keeps a value that ranks just beyond the cap, and evicts one beyond the margin in the third round', () => {
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

  it('chooseMembers chooses the same values as a reference that sorts all values', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 12 }),
        fc.array(fc.array(fc.nat(30), { maxLength: 400 }), { minLength: 1, maxLength: 5 }),
        (cap, rounds) => {
          let [members, sorted]: ReadonlyMap<string, number>[] = [new Map(), new Map()];
          for (const round of rounds) {
            const sizes = sizesOf(...round);
            members = chooseMembers(sizes, members as ReadonlyMap<string, number>, cap);
            sorted = bySorting(sizes, sorted as ReadonlyMap<string, number>, cap);
            expect(new Map([...members].sort())).toEqual(new Map([...sorted].sort()));
          }
        },
      ),
      { numRuns: runs(500) },
    );
  });

  it('chooseMembers chooses only existing values, and as many as the cap permits', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 6 }),
        fc.array(fc.dictionary(fc.constantFrom(...'abcdefghij'), fc.nat(9)), { minLength: 1, maxLength: 8 }),
        (cap, rounds) => {
          let members: ReadonlyMap<string, number> = new Map();
          for (const round of rounds) {
            const sizes = new Map(Object.entries(round));
            members = chooseMembers([...sizes], members, cap);
            expect(members.size).toBe(Math.min(cap, sizes.size));
            for (const name of members.keys()) expect(sizes.has(name)).toBe(true);
          }
        },
      ),
    );
  });
});
