import type { JournalEntry } from '../model/journal.ts';
import type { Change, Store } from '../store/store.ts';
import { emptyJournal, foldEntry, type JournalState } from './journal-state.ts';

/** The journal of one account: lines are added, never changed and never taken away. */
export interface Journal {
  /** What all lines together say. To be read only. */
  readonly state: JournalState;
  /**
   * Adds lines, and makes `changes` to rows of the account's in the same transaction. When it returns, they are as
   * durable as the store is, and in `state`; when it rejects, nothing happened.
   */
  append(entries: readonly JournalEntry[], changes?: readonly Change[]): Promise<void>;
}

const PREFIX = 'auto-cancel/journal/';

/** Keys sort as they were written, whatever the clock did meanwhile. */
const keyOf = (number: number) => `${PREFIX}${String(number).padStart(12, '0')}`;

/** All lines of an account, the oldest first. */
export async function readJournal(store: Pick<Store, 'scan'>, account: string): Promise<JournalEntry[]> {
  const rows = await store.scan(account, PREFIX);
  return [...rows].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, value]) => JSON.parse(value) as JournalEntry);
}

export async function openJournal(store: Store, account: string): Promise<Journal> {
  const state = emptyJournal();
  const lines = await store.scan(account, PREFIX);
  const keys = [...lines.keys()].sort();
  for (const key of keys) foldEntry(state, JSON.parse(lines.get(key) as string) as JournalEntry);
  let next = Number(keys.at(-1)?.slice(PREFIX.length) ?? 0) + 1;
  let writing: Promise<void> = Promise.resolve();
  return {
    state,
    append(entries, changes = []) {
      const turn = writing.then(async () => {
        const rows = entries.map((entry, index) => ({ key: keyOf(next + index), value: JSON.stringify(entry) }));
        await store.commit(account, [...rows, ...changes]);
        next += entries.length;
        for (const entry of entries) foldEntry(state, entry);
      });
      writing = turn.catch(() => undefined);
      return turn;
    },
  };
}
