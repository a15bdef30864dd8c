import { gauge } from '../metrics/family.ts';

/** Label value that stands for everything beyond a cap. */
export const OTHER = '__other__';

/** Owned by every collector that caps. */
export const seriesDropped = gauge(
  'delivery_series_dropped',
  'Distinct label values of the family beyond its cap, at the last complete read in the background. Their sum is shown as __other__.',
  ['family'],
);

/** A value among the shown ones stays until it has ranked beyond this share of the cap … */
const MARGIN = 1.1;
/** … in so many complete rounds one after the other, so that series do not flicker at the edge. */
const EVICT_AFTER_ROUNDS = 3;

/** The values that are shown, and for how many rounds each has ranked clearly beyond the cap. */
export type Members = ReadonlyMap<string, number>;

type Sized = readonly [name: string, size: number];

/** Equal sizes rank by name. */
const byRank = ([a, sizeOfA]: Sized, [b, sizeOfB]: Sized) => sizeOfB - sizeOfA || (a < b ? -1 : 1);

/** Finds the largest of many values, without ever sorting all of them. */
export interface Ranking {
  /** How many there are. */
  readonly count: number;
  /** Each name once. */
  add(name: string, size: number): void;
  /** Those that rank within the margin, the largest first. */
  largest(): readonly Sized[];
}

export function createRanking(cap: number): Ranking {
  const most = Math.ceil(cap * MARGIN);
  let count = 0;
  let candidates: Sized[] = [];
  let least = Number.NEGATIVE_INFINITY;

  function trim(): void {
    candidates.sort(byRank);
    if (candidates.length < most) return;
    candidates = candidates.slice(0, most);
    least = candidates.at(-1)?.[1] ?? Number.POSITIVE_INFINITY;
  }

  return {
    get count() {
      return count;
    },
    add(name, size) {
      count += 1;
      if (size < least) return;
      candidates.push([name, size]);
      if (candidates.length > 2 * most + 100) trim();
    },
    largest() {
      trim();
      return candidates;
    },
  };
}

/**
 * Which values to show, at most `cap`: first those shown before that still rank within the margin, or have not been
 * beyond it for long; then the largest of the rest. `sizeOf`: undefined for what is not there.
 */
export function chooseRanked(
  ranking: Ranking,
  sizeOf: (name: string) => number | undefined,
  before: Members,
  cap: number,
): Members {
  const largest = ranking.largest();
  if (ranking.count <= cap) return new Map(largest.map(([name]) => [name, 0]));
  const members = new Map<string, number>();
  const within = new Set(largest.map(([name]) => name));
  for (const name of within) if (before.has(name) && members.size < cap) members.set(name, 0);
  const beyond = [...before.keys()].flatMap((name): Sized[] => {
    const size = within.has(name) ? undefined : sizeOf(name);
    return size === undefined ? [] : [[name, size]];
  });
  for (const [name] of beyond.sort(byRank)) {
    const rounds = (before.get(name) ?? 0) + 1;
    if (members.size < cap && rounds < EVICT_AFTER_ROUNDS) members.set(name, rounds);
  }
  for (const name of within) {
    if (members.size === cap) break;
    if (!before.has(name)) members.set(name, 0);
  }
  return members;
}

/** The same of values that are all at hand. */
export function chooseMembers(sizes: ReadonlyMap<string, number>, before: Members, cap: number): Members {
  const ranking = createRanking(cap);
  for (const [name, size] of sizes) ranking.add(name, size);
  return chooseRanked(ranking, name => sizes.get(name), before, cap);
}
