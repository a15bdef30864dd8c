/** Some 64-bit hashes in one flat array, for a short time: a Set of them makes an object of each. */
export interface HashSet {
  /** `hashes`: two words of each, as they are in memory; `index`: which of them. */
  add(hashes: Int32Array, index: number): void;
  has(hashes: Int32Array, index: number): boolean;
}

/** The two words of each of these. */
export const wordsOf = ({ buffer, byteOffset, length }: BigUint64Array) =>
  new Int32Array(buffer, byteOffset, length * 2);

/** Has room for `most`. */
export function createHashSet(most: number): HashSet {
  const mask = 2 ** Math.ceil(Math.log2(most * 2 + 2)) - 1;
  const words = new Int32Array((mask + 1) * 2);
  /** A free slot has zeros, and so has this hash. */
  let hasZero = false;

  /** The slot of the hash, or the free one where it belongs. */
  function slotOf(low: number, high: number): number {
    for (let slot = low & mask; ; slot = (slot + 1) & mask) {
      const first = words[slot * 2];
      const second = words[slot * 2 + 1];
      if ((first === low && second === high) || (first === 0 && second === 0)) return slot;
    }
  }

  return {
    add(hashes, index) {
      const low = hashes[index * 2] as number;
      const high = hashes[index * 2 + 1] as number;
      if (low === 0 && high === 0) hasZero = true;
      const slot = slotOf(low, high);
      words[slot * 2] = low;
      words[slot * 2 + 1] = high;
    },
    has(hashes, index) {
      const low = hashes[index * 2] as number;
      const high = hashes[index * 2 + 1] as number;
      if (low === 0 && high === 0) return hasZero;
      const slot = slotOf(low, high);
      return words[slot * 2] === low && words[slot * 2 + 1] === high;
    },
  };
}
