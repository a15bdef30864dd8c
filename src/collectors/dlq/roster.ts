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

/**
 * Entries of a selection as 64-bit hashes in flat arrays, at up to 29 bytes each. A million strings would take 250 MB. A new
 * entry is a newcomer until it is kept. A walk marks each listed entry; at its end, unmarked entries are removed.
 */
export class Roster {
  readonly #chunks = new Map<number, Chunk>();
  readonly #touched = new Set<number>();
  #open = 0;
  #size = 0;
  #newcomers = 0;
  readonly #fresh = new Set<number>();
  /** Hash table of places (chunk number × CHUNK + index + 1) with linear probing. A free slot is 0. */
  #table = new Uint32Array(SMALLEST);

  constructor(stored: ReadonlyMap<number, string> = new Map()) {
    for (const [number, text] of stored) {
      const words = new Uint32Array(Uint8Array.from(Buffer.from(text, 'base64')).buffer);
      if (words.length % WIDTH !== 0) throw new RangeError('not a whole number of entries');
      this.#open = number;
      for (let at = 0; at < words.length; at += WIDTH) {
        const [low = 0, high = 0, seconds = 0] = words.subarray(at, at + WIDTH);
        this.#insert(this.#slotOf(low, high), low, high, seconds, true);
      }
    }
    this.#touched.clear();
  }

  #wordsAt(place: number) {
    const { words } = this.#chunks.get(Math.floor((place - 1) / CHUNK)) as Chunk;
    return { words, at: ((place - 1) % CHUNK) * WIDTH };
  }

  /** Returns the entry's slot in the table, or the free slot for it. */
  #slotOf(low: number, high: number): number {
    const mask = this.#table.length - 1;
    for (let slot = low & mask; ; slot = (slot + 1) & mask) {
      const place = this.#table[slot] as number;
      if (place === 0) return slot;
      const { words, at } = this.#wordsAt(place);
      if (words[at] === low && words[at + 1] === high) return slot;
    }
  }

  /** Finds the slot and place of an entry. `low`, `high`: halves of the hash; `place`: 0 for an unknown entry. */
  #find(id: bigint) {
    scratch[0] = id;
    const [low = 0, high = 0] = halves;
    const slot = this.#slotOf(low, high);
    return { low, high, slot, place: this.#table[slot] as number };
  }

  /** Rebuilds the table so that it is at most a quarter full. */
  #index(): void {
    let length = SMALLEST;
    while (this.#size * 4 > length) length *= 2;
    this.#table = new Uint32Array(length);
    for (const [number, { words, count }] of this.#chunks) {
      for (let at = 0; at < count; at += 1) {
        let slot = (words[at * WIDTH] as number) & (length - 1);
        // Entries are distinct: each takes the next free slot.
        while (this.#table[slot] !== 0) slot = (slot + 1) & (length - 1);
        this.#table[slot] = number * CHUNK + at + 1;
      }
    }
  }

  #chunkToFill(): Chunk {
    let chunk = this.#chunks.get(this.#open);
    if (chunk && chunk.count === CHUNK) {
      this.#open =
        [...this.#chunks].find(([, { count }]) => count < CHUNK)?.[0] ?? Math.max(...this.#chunks.keys()) + 1;
      chunk = this.#chunks.get(this.#open);
    }
    chunk ??= { words: new Uint32Array(SMALLEST * WIDTH), marks: new Uint8Array(SMALLEST), count: 0 };
    this.#chunks.set(this.#open, chunk);
    if (chunk.count === chunk.marks.length) {
      const { words, marks } = chunk;
      chunk.words = new Uint32Array(words.length * 2);
      chunk.words.set(words);
      chunk.marks = new Uint8Array(marks.length * 2);
      chunk.marks.set(marks);
    }
    return chunk;
  }

  #insert(slot: number, low: number, high: number, seconds: number, isKept: boolean): void {
    const chunk = this.#chunkToFill();
    const at = chunk.count * WIDTH;
    chunk.words[at] = low;
    chunk.words[at + 1] = high;
    chunk.words[at + 2] = seconds;
    chunk.marks[chunk.count] = isKept ? SEEN : SEEN | NEW;
    this.#table[slot] = this.#open * CHUNK + chunk.count + 1;
    chunk.count += 1;
    (isKept ? this.#touched : this.#fresh).add(this.#open);
    if (!isKept) this.#newcomers += 1;
    this.#size += 1;
    // Keep the table at most half full, so that probing stays short.
    if (this.#size * 2 > this.#table.length) this.#index();
  }

  #removeWhere(isRemoved: (mark: number) => boolean, onRemoved?: (chunk: number, seconds: number) => void): void {
    const before = this.#size;
    for (const [number, chunk] of this.#chunks) {
      const { words, marks } = chunk;
      for (let at = chunk.count - 1; at >= 0; at -= 1) {
        if (!isRemoved(marks[at] as number)) continue;
        onRemoved?.(number, words[at * WIDTH + 2] as number);
        chunk.count -= 1;
        this.#size -= 1;
        // The last entry fills the gap.
        words.copyWithin(at * WIDTH, chunk.count * WIDTH, (chunk.count + 1) * WIDTH);
        marks[at] = marks[chunk.count] as number;
      }
      if (chunk.count === 0) this.#chunks.delete(number);
    }
    if (this.#size < before) this.#index();
  }

  get size(): number {
    return this.#size - this.#newcomers;
  }

  has(id: bigint): boolean {
    return this.#find(id).place !== 0;
  }

  /** Returns the entry time, or the first sighting (ms, rounded down to seconds); undefined for an unknown entry. */
  since(id: bigint): number | undefined {
    const { place } = this.#find(id);
    if (place === 0) return undefined;
    const { words, at } = this.#wordsAt(place);
    return (words[at + 2] as number) * 1000;
  }

  /**
   * Marks an entry as seen and returns its previous state: `first` (unknown), `kept` (a newcomer until this call), `again`
   * (already marked) or `known`. Without `isKept`, an unknown entry becomes a newcomer.
   */
  see(id: bigint, since: number, isKept: boolean): 'first' | 'known' | 'again' | 'kept' {
    const { low, high, slot, place } = this.#find(id);
    if (place === 0) {
      this.#insert(slot, low, high, Math.floor(since / 1000), isKept);
      return 'first';
    }
    const number = Math.floor((place - 1) / CHUNK);
    const { marks } = this.#chunks.get(number) as Chunk;
    const at = (place - 1) % CHUNK;
    const mark = marks[at] as number;
    marks[at] = isKept ? SEEN : mark | SEEN;
    if (isKept && (mark & NEW) !== 0) {
      this.#newcomers -= 1;
      this.#touched.add(number);
      return 'kept';
    }
    return (mark & SEEN) === 0 ? 'known' : 'again';
  }

  clearMarks(): void {
    for (const { marks, count } of this.#chunks.values())
      for (let at = 0; at < count; at += 1) marks[at] = (marks[at] as number) & NEW;
  }

  /** Keeps the newcomers. Calls `onKept` for each, and returns how many were kept. */
  keepNewcomers(onKept?: (id: bigint) => void): number {
    let kept = 0;
    for (const number of this.#fresh) {
      const chunk = this.#chunks.get(number);
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
      this.#touched.add(number);
    }
    this.#fresh.clear();
    this.#newcomers = 0;
    return kept;
  }

  dropNewcomers(): void {
    if (this.#newcomers > 0) this.#removeWhere(mark => (mark & NEW) !== 0);
    this.#newcomers = 0;
    this.#fresh.clear();
  }

  /** Removes unmarked entries, except up to `maxSpared`, and returns how many were spared. Times are in milliseconds. */
  removeUnmarked(onRemoved: (since: number) => void, maxSpared = 0): number {
    let spared = 0;
    for (const { marks, count } of this.#chunks.values()) {
      for (let at = 0; at < count && spared < maxSpared; at += 1) {
        if (marks[at] !== 0) continue;
        marks[at] = SEEN;
        spared += 1;
      }
    }
    this.#removeWhere(
      mark => mark === 0,
      (number, seconds) => {
        this.#touched.add(number);
        onRemoved(seconds * 1000);
      },
    );
    return spared;
  }

  drainTouched(): number[] {
    const numbers = [...this.#touched];
    this.#touched.clear();
    return numbers;
  }

  chunk(number: number): string | undefined {
    const chunk = this.#chunks.get(number);
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
  }
}
