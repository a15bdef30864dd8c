import { setImmediate } from 'node:timers/promises';
import pLimit from 'p-limit';
import type { Change } from '../model/change.ts';
import type { JournalEntry } from '../model/journal.ts';
import { readRow } from '../store/errors.ts';
import { type Guard, isGuardFailed, type Store } from '../store/store.ts';
import { emptyJournal, foldEntry, type JournalState, prune } from './journal-state.ts';

interface Conditions {
  readonly changes?: readonly Change[];
  readonly guard?: Guard;
}

/** The append-only journal of one account. */
export type Journal = Awaited<ReturnType<typeof openJournal>>;

const PREFIX = 'auto-cancel/journal/';

/** Returns the key of a line. Keys sort in the order of writing. */
const keyOf = (number: number) => `${PREFIX}${String(number).padStart(12, '0')}`;

/** Number of trailing digits that identify a line within its block: 100 lines per block. */
const BLOCK_DIGITS = 2;

/** Whether a line has the fields that the state needs. An intent without its target would be lost. */
function isLine(entry: JournalEntry): boolean {
  if (typeof entry.step !== 'string' || !Number.isFinite(entry.at)) return false;
  if (entry.step === 'intent') return typeof entry.target?.id === 'string';
  return entry.step !== 'answered' || typeof entry.answer?.kind === 'string';
}

/** Returns the lines in rows, oldest first. Throws StoreError; for an invalid row, the error names the row. */
function parseLines(account: string, rows: ReadonlyMap<string, string>): [number: number, entry: JournalEntry][] {
  return [...rows]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, value]) =>
      readRow(`${key} of the account ${account}`, value, () => {
        const number = key.slice(PREFIX.length);
        const entry = JSON.parse(value) as JournalEntry;
        if (/^\d{12}$/.test(number) && isLine(entry)) return [Number(number), entry];
        throw new Error('not a line');
      }),
    );
}

/** Returns the lines with this key prefix, oldest first. Rejects with StoreError; for an invalid row, the error names it. */
const scanLines = async (store: Pick<Store, 'scan'>, account: string, prefix = PREFIX) =>
  parseLines(account, await store.scan(account, prefix));

export async function readJournal(store: Pick<Store, 'scan'>, account: string): Promise<JournalEntry[]> {
  return (await scanLines(store, account)).map(([, entry]) => entry);
}

/** Like `BLOCK_DIGITS`, for reading the complete journal: 1,000 lines per block, about 2 MB. */
const LARGE_BLOCK_DIGITS = 3;

/** Folds the lines block by block, because they may not fit into memory. Returns the state and the last line number. */
async function foldAll(store: Pick<Store, 'scan' | 'sizes'>, account: string) {
  const state = emptyJournal();
  const keys = [...(await store.sizes(account, PREFIX)).keys()].sort();
  let last = 0;
  for (const block of new Set(keys.map(key => key.slice(0, -LARGE_BLOCK_DIGITS)))) {
    for (const [number, entry] of await scanLines(store, account, block)) {
      foldEntry(state, entry);
      last = number;
    }
    // Limits never count from an earlier time than `lastAt`.
    prune(state, state.lastAt);
    await setImmediate();
  }
  return { state, last };
}

/** Reads the state of a journal that another process may write. Rejects with StoreError. */
export async function readJournalState(store: Pick<Store, 'scan' | 'sizes'>, account: string): Promise<JournalState> {
  return (await foldAll(store, account)).state;
}

/** Yields blocks backwards, starting with the block of line `from`. */
async function* blocksBack(store: Pick<Store, 'scan'>, account: string, from: number) {
  for (let last = from; last > 0; last -= (last % 10 ** BLOCK_DIGITS) + 1) {
    const lines = await scanLines(store, account, keyOf(last).slice(0, -BLOCK_DIGITS));
    yield lines.map(([, entry]) => entry);
  }
}

/** Yields blocks of a journal that another process may write, newest block first. Rejects with StoreError. */
export async function* storedBlocks(store: Pick<Store, 'scan' | 'sizes'>, account: string) {
  const last = [...(await store.sizes(account, PREFIX)).keys()].sort().at(-1);
  yield* blocksBack(store, account, Number(last?.slice(PREFIX.length) ?? 0));
}

export type JournalLine = JournalEntry & { readonly account: string };

/**
 * Returns at most `most` of the newest lines since a time (ms since the Unix epoch), oldest first. A clock change may hide
 * lines. Rejects with StoreError.
 */
export async function newestLines(
  journals: readonly Journal['lines'][],
  since: number,
  most: number,
): Promise<JournalLine[]> {
  let found: JournalLine[] = [];
  let from = since;
  for (const { account, lastAt, blocks } of journals.toSorted((a, b) => b.lastAt - a.lastAt)) {
    if (lastAt < from) break;
    let own: JournalLine[] = [];
    for await (const block of blocks()) {
      own = [...block.filter(({ at }) => at >= from).map(line => ({ account, ...line })), ...own];
      if (own.length >= most || block.some(({ at }) => at < from)) break;
      await setImmediate();
    }
    found = [...found, ...own].sort((a, b) => a.at - b.at).slice(-most);
    if (found.length === most) from = Math.max(since, found[0]?.at ?? since);
  }
  return found;
}

interface Append {
  readonly entries: readonly JournalEntry[];
  readonly rows: readonly { readonly key: string; readonly value: string }[];
}

const numbers = (from: number, below: number) =>
  Array.from({ length: Math.max(0, below - from) }, (_, index) => from + index);

/** Returns the rows with numbers from `from` (inclusive) to `below` (exclusive), by key. */
async function readRange(store: Pick<Store, 'scan'>, account: string, from: number, below: number) {
  const keys = new Set(numbers(from, below).map(keyOf));
  const blocks = new Set([...keys].map(key => key.slice(0, -BLOCK_DIGITS)));
  const found = new Map<string, string>();
  for (const block of blocks) {
    for (const [key, value] of await store.scan(account, block)) if (keys.has(key)) found.set(key, value);
  }
  return found;
}

export async function openJournal(store: Store, account: string) {
  const { state, last } = await foldAll(store, account);
  let next = last + 1;
  /** Rejected append that may be in the store. */
  let failed: Append | undefined;
  /** Greater than the number of every line in the store. Lines of rejected commits may reach the store even after `confirm`. */
  let end = next;

  function add({ entries }: Append): void {
    next += entries.length;
    for (const entry of entries) foldEntry(state, entry);
  }

  async function confirm(): Promise<void> {
    if (!failed) return;
    const stored = await readRange(store, account, next, end);
    const { rows } = failed;
    const isWritten = stored.size === rows.length && rows.every(({ key, value }) => stored.get(key) === value);
    if (isWritten) add(failed);
    failed = undefined;
  }

  async function write(entries: readonly JournalEntry[], { changes = [], guard }: Conditions = {}): Promise<void> {
    await confirm();
    const rows = entries.map((entry, index) => ({ key: keyOf(next + index), value: JSON.stringify(entry) }));
    const surplus = numbers(next + rows.length, end).map(number => ({ key: keyOf(number), value: null }));
    const appended = { entries, rows };
    try {
      await store.commit(account, [...rows, ...surplus, ...changes], guard);
    } catch (error) {
      if (isGuardFailed(error)) throw error;
      failed = appended;
      end = Math.max(end, next + rows.length);
      throw error;
    }
    add(appended);
    end = next;
  }

  const serially = pLimit(1);

  return {
    /** Journal state, folded from all lines. Callers must not change it. */
    state,
    /**
     * Appends lines in one transaction. After `guard_failed` the store is unchanged; after another error,
     * call `confirm`.
     */
    append: (entries: readonly JournalEntry[], more?: Conditions): Promise<void> =>
      serially(() => write(entries, more)),
    /** Checks whether a rejected append is in the store, and folds its lines if so. Rejects with StoreError. */
    confirm: (): Promise<void> => serially(confirm),
    lines: {
      account,
      /** Upper bound of the lines' times (ms since the Unix epoch). */
      get lastAt() {
        return state.lastAt;
      },
      /** Yields blocks of lines, newest block first; within a block, the oldest line is first. Rejects with StoreError. */
      blocks: () => blocksBack(store, account, next - 1),
    },
    last: () => next - 1,
    /** Returns up to 100 lines after the line `number`, oldest first. Rejects with StoreError. */
    async after(number: number): Promise<readonly (readonly [number: number, entry: JournalEntry])[]> {
      const rows = await readRange(store, account, number + 1, Math.min(next, number + 101));
      return parseLines(account, rows);
    },
  };
}
