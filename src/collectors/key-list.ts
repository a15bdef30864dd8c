import { createGlob } from '../kit/glob.ts';
import type { FlowControlEntry } from '../model/message.ts';
import { largestOf, OTHER } from './cap.ts';

export interface KeyFacts {
  /** Number of distinct keys plus unreadable rows in the list; undefined before the first list. */
  readonly keys: number | undefined;
  readonly shown: readonly FlowControlEntry[];
  /** Number of selected keys beyond the cap, and of messages waiting on them. */
  readonly beyondCap: number;
  readonly beyondCapWaiting: number;
}

export interface ReadList {
  readonly facts: KeyFacts;
  /** Unlisted keys that keep their values, each with the number of consecutive lists without it. */
  readonly kept: ReadonlyMap<string, number>;
  /** Returns whether `key` is listed or keeps its value. */
  has(key: string): boolean;
  readonly isComplete: boolean;
}

interface Selection {
  readonly include: readonly string[];
  readonly exclude: readonly string[];
  readonly maxSeries: number;
  readonly watch: readonly string[];
}

interface Before {
  readonly shown: readonly FlowControlEntry[];
  /** Returns the number of consecutive lists in which an unlisted key has kept its value. */
  timesKept(key: string): number;
}

/** Maximum number of consecutive lists in which an unlisted key keeps its value. */
const MAX_TIMES_KEPT = 20;

function keyFilter({ include, exclude }: Selection): (key: string) => boolean {
  const [included, excluded] = [include.map(createGlob), exclude.map(createGlob)];
  return key =>
    (included.length === 0 || included.some(matches => matches(key))) && !excluded.some(matches => matches(key));
}

const sumOf = (a: number | undefined, b: number | undefined) =>
  a === undefined || b === undefined ? undefined : a + b;

/** Returns the sum of two keys whose names have become equal. A limit or pause of one of them does not apply to both. */
const merged = (a: FlowControlEntry, b: FlowControlEntry): FlowControlEntry => ({
  key: a.key,
  waitlistSize: sumOf(a.waitlistSize, b.waitlistSize),
  parallelismInUse: sumOf(a.parallelismInUse, b.parallelismInUse),
});

const sizeOf = ({ waitlistSize = 0 }: FlowControlEntry) => waitlistSize;

/** Collects the rows of a key list. A key listed twice counts once, with its last row. */
export function createKeyList(selection: Selection, before: Before) {
  const watched = new Set(selection.watch);
  const isSelected = keyFilter(selection);
  const cap = Math.max(0, selection.maxSeries - watched.size);
  const rows = new Map<string, FlowControlEntry>();
  let mergedRows = 0;

  /**
   * Returns the missing keys that keep their values because unreadable rows may be theirs: all watched keys, and the largest
   * others, one per remaining row.
   */
  function stayingKeys(rejected: number): readonly FlowControlEntry[] {
    if (rejected === 0) return [];
    const missing = before.shown.filter(({ key }) => !rows.has(key) && before.timesKept(key) < MAX_TIMES_KEPT);
    const staying = missing.filter(({ key }) => watched.has(key));
    const others = missing.filter(({ key }) => !watched.has(key)).sort((a, b) => sizeOf(b) - sizeOf(a));
    return [...staying, ...others.slice(0, Math.max(0, rejected - staying.length))];
  }

  return {
    add(entry: FlowControlEntry): void {
      const other = rows.get(entry.key);
      // U+FFFD replaces unreadable characters, so that different keys may have the same name.
      const isMerged = other !== undefined && entry.key.includes('\ufffd');
      if (isMerged) mergedRows += 1;
      rows.set(entry.key, isMerged ? merged(other, entry) : entry);
    },
    /** Ends the list. `rejected`: number of unreadable rows. */
    end(rejected: number): ReadList {
      const keys = rows.size + mergedRows + rejected;
      const staying = stayingKeys(rejected);
      for (const entry of staying) rows.set(entry.key, entry);
      const wanted = [...rows.values()].filter(({ key }) => watched.has(key) || isSelected(key));
      // A key named `__other__` is merged into the remainder, because the two would be indistinguishable.
      const ranked = wanted.filter(({ key }) => key !== OTHER && !watched.has(key));
      const sizes = ranked.map(entry => [entry.key, sizeOf(entry)] as const);
      const largest = largestOf(sizes, cap);
      const isShown = ({ key }: FlowControlEntry) => largest.has(key) || (watched.has(key) && key !== OTHER);
      const shown = wanted.filter(isShown);
      const beyondCapWaiting = wanted.reduce((sum, each) => (isShown(each) ? sum : sum + sizeOf(each)), 0);
      return {
        facts: { keys, shown, beyondCap: wanted.length - shown.length, beyondCapWaiting },
        kept: new Map(staying.map(({ key }) => [key, before.timesKept(key) + 1])),
        has: key => rows.has(key),
        isComplete: rejected === 0,
      };
    },
  };
}
