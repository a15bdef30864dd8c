import { gauge } from '../metrics/family.ts';

/** Label value that stands for everything beyond a cap. */
export const OTHER = '__other__';

/** Owned by every collector that caps. */
export const seriesDropped = gauge(
  'delivery_series_dropped',
  'Distinct label values of the family that the last complete read in the background found beyond its cap; their sum is shown as __other__.',
  ['family'],
);

/** A value among the shown ones stays until it has ranked beyond this share of the cap … */
const MARGIN = 1.1;
/** … in so many complete rounds one after the other, so that series do not flicker at the edge. */
const PATIENCE = 3;

/** The values that are shown, and for how many rounds each has ranked clearly beyond the cap. */
export type Members = ReadonlyMap<string, number>;

/**
 * Which values to show, at most `cap`: first those shown before that still rank within the margin, or have not been
 * beyond it for long; then the largest of the rest. Equal sizes rank by name.
 */
export function chooseMembers(sizes: ReadonlyMap<string, number>, before: Members, cap: number): Members {
  if (sizes.size <= cap) return new Map([...sizes.keys()].map(name => [name, 0]));
  const ranked = [...sizes]
    .sort(([a, sizeOfA], [b, sizeOfB]) => sizeOfB - sizeOfA || (a < b ? -1 : 1))
    .map(([name]) => name);
  const members = new Map<string, number>();
  for (const [rank, name] of ranked.entries()) {
    const beyond = before.get(name);
    if (beyond === undefined || members.size === cap) continue;
    const nowBeyond = rank < cap * MARGIN ? 0 : beyond + 1;
    if (nowBeyond < PATIENCE) members.set(name, nowBeyond);
  }
  for (const name of ranked) {
    if (members.size === cap) break;
    if (!members.has(name) && !before.has(name)) members.set(name, 0);
  }
  return members;
}
