import type { Change } from '../store/store.ts';

/** Rows that wait for the store, the latest of each key. */
export interface WaitingRows {
  readonly size: number;
  /** They are so many that no more may be added. */
  readonly isFull: boolean;
  add(changes: readonly Change[]): void;
  all(): Change[];
  /** The store has all of them. */
  clear(): void;
  /** The store did not take them, and has rows with these keys: what it does not have need not be deleted from it. */
  refused(stored: Iterable<string>): void;
}

/** Characters that wait at most, but for what one step adds: some hours of most accounts. */
const MOST_WAITING = 16 * 1024 * 1024;
/** What a row takes beside its text, as if it were characters. */
const ROW_WEIGHT = 200;

export function createWaitingRows(): WaitingRows {
  const rows = new Map<string, string | null>();
  /** What the store has; known from when it refused something until it takes it. */
  let stored: ReadonlySet<string> | undefined;
  let weight = 0;

  const weightOf = (key: string, value: string | null) => ROW_WEIGHT + key.length + (value?.length ?? 0);

  function put(key: string, value: string | null): void {
    const before = rows.get(key);
    if (before !== undefined) weight -= weightOf(key, before);
    if (value === null && stored?.has(key) === false) {
      rows.delete(key);
      return;
    }
    rows.set(key, value);
    weight += weightOf(key, value);
  }

  return {
    get size() {
      return rows.size;
    },
    get isFull() {
      return weight > MOST_WAITING;
    },
    add(changes) {
      for (const { key, value } of changes) put(key, value);
    },
    all: () => [...rows].map(([key, value]) => ({ key, value })),
    clear() {
      rows.clear();
      weight = 0;
      stored = undefined;
    },
    refused(keys) {
      stored = new Set(keys);
      for (const [key, value] of [...rows]) if (value === null) put(key, value);
    },
  };
}
