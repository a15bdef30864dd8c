interface Item {
  readonly due: number;
  readonly order: number;
  readonly run: () => void;
}

const isBefore = (a: Item, b: Item) => a.due < b.due || (a.due === b.due && a.order < b.order);

/** What is to happen at which emulated time (milliseconds): a binary heap, first come first served within a millisecond. */
export class Agenda {
  #now: number;
  #heap: Item[] = [];
  #added = 0;

  constructor(now: number) {
    this.#now = now;
  }

  /** The time of what is happening; between runs, the time up to which everything has happened. */
  get now(): number {
    return this.#now;
  }

  /** Plans `run`; what is overdue runs at once, at the current time. */
  at(due: number, run: () => void): void {
    const item = { due: Math.max(due, this.#now), order: this.#added++, run };
    let index = this.#heap.push(item) - 1;
    while (index > 0) {
      const parent = (index - 1) >> 1;
      if (!isBefore(item, this.#heap[parent] as Item)) break;
      this.#heap[index] = this.#heap[parent] as Item;
      index = parent;
    }
    this.#heap[index] = item;
  }

  /** Lets everything happen that is due until `now`, in order. An earlier `now` does nothing. */
  runUntil(now: number): void {
    for (let next = this.#heap[0]; next && next.due <= now; next = this.#heap[0]) {
      this.#removeFirst();
      this.#now = next.due;
      next.run();
    }
    this.#now = Math.max(this.#now, now);
  }

  restart(now: number): void {
    this.#heap = [];
    this.#now = now;
  }

  #removeFirst(): void {
    const last = this.#heap.pop() as Item;
    const length = this.#heap.length;
    if (length === 0) return;
    let index = 0;
    for (let child = 1; child < length; child = 2 * index + 1) {
      const right = this.#heap[child + 1];
      if (right && isBefore(right, this.#heap[child] as Item)) child++;
      if (!isBefore(this.#heap[child] as Item, last)) break;
      this.#heap[index] = this.#heap[child] as Item;
      index = child;
    }
    this.#heap[index] = last;
  }
}
