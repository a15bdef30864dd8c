/** Numbers by 64-bit hashes, in flat arrays: 23 to 45 bytes each, where a Map of strings takes a hundred and more. */
export interface NumberMap {
  readonly size: number;
  /** Sets a number; gives the one before, or undefined where there was none. */
  set(hash: bigint, value: number): number | undefined;
  /** Gives the memory back now, and not when the garbage collector gets to it: of many megabytes that makes a difference. */
  close(): void;
}

/** Parts grow one by one, a few microseconds each: the arrays of a million, grown at once, would hold everything else up. */
const PARTS = 256;
const SMALLEST = 8;

interface Part {
  size: number;
  values: Float64Array<ArrayBuffer>;
  /** Two words of a slot's hash, the low half first. */
  words: Uint32Array;
  /** Whether the slot is taken: a hash may be zero. */
  taken: Uint8Array;
}

function createPart(slots: number): Part {
  const memory = new ArrayBuffer(slots * 17);
  return {
    size: 0,
    values: new Float64Array(memory, 0, slots),
    words: new Uint32Array(memory, slots * 8, slots * 2),
    taken: new Uint8Array(memory, slots * 16, slots),
  };
}

const free = ({ values: { buffer } }: Part) => void buffer.transfer(0);

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

/** The same, with twice the slots; the part itself is gone then. */
function grown(old: Part): Part {
  const { words, values, taken } = old;
  const part = createPart(taken.length * 2);
  for (let slot = 0; slot < taken.length; slot += 1) {
    if (taken[slot] === 1) put(part, words[slot * 2] as number, words[slot * 2 + 1] as number, values[slot] as number);
  }
  free(old);
  return part;
}

const scratch = new BigUint64Array(1);
const halves = new Uint32Array(scratch.buffer);

export function createNumberMap(): NumberMap {
  const parts = new Map<number, Part>();
  let size = 0;
  return {
    get size() {
      return size;
    },
    set(hash, value) {
      scratch[0] = hash;
      const [low = 0, high = 0] = halves;
      let part = parts.get(low % PARTS) ?? createPart(SMALLEST);
      if (part.size * 4 >= part.taken.length * 3) part = grown(part);
      parts.set(low % PARTS, part);
      const before = put(part, low, high, value);
      if (before === undefined) size += 1;
      return before;
    },
    close() {
      for (const part of parts.values()) free(part);
      parts.clear();
    },
  };
}
