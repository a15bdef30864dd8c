/** Numbers by 64-bit hashes, in flat arrays: 23 to 45 bytes each, where a Map of strings takes a hundred and more. */
export interface NumberMap {
  readonly size: number;
  /** Sets a number; gives the one before, or undefined where there was none. */
  set(hash: bigint, value: number): number | undefined;
}

/** Parts grow one by one, a few microseconds each: the arrays of a million, grown at once, would hold everything else up. */
const PARTS = 256;
const SMALLEST = 8;

interface Part {
  size: number;
  /** Two words a slot, the low half first. */
  words: Uint32Array;
  values: Float64Array;
  /** Whether the slot is taken: a hash may be zero. */
  taken: Uint8Array;
}

const createPart = (slots: number): Part => ({
  size: 0,
  words: new Uint32Array(slots * 2),
  values: new Float64Array(slots),
  taken: new Uint8Array(slots),
});

/** The slot that has the hash, or the free one where it belongs. */
function slotOf({ words, taken }: Part, low: number, high: number): number {
  const mask = taken.length - 1;
  for (let slot = high & mask; ; slot = (slot + 1) & mask) {
    if (taken[slot] === 0 || (words[slot * 2] === low && words[slot * 2 + 1] === high)) return slot;
  }
}

function put(part: Part, low: number, high: number, value: number): number | undefined {
  const slot = slotOf(part, low, high);
  const before = part.taken[slot] === 0 ? undefined : part.values[slot];
  if (before === undefined) part.size += 1;
  part.taken[slot] = 1;
  part.words[slot * 2] = low;
  part.words[slot * 2 + 1] = high;
  part.values[slot] = value;
  return before;
}

/** The same, with twice the slots. */
function grown({ words, values, taken }: Part): Part {
  const part = createPart(taken.length * 2);
  for (let slot = 0; slot < taken.length; slot += 1) {
    if (taken[slot] === 1) put(part, words[slot * 2] as number, words[slot * 2 + 1] as number, values[slot] as number);
  }
  return part;
}

const scratch = new BigUint64Array(1);
const halves = new Uint32Array(scratch.buffer);

export function createNumberMap(): NumberMap {
  const parts = Array.from({ length: PARTS }, () => createPart(SMALLEST));
  let size = 0;
  return {
    get size() {
      return size;
    },
    set(hash, value) {
      scratch[0] = hash;
      const [low = 0, high = 0] = halves;
      let part = parts[low % PARTS] as Part;
      if (part.size * 4 >= part.taken.length * 3) parts[low % PARTS] = part = grown(part);
      const before = put(part, low, high, value);
      if (before === undefined) size += 1;
      return before;
    },
  };
}
