/**
 * Simulated time with a queue of timers. It also replaces `setTimeout`, so that the agent's deadlines use simulated
 * time, too.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { setImmediate } from 'node:timers';

interface Timer {
  readonly at: number;
  readonly number: number;
  readonly run: () => void;
  isOff: boolean;
}

export interface Time {
  /** Time since the world's start (whole ms). */
  readonly now: number;
  /** Runs `run` after `ms`. Returns a function that cancels it. */
  after(ms: number, run: () => void): () => void;
  /** Advances time by `ms`. Runs the due timers in order, and after each one all work that has become ready. */
  advance(ms: number): Promise<void>;
}

/** A simulated process that owns timers. */
export interface TimerOwner {
  /** Calls `run` immediately if the process runs, or after SIGCONT if it is stopped. Never calls it if the process is dead. */
  wake(run: () => void): void;
}

/** The process to which the running code belongs. */
export const owners = new AsyncLocalStorage<TimerOwner>();

/** Resolves when all ready work has run, because promises and ticks run before immediates. */
export const settle = () => new Promise<void>(resolve => setImmediate(resolve));

const { setTimeout: realTimeout, clearTimeout: realClear } = globalThis;

export function createTime(): Time {
  const heap: Timer[] = [];
  let number = 0;
  const isBefore = (a: Timer, b: Timer) => a.at < b.at || (a.at === b.at && a.number < b.number);

  function push(timer: Timer): void {
    let at = heap.push(timer) - 1;
    while (at > 0) {
      const above = (at - 1) >> 1;
      if (!isBefore(timer, heap[above] as Timer)) break;
      heap[at] = heap[above] as Timer;
      at = above;
    }
    heap[at] = timer;
  }

  function pop(): void {
    const last = heap.pop() as Timer;
    if (heap.length === 0) return;
    let at = 0;
    for (;;) {
      let next = 2 * at + 1;
      if (next >= heap.length) break;
      if (next + 1 < heap.length && isBefore(heap[next + 1] as Timer, heap[next] as Timer)) next += 1;
      if (!isBefore(heap[next] as Timer, last)) break;
      heap[at] = heap[next] as Timer;
      at = next;
    }
    heap[at] = last;
  }

  const self = {
    now: 0,
    after(ms: number, run: () => void) {
      number += 1;
      const timer = { at: self.now + Math.ceil(Math.max(0, ms)), number, run, isOff: false };
      push(timer);
      return () => {
        timer.isOff = true;
      };
    },
    async advance(ms: number) {
      const end = self.now + ms;
      await settle();
      for (let next = heap[0]; next && next.at <= end; next = heap[0]) {
        pop();
        if (next.isOff) continue;
        self.now = Math.max(self.now, next.at);
        next.run();
        await settle();
      }
      self.now = end;
    },
  };
  return self;
}

/** Calls `work` with a global `setTimeout` that uses `time`. Calls must not overlap. */
export async function withTimersOn<T>(time: Time, work: () => Promise<T>): Promise<T> {
  const set = (run: (...args: unknown[]) => void, ms = 0, ...args: unknown[]) => {
    const owner = owners.getStore();
    return owner ? time.after(ms, () => owner.wake(() => run(...args))) : () => undefined;
  };
  globalThis.setTimeout = set as unknown as typeof setTimeout;
  globalThis.clearTimeout = ((off?: () => void) => off?.()) as typeof clearTimeout;
  try {
    return await work();
  } finally {
    globalThis.setTimeout = realTimeout;
    globalThis.clearTimeout = realClear;
  }
}
