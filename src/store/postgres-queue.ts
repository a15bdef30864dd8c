/** Characters that one statement may gather: what comes meanwhile waits for the next. */
const LARGEST_GROUP = 2 ** 20;

/** Commits in the order in which they were asked for, many in one statement. */
export interface CommitQueue<T> {
  /** Resolves with what `write` said of this item. Rejects with the error of the write that held it. `weight` counts towards the largest group. */
  add(item: T, weight: number): Promise<boolean>;
  /** Resolves once nothing waits any more. */
  ended(): Promise<void>;
}

interface Waiting<T> {
  readonly item: T;
  readonly weight: number;
  readonly done: PromiseWithResolvers<boolean>;
}

/**
 * What is added while a group is written is the next group. When one fails, each of its items is written alone, so that a bad
 * one fails by itself; `isOfAll`: errors that are no item's, with which all that waits fails at once.
 */
export function createCommitQueue<T>(
  write: (items: readonly T[]) => Promise<readonly boolean[]>,
  isOfAll: (error: unknown) => boolean,
): CommitQueue<T> {
  let waiting: Waiting<T>[] = [];
  /** How many of those in front failed together and are to be written alone. */
  let alone = 0;
  let running: Promise<void> | undefined;

  function take(): Waiting<T>[] {
    let [count, weight] = [0, 0];
    for (const next of waiting) {
      if (count > 0 && (alone > 0 || weight + next.weight > LARGEST_GROUP)) break;
      weight += next.weight;
      count += 1;
    }
    alone = Math.max(0, alone - count);
    return waiting.splice(0, count);
  }

  function fail(group: readonly Waiting<T>[], error: unknown): void {
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
        for (const [index, { done }] of group.entries()) done.resolve(written[index] ?? false);
      } catch (error) {
        fail(group, error);
      }
    }
    running = undefined;
  }

  return {
    add(item, weight) {
      const done = Promise.withResolvers<boolean>();
      waiting.push({ item, weight, done });
      running ??= writeAll();
      return done.promise;
    },
    async ended() {
      await running;
    },
  };
}
