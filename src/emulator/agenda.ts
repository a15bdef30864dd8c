interface Item {
  readonly due: number;
  readonly order: number;
  readonly run: () => void;
}

const isBefore = (a: Item, b: Item) => a.due < b.due || (a.due === b.due && a.order < b.order);

/** Runs actions in emulated time. Actions of the same millisecond run in the order added. */
export class Agenda {
  #now: number;
  #heap: Item[] = [];
  #added = 0;

  constructor(now: number) {
    this.#now = now;
  }

  /** Time of the running action, or else the end of the last run. */
  get now(): number {
    return this.#now;
  }

  /** Schedules `run`. Overdue actions run at the current time. */
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
