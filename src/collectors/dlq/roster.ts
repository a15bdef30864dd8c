/** Entries of a selection as 64-bit hashes in flat arrays, at up to 29 bytes each. A million strings would take 250 MB. */
export type Roster = ReturnType<typeof createRoster>;

/** Number of entries per row of the store. Small enough to rewrite the row when an entry is removed. */
const CHUNK = 4096;
const SMALLEST = 64;
/** 32-bit words per entry: low and high half of its hash, and its time in seconds since the Unix epoch. */
const WIDTH = 3;
const [SEEN, NEW] = [1, 2];

interface Chunk {
  words: Uint32Array;
  marks: Uint8Array;
  count: number;
}

const scratch = new BigUint64Array(1);
const halves = new Uint32Array(scratch.buffer);

export function createRoster(stored: ReadonlyMap<number, string> = new Map()) {
  const chunks = new Map<number, Chunk>();
  const touched = new Set<number>();
  let open = 0;
  let size = 0;
  let newcomers = 0;
  const fresh = new Set<number>();
  /** Hash table of places (chunk number × CHUNK + index + 1) with linear probing. A free slot is 0. */
  let table = new Uint32Array(SMALLEST);

  const wordsAt = (place: number) => {
    const { words } = chunks.get(Math.floor((place - 1) / CHUNK)) as Chunk;
    return { words, at: ((place - 1) % CHUNK) * WIDTH };
  };

  /** Returns the entry's slot in the table, or the free slot for it. */
  function slotOf(low: number, high: number): number {
    const mask = table.length - 1;
    for (let slot = low & mask; ; slot = (slot + 1) & mask) {
      const place = table[slot] as number;
      if (place === 0) return slot;
      const { words, at } = wordsAt(place);
      if (words[at] === low && words[at + 1] === high) return slot;
    }
  }

  /** Finds the slot and place of an entry. `low`, `high`: halves of the hash; `place`: 0 for an unknown entry. */
  function find(id: bigint) {
    scratch[0] = id;
    const [low = 0, high = 0] = halves;
    const slot = slotOf(low, high);
    return { low, high, slot, place: table[slot] as number };
  }

  /** Rebuilds the table so that it is at most a quarter full. */
  function index(): void {
    let length = SMALLEST;
    while (size * 4 > length) length *= 2;
    table = new Uint32Array(length);
    for (const [number, { words, count }] of chunks) {
      for (let at = 0; at < count; at += 1) {
        let slot = (words[at * WIDTH] as number) & (length - 1);
        // Entries are distinct: each takes the next free slot.
        while (table[slot] !== 0) slot = (slot + 1) & (length - 1);
        table[slot] = number * CHUNK + at + 1;
      }
    }
  }

  function chunkToFill(): Chunk {
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

  function insert(slot: number, low: number, high: number, seconds: number, isKept: boolean): void {
    const chunk = chunkToFill();
    const at = chunk.count * WIDTH;
    chunk.words[at] = low;
    chunk.words[at + 1] = high;
    chunk.words[at + 2] = seconds;
    chunk.marks[chunk.count] = isKept ? SEEN : SEEN | NEW;
    table[slot] = open * CHUNK + chunk.count + 1;
    chunk.count += 1;
    (isKept ? touched : fresh).add(open);
    if (!isKept) newcomers += 1;
    size += 1;
    // Keep the table at most half full, so that probing stays short.
    if (size * 2 > table.length) index();
  }

  function removeWhere(
    isRemoved: (mark: number) => boolean,
    onRemoved?: (chunk: number, seconds: number) => void,
  ): void {
    const before = size;
    for (const [number, chunk] of chunks) {
      const { words, marks } = chunk;
      for (let at = chunk.count - 1; at >= 0; at -= 1) {
        if (!isRemoved(marks[at] as number)) continue;
        onRemoved?.(number, words[at * WIDTH + 2] as number);
        chunk.count -= 1;
        size -= 1;
        // The last entry fills the gap.
        words.copyWithin(at * WIDTH, chunk.count * WIDTH, (chunk.count + 1) * WIDTH);
        marks[at] = marks[chunk.count] as number;
      }
      if (chunk.count === 0) chunks.delete(number);
    }
    if (size < before) index();
  }

  for (const [number, text] of stored) {
    const words = new Uint32Array(Uint8Array.from(Buffer.from(text, 'base64')).buffer);
    if (words.length % WIDTH !== 0) throw new RangeError('not a whole number of entries');
    open = number;
    for (let at = 0; at < words.length; at += WIDTH) {
      const [low = 0, high = 0, seconds = 0] = words.subarray(at, at + WIDTH);
      insert(slotOf(low, high), low, high, seconds, true);
    }
  }
  touched.clear();

  return {
    get size(): number {
      return size - newcomers;
    },
    get newChunks(): number {
      return fresh.size;
    },
    has: (id: bigint): boolean => find(id).place !== 0,
    /** Returns the entry time, or the first sighting (ms, rounded down to seconds); undefined for an unknown entry. */
    since(id: bigint): number | undefined {
      const { place } = find(id);
      if (place === 0) return undefined;
      const { words, at } = wordsAt(place);
      return (words[at + 2] as number) * 1000;
    },
    /**
     * Marks an entry as seen and returns its previous state. `first`: unknown; without `isKept`, the entry is a newcomer until kept.
     * `kept`: was a newcomer until this call. `again`: already marked. `known`: anything else.
     */
    see(id: bigint, since: number, isKept: boolean): 'first' | 'known' | 'again' | 'kept' {
      const { low, high, slot, place } = find(id);
      if (place === 0) {
        insert(slot, low, high, Math.floor(since / 1000), isKept);
        return 'first';
      }
      const number = Math.floor((place - 1) / CHUNK);
      const { marks } = chunks.get(number) as Chunk;
      const at = (place - 1) % CHUNK;
      const mark = marks[at] as number;
      marks[at] = isKept ? SEEN : mark | SEEN;
      if (isKept && (mark & NEW) !== 0) {
        newcomers -= 1;
        touched.add(number);
        return 'kept';
      }
      return (mark & SEEN) === 0 ? 'known' : 'again';
    },
    clearMarks(): void {
      for (const { marks, count } of chunks.values())
        for (let at = 0; at < count; at += 1) marks[at] = (marks[at] as number) & NEW;
    },
    /** Keeps the newcomers in up to `maxChunks` chunks and calls `onKept` for each newcomer. Returns how many were kept. */
    keepNewcomers(maxChunks: number, onKept?: (id: bigint) => void): number {
      let kept = 0;
      for (const number of [...fresh].slice(0, maxChunks)) {
        fresh.delete(number);
        const chunk = chunks.get(number);
        if (!chunk) continue;
        const { words, marks, count } = chunk;
        for (let at = 0; at < count; at += 1) {
          if (((marks[at] as number) & NEW) === 0) continue;
          marks[at] = SEEN;
          kept += 1;
          if (!onKept) continue;
          halves[0] = words[at * WIDTH] as number;
          halves[1] = words[at * WIDTH + 1] as number;
          onKept(scratch[0] as bigint);
        }
        touched.add(number);
      }
      newcomers -= kept;
      return kept;
    },
    dropNewcomers(): void {
      if (newcomers > 0) removeWhere(mark => (mark & NEW) !== 0);
      newcomers = 0;
      fresh.clear();
    },
    /** Removes unmarked entries, except up to `maxSpared`, and returns how many were spared. Times are in milliseconds. */
    removeUnmarked(onRemoved: (since: number) => void, maxSpared = 0): number {
      let spared = 0;
      for (const { marks, count } of chunks.values()) {
        for (let at = 0; at < count && spared < maxSpared; at += 1) {
          if (marks[at] !== 0) continue;
          marks[at] = SEEN;
          spared += 1;
        }
      }
      removeWhere(
        mark => mark === 0,
        (number, seconds) => {
          touched.add(number);
          onRemoved(seconds * 1000);
        },
      );
      return spared;
    },
    drainTouched(): number[] {
      const numbers = [...touched];
      touched.clear();
      return numbers;
    },
    chunk(number: number): string | undefined {
      const chunk = chunks.get(number);
      if (!chunk) return undefined;
      const { words, marks, count } = chunk;
      const kept = new Uint32Array(count * WIDTH);
      let length = 0;
      for (let at = 0; at < count; at += 1) {
        if (((marks[at] as number) & NEW) !== 0) continue;
        kept.set(words.subarray(at * WIDTH, (at + 1) * WIDTH), length);
        length += WIDTH;
      }
      return length === 0 ? undefined : Buffer.from(kept.buffer, 0, length * 4).toString('base64');
    },
  };
}
