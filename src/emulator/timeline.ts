export type Order = 'earliestFirst' | 'latestFirst';

/** A position in a timeline. It stays valid after the row is removed, because `seq` is never reused. */
export interface Position {
  readonly time: number;
  readonly seq: number;
}

export interface TimelineRange {
  readonly from: number;
  readonly to: number;
  readonly order: Order;
  readonly after?: Position | undefined;
}

export type Visit<T> = (value: T, time: number, seq: number) => boolean | undefined;

/** Number of removed rows up to which compaction is not worthwhile. */
const TOLERATED_DEAD = 1024;

/** Rows ordered by (time, seq). Removed rows leave tombstones, which are dropped once they are the majority. */
export class RowTimeline<T extends object> {
  #times: number[] = [];
  #seqs: number[] = [];
  #values: (T | undefined)[] = [];
  #head = 0;
  #live = 0;
  #nextSeq: number;

  /** `firstSeq`: first row number. Timelines that are read together need disjoint numbers. */
  constructor(firstSeq = 0) {
    this.#nextSeq = firstSeq;
  }

  get size(): number {
    return this.#live;
  }

  /** Adds a row: O(1) at the end, O(n) elsewhere. */
  add(time: number, value: T): Position {
    const seq = this.#nextSeq++;
    const end = this.#times.length;
    if (end === 0 || (this.#times[end - 1] as number) <= time) {
      this.#times.push(time);
      this.#seqs.push(seq);
      this.#values.push(value);
    } else {
      const index = this.#indexOf(time, seq);
      this.#times.splice(index, 0, time);
      this.#seqs.splice(index, 0, seq);
      this.#values.splice(index, 0, value);
    }
    this.#live++;
    return { time, seq };
  }

  /** Adds rows, which need not be in time order: O(n) plus sorting. */
  addAll(rows: readonly (readonly [time: number, value: T])[]): void {
    let latest = this.#times.at(-1) ?? Number.NEGATIVE_INFINITY;
    let inOrder = true;
    for (const [time, value] of rows) {
      inOrder &&= time >= latest;
      latest = time;
      this.#times.push(time);
      this.#seqs.push(this.#nextSeq++);
      this.#values.push(value);
    }
    this.#live += rows.length;
    if (!inOrder) this.#sort();
  }

  get({ time, seq }: Position): T | undefined {
    const index = this.#indexOf(time, seq);
    return this.#times[index] === time && this.#seqs[index] === seq ? this.#values[index] : undefined;
  }

  remove({ time, seq }: Position): boolean {
    const index = this.#indexOf(time, seq);
    if (this.#times[index] !== time || this.#seqs[index] !== seq || this.#values[index] === undefined) return false;
    this.#values[index] = undefined;
    this.#live--;
    this.#compactIfSparse();
    return true;
  }

  /** Drops rows before `time`, and the earliest others until `limit` rows remain. */
  dropEarliest(time: number, limit: number): void {
    while (this.#head < this.#times.length && ((this.#times[this.#head] as number) < time || this.#live > limit)) {
      if (this.#values[this.#head] !== undefined) this.#live--;
      this.#values[this.#head++] = undefined;
    }
    this.#compactIfSparse();
  }

  compact(): void {
    let kept = 0;
    for (let index = this.#head; index < this.#times.length; index++) {
      if (this.#values[index] === undefined) continue;
      this.#times[kept] = this.#times[index] as number;
      this.#seqs[kept] = this.#seqs[index] as number;
      this.#values[kept++] = this.#values[index];
    }
    this.#times.length = this.#seqs.length = this.#values.length = kept;
    this.#head = 0;
  }

  /** Returns the first row at or after `fraction` (0 to below 1) of the timeline; undefined if there is none. */
  at(fraction: number): (Position & { readonly value: T }) | undefined {
    let index = this.#head + Math.floor(fraction * (this.#times.length - this.#head));
    while (index < this.#values.length && this.#values[index] === undefined) index++;
    const value = this.#values[index];
    return value && { value, time: this.#times[index] as number, seq: this.#seqs[index] as number };
  }

  walk({ from, to, order, after }: TimelineRange, visit: Visit<T>): void {
    let low = this.#indexOf(from, 0);
    let high = this.#indexOf(to, Number.POSITIVE_INFINITY);
    if (order === 'earliestFirst') {
      if (after) low = Math.max(low, this.#indexOf(after.time, after.seq + 1));
      for (let index = low; index < high; index++) if (this.#visit(index, visit) === false) return;
    } else {
      if (after) high = Math.min(high, this.#indexOf(after.time, after.seq));
      for (let index = high - 1; index >= low; index--) if (this.#visit(index, visit) === false) return;
    }
  }

  /** Visits every row, earliest first. Independent of `walk`, so that tests can compare both. */
  forEach(visit: (value: T, time: number, seq: number) => void): void {
    for (const [index, value] of this.#values.entries()) {
      if (value !== undefined) visit(value, this.#times[index] as number, this.#seqs[index] as number);
    }
  }

  #visit(index: number, visit: Visit<T>): boolean | undefined {
    const value = this.#values[index];
    return value === undefined || visit(value, this.#times[index] as number, this.#seqs[index] as number);
  }

  #indexOf(time: number, seq: number): number {
    let low = this.#head;
    let high = this.#times.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const difference = (this.#times[middle] as number) - time || (this.#seqs[middle] as number) - seq;
      if (difference < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #sort(): void {
    this.compact();
    const [times, seqs, values] = [this.#times, this.#seqs, this.#values];
    const indices = Uint32Array.from(times, (_, index) => index);
    indices.sort((a, b) => (times[a] as number) - (times[b] as number) || (seqs[a] as number) - (seqs[b] as number));
    this.#times = Array.from(indices, index => times[index] as number);
    this.#seqs = Array.from(indices, index => seqs[index] as number);
    this.#values = Array.from(indices, index => values[index]);
  }

  #compactIfSparse(): void {
    const dead = this.#times.length - this.#live;
    if (dead > TOLERATED_DEAD && dead * 2 > this.#times.length) this.compact();
  }
}
