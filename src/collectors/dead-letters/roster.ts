/**
 * Who is known to be in a selection of the queue: 64-bit hashes of ids in flat arrays, 13 bytes each and 4 to 16 for finding
 * them, where a million strings would take a quarter of a gigabyte.
 */
export interface Roster {
  readonly size: number;
  has(id: bigint): boolean;
  /** Marks an entry as seen. `first`: it was not known; `again`: it was marked already since the marks were cleared. */
  see(id: bigint, since: number): 'first' | 'known' | 'again';
  clearMarks(): void;
  /** How many have no mark. */
  unmarked(): number;
  /** Takes out whoever has no mark, but for `spared` of them, and tells since when each was known (milliseconds). */
  removeUnmarked(onRemoved: (since: number) => void, spared?: number): void;
  /** Numbers of the chunks that changed since the last call. */
  takeTouched(): number[];
  /** A chunk as text; undefined when it is empty. */
  chunk(number: number): string | undefined;
}

/** Rows of the store hold so many entries: small enough to be written again when one of them goes. */
const CHUNK = 4096;
const SMALLEST = 64;
/** Numbers of 32 bits that an entry has in a chunk: its hash, low half first, and seconds since the Unix epoch. */
const WIDTH = 3;

interface Chunk {
  words: Uint32Array;
  marks: Uint8Array;
  count: number;
}

const scratch = new BigUint64Array(1);
const halves = new Uint32Array(scratch.buffer);

export function createRoster(stored: ReadonlyMap<number, string> = new Map()): Roster {
  const chunks = new Map<number, Chunk>();
  const touched = new Set<number>();
  /** Number of the chunk that takes new entries. */
  let open = 0;
  let size = 0;
  /** Places: chunk number × CHUNK + index + 1, or 0. Linear probing from the low half of the hash. */
  let table = new Uint32Array(SMALLEST);

  const wordsAt = (place: number) => {
    const { words } = chunks.get(Math.floor((place - 1) / CHUNK)) as Chunk;
    return { words, at: ((place - 1) % CHUNK) * WIDTH };
  };

  /** The slot of the table that has the entry, or the free one where it belongs. */
  function slotOf(low: number, high: number): number {
    const mask = table.length - 1;
    for (let slot = low & mask; ; slot = (slot + 1) & mask) {
      const place = table[slot] as number;
      if (place === 0) return slot;
      const { words, at } = wordsAt(place);
      if (words[at] === low && words[at + 1] === high) return slot;
    }
  }

  function grow(): void {
    const before = table;
    table = new Uint32Array(before.length * 2);
    for (const place of before) {
      if (place === 0) continue;
      const { words, at } = wordsAt(place);
      table[slotOf(words[at] as number, words[at + 1] as number)] = place;
    }
  }

  /** The chunk that has room for one more. */
  function roomy(): Chunk {
    let chunk = chunks.get(open);
    if (chunk && chunk.count === CHUNK) {
      open = [...chunks].find(([, { count }]) => count < CHUNK)?.[0] ?? Math.max(...chunks.keys()) + 1;
      chunk = chunks.get(open);
    }
    chunk ??= { words: new Uint32Array(SMALLEST * WIDTH), marks: new Uint8Array(SMALLEST), count: 0 };
    chunks.set(open, chunk);
    if (chunk.count === chunk.marks.length) {
      const { words, marks } = chunk;
      chunk.words = new Uint32Array(words.length * 2);
      chunk.words.set(words);
      chunk.marks = new Uint8Array(marks.length * 2);
      chunk.marks.set(marks);
    }
    return chunk;
  }

  function insert(slot: number, low: number, high: number, seconds: number): void {
    const chunk = roomy();
    chunk.words.set([low, high, seconds], chunk.count * WIDTH);
    chunk.marks[chunk.count] = 1;
    table[slot] = open * CHUNK + chunk.count + 1;
    chunk.count += 1;
    touched.add(open);
    size += 1;
    // Half full, so that a search ends soon.
    if (size * 2 > table.length) grow();
  }

  /** Frees a slot and moves those behind it that would no longer be found. */
  function free(slot: number): void {
    const mask = table.length - 1;
    let hole = slot;
    for (let next = (hole + 1) & mask; table[next] !== 0; next = (next + 1) & mask) {
      const { words, at } = wordsAt(table[next] as number);
      const home = (words[at] as number) & mask;
      // Whether `home` lies cyclically in (hole, next]: then it can stay.
      const stays = hole <= next ? home > hole && home <= next : home > hole || home <= next;
      if (stays) continue;
      table[hole] = table[next] as number;
      hole = next;
    }
    table[hole] = 0;
  }

  function removeAt(number: number, chunk: Chunk, index: number): void {
    const { words, marks } = chunk;
    const at = index * WIDTH;
    free(slotOf(words[at] as number, words[at + 1] as number));
    chunk.count -= 1;
    size -= 1;
    const last = chunk.count * WIDTH;
    if (chunk.count !== index) {
      const slot = slotOf(words[last] as number, words[last + 1] as number);
      words.copyWithin(at, last, last + WIDTH);
      marks[index] = marks[chunk.count] as number;
      table[slot] = number * CHUNK + index + 1;
    }
    touched.add(number);
    if (chunk.count === 0) chunks.delete(number);
  }

  function unmarked(): number {
    let without = size;
    for (const { marks, count } of chunks.values()) {
      for (let index = 0; index < count; index += 1) without -= marks[index] as number;
    }
    return without;
  }

  for (const [number, text] of stored) {
    const words = new Uint32Array(Uint8Array.from(Buffer.from(text, 'base64')).buffer);
    open = number;
    for (let at = 0; at < words.length; at += WIDTH) {
      const [low = 0, high = 0, seconds = 0] = words.subarray(at, at + WIDTH);
      insert(slotOf(low, high), low, high, seconds);
    }
  }
  touched.clear();

  return {
    get size() {
      return size;
    },
    has(id) {
      scratch[0] = id;
      const [low = 0, high = 0] = halves;
      return table[slotOf(low, high)] !== 0;
    },
    see(id, since) {
      scratch[0] = id;
      const [low = 0, high = 0] = halves;
      const slot = slotOf(low, high);
      const place = table[slot] as number;
      if (place === 0) {
        insert(slot, low, high, Math.floor(since / 1000));
        return 'first';
      }
      const { marks } = chunks.get(Math.floor((place - 1) / CHUNK)) as Chunk;
      const index = (place - 1) % CHUNK;
      if (marks[index] === 1) return 'again';
      marks[index] = 1;
      return 'known';
    },
    clearMarks() {
      for (const { marks } of chunks.values()) marks.fill(0);
    },
    unmarked,
    removeUnmarked(onRemoved, spared = 0) {
      let left = unmarked() - spared;
      for (const [number, chunk] of [...chunks]) {
        for (let index = chunk.count - 1; index >= 0 && left > 0; index -= 1) {
          if (chunk.marks[index] === 1) continue;
          left -= 1;
          const seconds = chunk.words[index * WIDTH + 2] as number;
          removeAt(number, chunk, index);
          onRemoved(seconds * 1000);
        }
      }
    },
    takeTouched() {
      const numbers = [...touched];
      touched.clear();
      return numbers;
    },
    chunk(number) {
      const chunk = chunks.get(number);
      if (!chunk) return undefined;
      const { buffer, byteOffset } = chunk.words;
      return Buffer.from(buffer, byteOffset, chunk.count * WIDTH * 4).toString('base64');
    },
  };
}
