import type { Family } from '../metrics/family.ts';

/** Label value for the sum of everything beyond a cap. */
export const OTHER = '__other__';

/** Declaration of `delivery_series_dropped`, which several collectors share. */
export const seriesDropped = {
  name: 'delivery_series_dropped',
  type: 'gauge',
  help: 'Number of label values that have no series, because of the family’s limit. __other__, if present, is the sum of the missing series.',
  labels: ['family'],
} as const satisfies Family;

type Sized = readonly [name: string, size: number];

const byRank = ([a, sizeOfA]: Sized, [b, sizeOfB]: Sized) => sizeOfB - sizeOfA || (a < b ? -1 : 1);

/** Returns the names of the `cap` largest values, the largest first. */
export function largestOf(sizes: readonly Sized[], cap: number): ReadonlySet<string> {
  let kept: Sized[] = [];
  let last: Sized | undefined;
  for (const each of sizes) {
    if (last && byRank(each, last) > 0) continue;
    kept.push(each);
    // Sorting all values at once would block the event loop for too long: a key list may have 300,000 keys.
    if (kept.length < 2 * cap) continue;
    kept = kept.sort(byRank).slice(0, cap);
    last = kept.at(-1);
  }
  const names = kept.sort(byRank).slice(0, cap);
  return new Set(names.map(([name]) => name));
}
