import { setImmediate as nextTurn } from 'node:timers/promises';
import { type Clock, systemClock } from '../kit/clock.ts';

export interface GroupCommitOptions {
  readonly limit: number;
  /** Whether all queued items would also fail with this error. */
  affectsAll(error: unknown): boolean;
  /** Minimum pause between groups (ms), so that more items can join. */
  readonly spacing?: () => number;
  readonly clock?: Pick<Clock, 'monotonic' | 'sleep'>;
}

interface Waiting<T, R> {
  readonly item: T;
  readonly weight: number;
  readonly done: PromiseWithResolvers<R>;
}

/** Writes items in groups, to share an fsync or round trip. Items of a failed group are retried individually. */
export function createGroupCommit<T, R>(
  write: (items: readonly T[]) => Promise<readonly R[]>,
  { limit, affectsAll, spacing = () => 0, clock = systemClock }: GroupCommitOptions,
) {
  let waiting: Waiting<T, R>[] = [];
  let alone = 0;
  let endedAt = Number.NEGATIVE_INFINITY;
  let running: Promise<void> | undefined;
  let writing: Promise<void> | undefined;

  function nextGroup(): Waiting<T, R>[] {
    let [count, weight] = [0, 0];
    for (const next of waiting) {
      if (count > 0 && (alone > 0 || weight + next.weight > limit)) break;
      weight += next.weight;
      count += 1;
    }
    alone = Math.max(0, alone - count);
    return waiting.splice(0, count);
  }

  function fail(group: readonly Waiting<T, R>[], error: unknown): void {
    if (group.length > 1 && !affectsAll(error)) {
      waiting = [...group, ...waiting];
      alone = group.length;
      return;
    }
    for (const { done } of [...group, ...(affectsAll(error) ? waiting.splice(0) : [])]) done.reject(error);
    if (waiting.length === 0) alone = 0;
  }

  async function writeGroup(group: readonly Waiting<T, R>[]): Promise<void> {
    const written = write(group.map(({ item }) => item)).finally(() => {
      // Set this before a caller continues and adds its next item. Items that did not fit in the group are not delayed.
      endedAt = waiting.length > 0 ? Number.NEGATIVE_INFINITY : clock.monotonic();
    });
    try {
      const results = await written;
      for (const [index, { done }] of group.entries()) done.resolve(results[index] as R);
    } catch (error) {
      fail(group, error);
    }
  }

  async function writeAll(): Promise<void> {
    while (waiting.length > 0) {
      const wait = alone > 0 ? 0 : endedAt + spacing() - clock.monotonic();
      await (wait > 0 ? clock.sleep(wait) : nextTurn());
      writing = writeGroup(nextGroup());
      await writing;
      writing = undefined;
    }
    running = undefined;
  }

  return {
    /** `weight` counts towards the limit; an item of infinite weight forms a group by itself. */
    add(item: T, weight: number): Promise<R> {
      const done = Promise.withResolvers<R>();
      waiting.push({ item, weight, done });
      running ??= writeAll();
      return done.promise;
    },
    async settled(): Promise<void> {
      while (writing) await writing;
    },
    async ended(): Promise<void> {
      while (running) await running;
    },
  };
}
