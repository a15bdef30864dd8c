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

/** `value` is undefined once the row is removed. */
interface Row<T> extends Position {
  value: T | undefined;
}

const byPosition = (a: Position, b: Position) => a.time - b.time || a.seq - b.seq;

/** Rows ordered by (time, seq). Removed rows leave tombstones, which are dropped once they are the majority. */
export class RowTimeline<T extends object> {
  #rows: Row<T>[] = [];
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
    const row = { time, seq: this.#nextSeq++, value };
    if ((this.#rows.at(-1)?.time ?? time) <= time) this.#rows.push(row);
    else this.#rows.splice(this.#indexOf(row), 0, row);
    this.#live++;
    return row;
  }

  /** Adds rows, which need not be in time order: O(n) plus sorting. */
  addAll(rows: readonly (readonly [time: number, value: T])[]): void {
    this.compact();
    for (const [time, value] of rows) this.#rows.push({ time, seq: this.#nextSeq++, value });
    this.#live = this.#rows.length;
    this.#rows.sort(byPosition);
  }

  get(position: Position): T | undefined {
    return this.#find(position)?.value;
  }

  remove(position: Position): boolean {
    const row = this.#find(position);
    if (row?.value === undefined) return false;
    row.value = undefined;
    this.#live--;
    this.#compactIfSparse();
    return true;
  }

  /** Drops rows before `time`, then the earliest of the others until at most `limit` rows remain. */
  dropEarliest(time: number, limit: number): void {
    for (let row = this.#rows[this.#head]; row; row = this.#rows[this.#head]) {
      if (row.time >= time && this.#live <= limit) break;
      if (row.value !== undefined) this.#live--;
      row.value = undefined;
      this.#head++;
    }
    this.#compactIfSparse();
  }

  compact(): void {
    this.#rows = this.#rows.filter(({ value }) => value !== undefined);
    this.#head = 0;
  }

  /** Returns the first row at or after `fraction` (0 to below 1) of the timeline, or undefined. */
  at(fraction: number): (Position & { readonly value: T }) | undefined {
    let index = this.#head + Math.floor(fraction * (this.#rows.length - this.#head));
    while (this.#rows[index] && this.#rows[index]?.value === undefined) index++;
    return this.#rows[index] as (Position & { readonly value: T }) | undefined;
  }

  walk({ from, to, order, after }: TimelineRange, visit: Visit<T>): void {
    let low = this.#indexOf({ time: from, seq: 0 });
    let high = this.#indexOf({ time: to, seq: Number.POSITIVE_INFINITY });
    if (order === 'earliestFirst') {
      if (after) low = Math.max(low, this.#indexOf({ time: after.time, seq: after.seq + 1 }));
      for (let index = low; index < high; index++) if (this.#visit(index, visit) === false) return;
    } else {
      if (after) high = Math.min(high, this.#indexOf(after));
      for (let index = high - 1; index >= low; index--) if (this.#visit(index, visit) === false) return;
    }
  }

  /** Visits every row, earliest first. Independent of `walk`, so that tests can compare both. */
  forEach(visit: (value: T, time: number, seq: number) => void): void {
    for (const { value, time, seq } of this.#rows) if (value !== undefined) visit(value, time, seq);
  }

  #visit(index: number, visit: Visit<T>): boolean | undefined {
    const { value, time, seq } = this.#rows[index] as Row<T>;
    return value === undefined || visit(value, time, seq);
  }

  #find(position: Position): Row<T> | undefined {
    const row = this.#rows[this.#indexOf(position)];
    return row && byPosition(row, position) === 0 ? row : undefined;
  }

  #indexOf(position: Position): number {
    let low = this.#head;
    let high = this.#rows.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (byPosition(this.#rows[middle] as Row<T>, position) < 0) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #compactIfSparse(): void {
    const dead = this.#rows.length - this.#live;
    if (dead > TOLERATED_DEAD && dead * 2 > this.#rows.length) this.compact();
  }
}
