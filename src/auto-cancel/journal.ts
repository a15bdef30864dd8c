import { setImmediate } from 'node:timers/promises';
import type { Posting } from '../alerts/index.ts';
import type { JournalEntry } from '../model/journal.ts';
import type { Store } from '../store/store.ts';
import { emptyJournal, foldEntry, type JournalState } from './journal-state.ts';

/** The journal of one account: lines are added, never changed and never taken away. */
export interface Journal {
  /** What all lines together say. To be read only. */
  readonly state: JournalState;
  /**
   * Adds lines, and in the same transaction the notices that they make. When it returns, they are as durable as the store
   * is, and in `state`. When it rejects, they may still be in the store: see `confirm`.
   */
  append(entries: readonly JournalEntry[]): Promise<void>;
  /**
   * Reads back the lines of an append that was rejected, and adds them to `state` if the store contains them. `append` does the
   * same first. Does nothing if the last append succeeded. Rejects with StoreError.
   */
  confirm(): Promise<void>;
  /**
   * Its newest lines from a time on (milliseconds since the Unix epoch), `most` at most, the oldest first. Reads from the
   * end, and only as far back as it must; other work gets its turn meanwhile. A line that the clock put among a hundred
   * older ones may be missed. Rejects with StoreError.
   */
  newest(since: number, most: number): Promise<JournalEntry[]>;
  /** From now on lines make these notices. */
  notify(noticesOf: NoticesOf): void;
}

/** What the outbox takes together with lines. */
type NoticesOf = (entries: readonly JournalEntry[]) => readonly Posting[];

const PREFIX = 'auto-cancel/journal/';

/** Keys sort as they were written, whatever the clock did meanwhile. */
const keyOf = (number: number) => `${PREFIX}${String(number).padStart(12, '0')}`;

/** Digits of a number that its block does not have: there are a hundred lines in a block. */
const BLOCK_DIGITS = 2;

/** The lines of an account whose keys begin so, by number, the oldest first. Throws an Error that names the one that is none. */
async function scanLines(
  store: Pick<Store, 'scan'>,
  account: string,
  prefix = PREFIX,
): Promise<[number: number, entry: JournalEntry][]> {
  const rows = await store.scan(account, prefix);
  return [...rows]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([key, value]) => {
      const number = key.slice(PREFIX.length);
      try {
        const entry = JSON.parse(value) as JournalEntry;
        if (/^\d{12}$/.test(number) && typeof entry.step === 'string' && Number.isFinite(entry.at))
          return [Number(number), entry];
      } catch {}
      throw new Error(`the journal of the account ${account} is damaged: ${key} is no line of it`);
    });
}

/** All lines of an account, the oldest first. */
export async function readJournal(store: Pick<Store, 'scan'>, account: string): Promise<JournalEntry[]> {
  return (await scanLines(store, account)).map(([, entry]) => entry);
}

/** State of an account's journal in a store that another process may write. Rejects as `openJournal`. */
export async function readJournalState(store: Pick<Store, 'scan'>, account: string): Promise<JournalState> {
  const state = emptyJournal();
  for (const entry of await readJournal(store, account)) foldEntry(state, entry);
  return state;
}

/** As `Journal.newest`, from the line with this number on backwards. */
async function readBack(store: Pick<Store, 'scan'>, account: string, from: number, since: number, most: number) {
  let found: JournalEntry[] = [];
  for (let last = from; last > 0 && found.length < most; ) {
    const block = keyOf(last).slice(0, -BLOCK_DIGITS);
    const entries = (await scanLines(store, account, block)).map(([, entry]) => entry);
    const young = entries.filter(({ at }) => at >= since);
    if (young.length === 0) break;
    found = [...young, ...found];
    last -= (last % 10 ** BLOCK_DIGITS) + 1;
    await setImmediate();
  }
  return found.slice(-most);
}

/** As `Journal.newest`, of a journal that another process writes. */
export async function newestLines(
  store: Pick<Store, 'scan' | 'sizes'>,
  account: string,
  since: number,
  most: number,
): Promise<JournalEntry[]> {
  const numbers = [...(await store.sizes(account, PREFIX)).keys()].map(key => Number(key.slice(PREFIX.length)));
  return readBack(
    store,
    account,
    numbers.reduce((last, number) => Math.max(last, number), 0),
    since,
    most,
  );
}

/** Lines on their way to the store, and the notices that they make. */
interface Append {
  readonly entries: readonly JournalEntry[];
  readonly rows: readonly { readonly key: string; readonly value: string }[];
  readonly postings: readonly Posting[];
}

const numbers = (from: number, below: number) =>
  Array.from({ length: Math.max(0, below - from) }, (_, index) => from + index);

/** The stored rows of lines with these numbers, by key. */
async function readRange(store: Pick<Store, 'scan'>, account: string, from: number, below: number) {
  const keys = new Set(numbers(from, below).map(keyOf));
  const blocks = new Set([...keys].map(key => key.slice(0, -BLOCK_DIGITS)));
  const found = new Map<string, string>();
  for (const block of blocks) {
    for (const [key, value] of await store.scan(account, block)) if (keys.has(key)) found.set(key, value);
  }
  return found;
}

/** Rejects with StoreError, and with an Error where a line is damaged. */
export async function openJournal(store: Store, account: string, notices: NoticesOf = () => []): Promise<Journal> {
  let noticesOf = notices;
  const state = emptyJournal();
  const lines = await scanLines(store, account);
  for (const [, entry] of lines) foldEntry(state, entry);
  let next = (lines.at(-1)?.[0] ?? 0) + 1;
  /** The rejected append, until its range has been read back. */
  let failed: Append | undefined;
  /** All lines of rejected commits have a lower number: a broken connection may deliver them even after the range was read. */
  let end = next;

  function add({ entries, postings }: Append): void {
    next += entries.length;
    for (const entry of entries) foldEntry(state, entry);
    for (const posting of postings) posting.send();
  }

  async function confirm(): Promise<void> {
    if (!failed) return;
    const stored = await readRange(store, account, next, end);
    const { rows } = failed;
    const isWritten = stored.size === rows.length && rows.every(({ key, value }) => stored.get(key) === value);
    if (isWritten) add(failed);
    failed = undefined;
  }

  async function write(entries: readonly JournalEntry[]): Promise<void> {
    await confirm();
    const rows = entries.map((entry, index) => ({ key: keyOf(next + index), value: JSON.stringify(entry) }));
    const postings = noticesOf(entries);
    const surplus = numbers(next + rows.length, end).map(number => ({ key: keyOf(number), value: null }));
    const appended = { entries, rows, postings };
    try {
      await store.commit(account, [...rows, ...surplus, ...postings.flatMap(posting => posting.changes())]);
    } catch (error) {
      failed = appended;
      end = Math.max(end, next + rows.length);
      throw error;
    }
    add(appended);
    end = next;
  }

  let writing: Promise<void> = Promise.resolve();
  function serialized(work: () => Promise<void>): Promise<void> {
    const turn = writing.then(work);
    writing = turn.catch(() => undefined);
    return turn;
  }

  return {
    state,
    append: entries => serialized(() => write(entries)),
    confirm: () => serialized(confirm),
    newest: (since, most) => readBack(store, account, next - 1, since, most),
    notify(next) {
      noticesOf = next;
    },
  };
}
