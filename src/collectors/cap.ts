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

/** Finds those of many values that rank within the margin. No single step takes long, however many they are. */
export type Ranking = ReturnType<typeof createRanking>;

interface Place {
  readonly name: string;
  size: number;
  at: number;
}

const ranksBehind = (a: Place, b: Place) => a.size < b.size || (a.size === b.size && a.name > b.name);

/** A heap whose first place is the one that ranks last. */
export function createRanking(cap: number) {
  const most = Math.ceil(cap * MARGIN);
  const heap: Place[] = [];
  const places = new Map<string, Place>();
  let count = 0;

  function put(place: Place, at: number): void {
    heap[at] = place;
    place.at = at;
  }

  /** Moves a place up or down to where it belongs. */
  function settle(place: Place): void {
    let { at } = place;
    for (let up = (at - 1) >> 1; at > 0 && ranksBehind(place, heap[up] as Place); up = (at - 1) >> 1) {
      put(heap[up] as Place, at);
      at = up;
    }
    for (;;) {
      let down = 2 * at + 1;
      if (down + 1 < heap.length && ranksBehind(heap[down + 1] as Place, heap[down] as Place)) down += 1;
      if (down >= heap.length || !ranksBehind(heap[down] as Place, place)) break;
      put(heap[down] as Place, at);
      at = down;
    }
    put(place, at);
  }

  function takeLast(): string | undefined {
    const [last] = heap;
    const end = heap.pop();
    if (!last || !end) return undefined;
    places.delete(last.name);
    if (end !== last) {
      put(end, 0);
      settle(end);
    }
    return last.name;
  }

  return {
    /** How many were added. */
    get count(): number {
      return count;
    },
    /** Those within the margin, in no order. */
    within: places,
    /** Each name once. Gives the name that is not, or no longer, within the margin: this one, or one before. */
    add(name: string, size: number): string | undefined {
      count += 1;
      const place = { name, size, at: heap.length };
      const [last] = heap;
      if (heap.length >= most && (!last || ranksBehind(place, last))) return name;
      heap.push(place);
      places.set(name, place);
      settle(place);
      return heap.length > most ? takeLast() : undefined;
    },
    /** Changes the size of one within the margin: what it should rank behind now may be gone already. */
    change(name: string, size: number): void {
      const place = places.get(name);
      if (!place) return;
      place.size = size;
      settle(place);
    },
    /** Takes out the one that ranks last. */
    takeLast,
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
  const { within } = ranking;
  if (ranking.count <= cap) return new Map([...within.keys()].map(name => [name, 0]));
  const members = new Map<string, number>();
  for (const name of within.keys()) if (before.has(name) && members.size < cap) members.set(name, 0);
  let newcomers = within.size - members.size;
  const beyond = [...before.keys()].flatMap((name): Sized[] => {
    const size = within.has(name) ? undefined : sizeOf(name);
    return size === undefined ? [] : [[name, size]];
  });
  for (const [name] of beyond.sort(byRank)) {
    const rounds = (before.get(name) ?? 0) + 1;
    if (members.size < cap && rounds < EVICT_AFTER_ROUNDS) members.set(name, rounds);
  }
  while (newcomers > cap - members.size) if (!before.has(ranking.takeLast() ?? '')) newcomers -= 1;
  for (const name of within.keys()) if (!before.has(name)) members.set(name, 0);
  return members;
}

/** The same of values that are all at hand. */
export function chooseMembers(sizes: ReadonlyMap<string, number>, before: Members, cap: number): Members {
  const ranking = createRanking(cap);
  for (const [name, size] of sizes) ranking.add(name, size);
  return chooseRanked(ranking, name => sizes.get(name), before, cap);
}
