import { gauge } from '../metrics/family.ts';

/** Label value for the sum of everything beyond a cap. */
export const OTHER = '__other__';

export const seriesDropped = gauge(
  'delivery_series_dropped',
  'Label values without their own series because of the family’s limit, read in the background. __other__ is the sum of their samples.',
  ['family'],
);

/** An exposed value is evicted if it ranks beyond this multiple of the cap for `EVICT_AFTER_ROUNDS` rounds. */
const MARGIN = 1.1;
/** Number of consecutive complete rounds beyond the margin after which a shown value is evicted, so that series do not flicker. */
const EVICT_AFTER_ROUNDS = 3;

/** Shown values, each with the number of consecutive rounds in which it ranked beyond the margin. */
export type Members = ReadonlyMap<string, number>;

type Sized = readonly [name: string, size: number];

const byRank = ([a, sizeOfA]: Sized, [b, sizeOfB]: Sized) => sizeOfB - sizeOfA || (a < b ? -1 : 1);

/** Ranks any number of values and keeps only the values within the margin. */
export type Ranking = ReturnType<typeof createRanking>;

/** `onDropped`: called with each value that can no longer rank within the margin. */
export function createRanking(cap: number, onDropped: (name: string) => void = () => undefined) {
  const capacity = Math.ceil(cap * MARGIN);
  const sizes = new Map<string, number>();
  /** Lowest-ranked value that the most recent drop kept. */
  let last: Sized | undefined;

  function drop(name: string): void {
    sizes.delete(name);
    onDropped(name);
  }

  /** Returns the values within the margin, the largest first, and drops all others. */
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
      // The value may now rank below `last`, so `last` no longer marks the limit.
      if (size < (sizes.get(name) as number)) last = undefined;
      sizes.set(name, size);
    },
  };
}

/**
 * Chooses at most `cap` values to show. Values already shown stay while they rank within the margin, and for a few rounds
 * after they leave it. The largest of the rest fill the remaining places. `sizeOf` returns undefined for a missing value.
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
