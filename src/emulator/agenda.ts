interface Item {
  readonly due: number;
  readonly run: () => void;
}

/** Runs actions in emulated time. Actions due in the same millisecond run in the order in which they were added. */
export class Agenda {
  #now: number;
  /** Latest first. */
  #items: Item[] = [];

  constructor(now: number) {
    this.#now = now;
  }

  /** Due time of the running action; otherwise, the time up to which actions have run. */
  get now(): number {
    return this.#now;
  }

  /** Schedules `run`. Overdue actions run at the current time. */
  at(due: number, run: () => void): void {
    const item = { due: Math.max(due, this.#now), run };
    let [low, high] = [0, this.#items.length];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#items[middle] as Item).due > item.due) low = middle + 1;
      else high = middle;
    }
    this.#items.splice(low, 0, item);
  }

  runUntil(now: number): void {
    for (let next = this.#items.at(-1); next && next.due <= now; next = this.#items.at(-1)) {
      this.#items.pop();
      this.#now = next.due;
      next.run();
    }
    this.#now = Math.max(this.#now, now);
  }

  restart(now: number): void {
    this.#items = [];
    this.#now = now;
  }
}
