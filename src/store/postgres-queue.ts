/** Characters that one statement may gather: what comes meanwhile waits for the next. */
const LARGEST_GROUP = 2 ** 20;

/** Commits in the order in which they were asked for, many in one statement. */
export interface CommitQueue<T, R> {
  /**
   * Resolves with the result that `write` returned for this item. Rejects with the error of its write. `weight` counts towards
   * the largest group; an infinite weight makes a group of one.
   */
  add(item: T, weight: number): Promise<R>;
  /** Resolves once nothing waits any more. */
  ended(): Promise<void>;
}

interface Waiting<T, R> {
  readonly item: T;
  readonly weight: number;
  readonly done: PromiseWithResolvers<R>;
}

/**
 * What is added while a group is written is the next group. When one fails, each of its items is written alone, so that a bad
 * one fails by itself; `isOfAll`: errors that are no item's, with which all that waits fails at once.
 */
export function createCommitQueue<T, R>(
  write: (items: readonly T[]) => Promise<readonly R[]>,
  isOfAll: (error: unknown) => boolean,
): CommitQueue<T, R> {
  let waiting: Waiting<T, R>[] = [];
  /** How many of those in front failed together and are to be written alone. */
  let alone = 0;
  let running: Promise<void> | undefined;

  function take(): Waiting<T, R>[] {
    let [count, weight] = [0, 0];
    for (const next of waiting) {
      if (count > 0 && (alone > 0 || weight + next.weight > LARGEST_GROUP)) break;
      weight += next.weight;
      count += 1;
    }
    alone = Math.max(0, alone - count);
    return waiting.splice(0, count);
  }

  function fail(group: readonly Waiting<T, R>[], error: unknown): void {
    if (group.length > 1 && !isOfAll(error)) {
      waiting = [...group, ...waiting];
      alone = group.length;
      return;
    }
    for (const { done } of [...group, ...(isOfAll(error) ? waiting.splice(0) : [])]) done.reject(error);
    if (waiting.length === 0) alone = 0;
  }

  async function writeAll(): Promise<void> {
    // What is asked for in one turn goes together.
    await Promise.resolve();
    while (waiting.length > 0) {
      const group = take();
      try {
        const written = await write(group.map(({ item }) => item));
        for (const [index, { done }] of group.entries()) done.resolve(written[index] as R);
      } catch (error) {
        fail(group, error);
      }
    }
    running = undefined;
  }

  return {
    add(item, weight) {
      const done = Promise.withResolvers<R>();
      waiting.push({ item, weight, done });
      running ??= writeAll();
      return done.promise;
    },
    async ended() {
      await running;
    },
  };
}
