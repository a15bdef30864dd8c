import { createGlob } from '../kit/glob.ts';
import type { FlowControlEntry } from '../model/message.ts';
import { chooseRanked, createRanking, type Members, OTHER } from './cap.ts';

export interface KeyFacts {
  /** Distinct keys that the service lists; undefined before it has. */
  readonly keys: number | undefined;
  readonly shown: readonly FlowControlEntry[];
  /** Keys that are wanted and beyond the cap, and how many wait on them together. */
  readonly beyondCap: number;
  readonly beyondCapWaiting: number;
}

/** A list of keys, read to its end. */
export interface ReadList {
  readonly facts: KeyFacts;
  readonly members: Members;
  /** Keys that it does not list and that stay as they were, and in how many lists, one after the other. */
  readonly kept: ReadonlyMap<string, number>;
  /** Whether it lists a key that is watched, or one that stays as it was. */
  has(key: string): boolean;
  readonly isWhole: boolean;
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
  /** How many lists a key has already stayed as it was without being listed. */
  timesKept(key: string): number;
}

/** A key that is not listed stays as it was in no more lists than this: as long as any data is shown that can't be read. */
const LONGEST_KEPT = 20;

function keyFilter({ include, exclude }: Selection): (key: string) => boolean {
  const [included, excluded] = [include.map(createGlob), exclude.map(createGlob)];
  return key =>
    (included.length === 0 || included.some(matches => matches(key))) && !excluded.some(matches => matches(key));
}

/** Adds up the keys of a list, and keeps the rows of few: a list may have 300,000. */
export function createKeyList(selection: Selection, before: Before) {
  const watched = new Set(selection.watch);
  const isShown = keyFilter(selection);
  // A key with the name of the rest (__other__) is part of the rest: they would be indistinguishable.
  const isRanked = (key: string) => key !== OTHER && !watched.has(key) && isShown(key);
  const cap = Math.max(0, selection.maxSeries - watched.size);
  /** Their rows are held wherever they rank. */
  const needed = new Set([OTHER, ...watched, ...before.members.keys(), ...before.shown.map(({ key }) => key)]);
  /** These, and those that rank within the margin, in the order of the list. */
  const held = new Map<string, FlowControlEntry>();
  const sizes = new Map<string, number>();
  /** Of the keys that are ranked and not held. */
  let [dropped, droppedWaiting] = [0, 0];

  const ranking = createRanking(cap, key => {
    if (needed.has(key)) return;
    dropped += 1;
    droppedWaiting += held.get(key)?.waitlistSize ?? 0;
    held.delete(key);
  });

  /** The row of a key that is missing may be one of those that could not be read: as many stay as they were, and all that are watched, for of those a missing one has nothing waiting. */
  function stayingKeys(rejected: number): readonly FlowControlEntry[] {
    if (rejected === 0) return [];
    const missing = before.shown.filter(({ key }) => !held.has(key) && before.timesKept(key) < LONGEST_KEPT);
    const staying = missing.filter(({ key }) => watched.has(key));
    const others = missing.filter(({ key }) => !watched.has(key)).sort((a, b) => b.waitlistSize - a.waitlistSize);
    return [...staying, ...others.slice(0, Math.max(0, rejected - staying.length))];
  }

  return {
    // A key listed twice is one key; its last row counts.
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
        isWhole: rejected === 0,
      };
    },
  };
}
