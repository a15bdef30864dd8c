import type { Family } from '../metrics/family.ts';

/** Label value for the sum of everything beyond a cap. */
export const OTHER = '__other__';

/** Declaration of `delivery_series_dropped`, which several collectors share. */
export const seriesDropped = {
  name: 'delivery_series_dropped',
  type: 'gauge',
  help: 'Label values without a separate series, because of the family’s limit. __other__ is the sum of their values.',
  labels: ['family'],
} as const satisfies Family;

/** Multiple of the cap up to which a shown value may rank without being replaced, so that series do not flicker. */
const MARGIN = 1.1;
/** Number of consecutive complete rounds beyond the margin after which a shown value is evicted. */
const EVICT_AFTER_ROUNDS = 3;

/** Shown values, each with the number of consecutive rounds in which it ranked beyond the margin. */
export type Members = ReadonlyMap<string, number>;

type Sized = readonly [name: string, size: number];

const byRank = ([a, sizeOfA]: Sized, [b, sizeOfB]: Sized) => sizeOfB - sizeOfA || (a < b ? -1 : 1);

function largest(sizes: readonly Sized[], count: number): readonly Sized[] {
  let kept: Sized[] = [];
  let last: Sized | undefined;
  for (const each of sizes) {
    if (last && byRank(each, last) > 0) continue;
    kept.push(each);
    // Sorting all values at once would block the event loop for too long: a key list may have 300,000 keys.
    if (kept.length < 2 * count) continue;
    kept = kept.sort(byRank).slice(0, count);
    last = kept.at(-1);
  }
  return kept.sort(byRank).slice(0, count);
}

/**
 * Chooses at most `cap` values to show: shown values that rank within the margin, then shown values that have ranked beyond it
 * for only a few rounds, then the largest of the rest.
 */
export function chooseMembers(sizes: readonly Sized[], before: Members, cap: number): Members {
  const within = new Set(largest(sizes, Math.ceil(cap * MARGIN)).map(([name]) => name));
  if (within.size <= cap) return new Map([...within].map(name => [name, 0]));
  const members = new Map<string, number>();
  for (const name of within) if (before.has(name) && members.size < cap) members.set(name, 0);
  const beyond = sizes.filter(([name]) => before.has(name) && !within.has(name));
  for (const [name] of beyond.sort(byRank)) {
    const rounds = (before.get(name) ?? 0) + 1;
    if (members.size < cap && rounds < EVICT_AFTER_ROUNDS) members.set(name, rounds);
  }
  for (const name of within) if (!before.has(name) && members.size < cap) members.set(name, 0);
  return members;
}
