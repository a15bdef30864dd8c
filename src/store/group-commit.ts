import { type Clock, systemClock } from '../kit/clock.ts';

/** Writes together what is asked for together. */
export interface GroupCommit<T> {
  /**
   * Resolves once `item` is written, rejects with the error of the write that held it alone. Items are written in the
   * order in which they were added. `weight` is its share of `limit`.
   */
  add(item: T, weight: number): Promise<void>;
  /** Writes everything that waits, now. */
  drain(): void;
  /** Resolves once no group is written in part. */
  settled(): Promise<void>;
}

interface Waiting<T> {
  readonly item: T;
  readonly weight: number;
  resolve(): void;
  reject(error: unknown): void;
}

/**
 * Group commit: everything added within one turn of the event loop goes into one `write`, so that it costs one fsync.
 * `write` blocks, and writes all of its items or throws; a long one gives steps, one a turn. A group weighs at most `limit`
 * (one item always fits); the next waits for another turn, so that other work gets in between. When a group fails, each of
 * its items is written alone, a turn each: a bad one fails by itself. `isOfAll`: errors that are no item's, with which all of
 * a group fail at once. `spacing`: milliseconds from the end of one group to the next, in which more may come to share its fsync.
 */
export function createGroupCommit<T>(
  write: (items: readonly T[]) => Iterable<void> | void,
  limit: number,
  isOfAll: (error: unknown) => boolean = () => false,
  spacing: () => number = () => 0,
  clock: Pick<Clock, 'monotonic' | 'sleep'> = systemClock,
): GroupCommit<T> {
  let waiting: Waiting<T>[] = [];
  /** How many of those in front failed together and are to be written alone. */
  let alone = 0;
  let scheduled = false;
  let endedAt = Number.NEGATIVE_INFINITY;
  /** The group that is written in part. */
  let partly: { readonly group: readonly Waiting<T>[]; readonly steps: Iterator<void> } | undefined;
  let settled = Promise.withResolvers<void>();

  function take(): Waiting<T>[] {
    let count = 0;
    let weight = 0;
    for (const next of waiting) {
      if (count > 0 && (alone > 0 || weight + next.weight > limit)) break;
      weight += next.weight;
      count += 1;
    }
    alone = Math.max(0, alone - count);
    return waiting.splice(0, count);
  }

  function writeStep(): void {
    const group = partly?.group ?? take();
    try {
      const steps = partly?.steps ?? write(group.map(({ item }) => item))?.[Symbol.iterator]();
      if (steps?.next().done === false) {
        partly = { group, steps };
        return;
      }
    } catch (error) {
      end();
      if (group.length > 1 && !isOfAll(error)) {
        waiting = [...group, ...waiting];
        alone = group.length;
      } else for (const { reject } of group) reject(error);
      return;
    }
    end();
    for (const { resolve } of group) resolve();
  }

  function end(): void {
    partly = undefined;
    // What did not fit in is not held up.
    endedAt = waiting.length > 0 ? Number.NEGATIVE_INFINITY : clock.monotonic();
    settled.resolve();
    settled = Promise.withResolvers();
  }

  const isIdle = () => waiting.length === 0 && !partly;

  function schedule(): void {
    if (scheduled || isIdle()) return;
    scheduled = true;
    const write = () => {
      scheduled = false;
      if (!isIdle()) writeStep();
      schedule();
    };
    const wait = partly || alone > 0 ? 0 : endedAt + spacing() - clock.monotonic();
    if (wait > 0) void clock.sleep(wait).then(write);
    else setImmediate(write);
  }

  return {
    add: (item, weight) =>
      new Promise((resolve, reject) => {
        waiting.push({ item, weight, resolve, reject });
        schedule();
      }),
    drain() {
      while (!isIdle()) writeStep();
    },
    async settled() {
      while (partly) await settled.promise;
    },
  };
}
