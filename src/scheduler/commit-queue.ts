import type { Log } from '../kit/log.ts';
import type { Change } from '../model/change.ts';
import { isUndone, type Store } from '../store/store.ts';

/** A failed commit. The rows stay in the queue. */
export class CommitError extends Error {
  override readonly name = 'CommitError';
  readonly reason = 'store';
}

interface CommitQueueDeps {
  readonly account: string;
  readonly collector: string;
  readonly store: Store;
  readonly log: Log;
}

/** Queue size (characters) above which a step commits before it folds more. For most accounts, this is a few hours of rows. */
const MAX_WAITING = 16 * 1024 * 1024;
/** Cost of a row in addition to its text (characters). */
const ROW_WEIGHT = 200;

/** Creates a queue of a collector's uncommitted rows: the latest of each key. Rejected rows are part of the next commit. */
export function createCommitQueue({ account, collector, store, log }: CommitQueueDeps) {
  const prefix = `${collector}/`;
  const rows = new Map<string, string | null>();
  let weight = 0;
  /**
   * Keys of stored rows while the store refuses rows. Deletes of other keys have no effect, so they are dropped. Undefined if the
   * store accepts rows, cannot be read, or may have written rows of a failed commit.
   */
  let stored: ReadonlySet<string> | undefined;
  /** Whether the store refuses rows, and whether the queue is full, which suspends folding. */
  let [isRefused, isSuspended] = [false, false];

  const weightOf = (key: string, value: string | null) => ROW_WEIGHT + key.length + (value?.length ?? 0);

  function put(key: string, value: string | null): void {
    const before = rows.get(key);
    if (before !== undefined) weight -= weightOf(key, before);
    // Only stored rows need to be deleted.
    if (value === null && stored?.has(key) === false) {
      rows.delete(key);
      return;
    }
    rows.set(key, value);
    weight += weightOf(key, value);
  }

  function clear(): void {
    rows.clear();
    weight = 0;
    stored = undefined;
    isRefused = false;
  }

  async function commit(): Promise<void> {
    if (rows.size === 0) return;
    const changes = [...rows].map(([key, value]) => ({ key, value }));
    try {
      await store.commit(account, changes);
    } catch (cause) {
      const isFirst = !isRefused;
      isRefused = true;
      if (!isUndone(cause)) stored = undefined;
      else if (isFirst) {
        const known = await store.scan(account, prefix).catch(() => undefined);
        stored = known && new Set(known.keys());
        for (const { key, value } of changes) if (value === null) put(key, value);
      }
      const why = cause instanceof Error ? `: ${cause.message}` : '';
      throw new CommitError(`the store could not commit${why}`, { cause });
    }
    // No row can have been added during the commit: rounds of a collector commit sequentially.
    clear();
  }

  return {
    isRefused: (): boolean => isRefused,
    add(changes: readonly Change[]): void {
      for (const { key, value } of changes) put(prefix + key, value);
    },
    /** Commits all queued rows. Calls must not overlap. Rejects with CommitError. */
    commit,
    /** Commits the queue if it is full. Rejects with CommitError. */
    async commitIfFull(): Promise<void> {
      const isFull = weight > MAX_WAITING;
      if (isFull && !isSuspended) {
        const fields = { account, collector, rows: rows.size };
        log.warn(fields, 'too many uncommitted rows; new data is not processed until the store commits');
      }
      isSuspended = isFull;
      if (!isFull) return;
      await commit();
      isSuspended = false;
    },
    clear,
    /** Returns the committed rows by key, without the collector's prefix. Rejects with StoreError. */
    async committed(): Promise<ReadonlyMap<string, string>> {
      const known = await store.scan(account, prefix);
      return new Map([...known].map(([key, value]) => [key.slice(prefix.length), value]));
    },
  };
}
