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
   * is, and in `state`; when it rejects, nothing happened.
   */
  append(entries: readonly JournalEntry[]): Promise<void>;
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

/** Rejects with StoreError, and with an Error where a line is damaged. */
export async function openJournal(store: Store, account: string, notices: NoticesOf = () => []): Promise<Journal> {
  let noticesOf = notices;
  const state = emptyJournal();
  const lines = await scanLines(store, account);
  for (const [, entry] of lines) foldEntry(state, entry);
  let next = (lines.at(-1)?.[0] ?? 0) + 1;
  let writing: Promise<void> = Promise.resolve();
  return {
    state,
    append(entries) {
      const turn = writing.then(async () => {
        const rows = entries.map((entry, index) => ({ key: keyOf(next + index), value: JSON.stringify(entry) }));
        const postings = noticesOf(entries);
        await store.commit(account, [...rows, ...postings.flatMap(posting => posting.changes())]);
        next += entries.length;
        for (const entry of entries) foldEntry(state, entry);
        for (const posting of postings) posting.send();
      });
      writing = turn.catch(() => undefined);
      return turn;
    },
    newest: (since, most) => readBack(store, account, next - 1, since, most),
    notify(next) {
      noticesOf = next;
    },
  };
}
