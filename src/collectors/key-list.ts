import { createGlob } from '../kit/glob.ts';
import type { FlowControlEntry } from '../model/message.ts';
import { chooseRanked, createRanking, type Members, OTHER } from './cap.ts';

export interface KeyFacts {
  /** Number of distinct keys in the list; undefined before the first list. */
  readonly keys: number | undefined;
  readonly shown: readonly FlowControlEntry[];
  /** Number of selected keys beyond the cap. */
  readonly beyondCap: number;
  /** Number of messages waiting on the keys beyond the cap. */
  readonly beyondCapWaiting: number;
}

export interface ReadList {
  readonly facts: KeyFacts;
  readonly members: Members;
  /** Unlisted keys that keep their values, each with the number of consecutive lists without it. */
  readonly kept: ReadonlyMap<string, number>;
  /** Returns whether `key` is watched and listed, or keeps its value. */
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
  readonly members: Members;
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

/** Aggregates a list of keys and keeps only a few rows: a list may have 300,000. */
export function createKeyList(selection: Selection, before: Before) {
  const watched = new Set(selection.watch);
  const isShown = keyFilter(selection);
  // A key named `__other__` is merged into the remainder, because the two would be indistinguishable.
  const isRanked = (key: string) => key !== OTHER && !watched.has(key) && isShown(key);
  const cap = Math.max(0, selection.maxSeries - watched.size);
  /** Keys kept regardless of their rank. */
  const needed = new Set([OTHER, ...watched, ...before.members.keys(), ...before.shown.map(({ key }) => key)]);
  /** Rows of needed keys and of keys within the margin, in list order. */
  const held = new Map<string, FlowControlEntry>();
  const sizes = new Map<string, number>();
  let [dropped, droppedWaiting] = [0, 0];

  const ranking = createRanking(cap, key => {
    if (needed.has(key)) return;
    dropped += 1;
    droppedWaiting += held.get(key)?.waitlistSize ?? 0;
    held.delete(key);
  });

  /**
   * Returns the missing keys that keep their values because the unreadable rows may be theirs: all watched keys, then the largest
   * others for the remaining unreadable rows.
   */
  function stayingKeys(rejected: number): readonly FlowControlEntry[] {
    if (rejected === 0) return [];
    const missing = before.shown.filter(({ key }) => !held.has(key) && before.timesKept(key) < MAX_TIMES_KEPT);
    const staying = missing.filter(({ key }) => watched.has(key));
    const others = missing.filter(({ key }) => !watched.has(key)).sort((a, b) => b.waitlistSize - a.waitlistSize);
    return [...staying, ...others.slice(0, Math.max(0, rejected - staying.length))];
  }

  return {
    // A key listed twice counts once, with its last row.
    add(entry: FlowControlEntry): void {
      const { key, waitlistSize } = entry;
      const sizeBefore = sizes.get(key);
      sizes.set(key, waitlistSize);
      if (sizeBefore !== undefined && held.has(key)) {
        held.set(key, entry);
        ranking.change(key, waitlistSize);
      } else if (isRanked(key)) {
        if (sizeBefore !== undefined) [dropped, droppedWaiting] = [dropped - 1, droppedWaiting - sizeBefore];
        held.set(key, entry);
        ranking.add(key, waitlistSize);
      } else if (needed.has(key)) held.set(key, entry);
    },
    end(rejected: number): ReadList {
      const keys = sizes.size + rejected;
      const staying = stayingKeys(rejected);
      for (const entry of staying) {
        held.set(entry.key, entry);
        if (isRanked(entry.key)) ranking.add(entry.key, entry.waitlistSize);
      }
      const sizeOf = (key: string) => (isRanked(key) ? held.get(key)?.waitlistSize : undefined);
      const members = chooseRanked(ranking, sizeOf, before.members, cap);
      const shown: FlowControlEntry[] = [];
      let [beyondCap, beyondCapWaiting] = [dropped, droppedWaiting];
      for (const entry of held.values()) {
        const { key, waitlistSize } = entry;
        if (members.has(key) || (watched.has(key) && key !== OTHER)) shown.push(entry);
        else if (watched.has(key) || isShown(key)) {
          beyondCap += 1;
          beyondCapWaiting += waitlistSize;
        }
      }
      return {
        facts: { keys, shown, beyondCap, beyondCapWaiting },
        members,
        kept: new Map(staying.map(({ key }) => [key, before.timesKept(key) + 1])),
        has: key => held.has(key),
        isComplete: rejected === 0,
      };
    },
  };
}
