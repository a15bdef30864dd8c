import { gauge } from '../metrics/family.ts';

/** Label value for the sum of everything beyond a cap. */
export const OTHER = '__other__';

export const seriesDropped = gauge(
  'delivery_series_dropped',
  'Distinct label values of the family beyond its cap, at the last complete read in the background. Their sum is shown as __other__.',
  ['family'],
);

/** A shown value is evicted once it ranks beyond this multiple of the cap … */
const MARGIN = 1.1;
/** … in this number of consecutive complete rounds, so that series do not flicker at the edge. */
const EVICT_AFTER_ROUNDS = 3;

/** Shown values, each with the number of rounds in which it ranked clearly beyond the cap. */
export type Members = ReadonlyMap<string, number>;

type Sized = readonly [name: string, size: number];

const byRank = ([a, sizeOfA]: Sized, [b, sizeOfB]: Sized) => sizeOfB - sizeOfA || (a < b ? -1 : 1);

/** Finds the values that rank within the margin, of any number of values. */
export type Ranking = ReturnType<typeof createRanking>;

/** `onDropped`: receives each value that cannot rank within the margin any more. */
export function createRanking(cap: number, onDropped: (name: string) => void = () => undefined) {
  const capacity = Math.ceil(cap * MARGIN);
  const sizes = new Map<string, number>();
  /** Last value within the margin at the most recent drop. */
  let last: Sized | undefined;

  function drop(name: string): void {
    sizes.delete(name);
    onDropped(name);
  }

  /** Values within the margin, the largest first. Drops all others. */
  function ranked(): readonly Sized[] {
    const all = [...sizes].sort(byRank);
    for (const [name] of all.splice(capacity)) drop(name);
    if (all.length === capacity) last = all.at(-1);
    return all;
  }

  return {
    ranked,
    add(name: string, size: number): void {
      const isBehind = last && (size < last[1] || (size === last[1] && name > last[0]));
      if (isBehind) {
        drop(name);
        return;
      }
      sizes.set(name, size);
      // Sorting at twice the capacity bounds memory at a small cost per value.
      if (sizes.size > 2 * capacity) ranked();
    },
    /** Changes the size of a value that was not dropped. */
    change(name: string, size: number): void {
      if (!sizes.has(name)) return;
      // `last` may now rank higher than this value.
      if (size < (sizes.get(name) as number)) last = undefined;
      sizes.set(name, size);
    },
  };
}

/**
 * Chooses the values to show, at most `cap`: first those shown before that still rank within the margin, or have not been
 * beyond it for long; then the largest of the rest. `sizeOf` returns undefined for a missing value.
 */
export function chooseRanked(
  ranking: Ranking,
  sizeOf: (name: string) => number | undefined,
  before: Members,
  cap: number,
): Members {
  const within = new Map(ranking.ranked());
  if (within.size <= cap) return new Map([...within.keys()].map(name => [name, 0]));
  const members = new Map<string, number>();
  for (const name of within.keys()) if (before.has(name) && members.size < cap) members.set(name, 0);
  const beyond = [...before.keys()].flatMap((name): Sized[] => {
    const size = within.has(name) ? undefined : sizeOf(name);
    return size === undefined ? [] : [[name, size]];
  });
  for (const [name] of beyond.sort(byRank)) {
    const rounds = (before.get(name) ?? 0) + 1;
    if (members.size < cap && rounds < EVICT_AFTER_ROUNDS) members.set(name, rounds);
  }
  for (const name of within.keys()) if (!before.has(name) && members.size < cap) members.set(name, 0);
  return members;
}

export function chooseMembers(sizes: ReadonlyMap<string, number>, before: Members, cap: number): Members {
  const ranking = createRanking(cap);
  for (const [name, size] of sizes) ranking.add(name, size);
  return chooseRanked(ranking, name => sizes.get(name), before, cap);
}
