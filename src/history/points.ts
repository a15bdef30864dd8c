import type { Point } from '../model/history.ts';

/** Longest time between two samples that is not a gap (ms): two samples may be late, or one missing. */
export const MAX_GAP = 150_000;

/** Appends later points of a series. */
export function join(points: readonly Point[], [next, ...rest]: readonly Point[]): readonly Point[] {
  if (!next) return points;
  const { at, value, isAfterGap = false } = next;
  return [...points, { at, value, isAfterGap: isAfterGap || at - (points.at(-1)?.at ?? at) > MAX_GAP }, ...rest];
}

/** Appends the current value of a series to its recorded points. */
export const upTo = (points: readonly Point[], now: Omit<Point, 'isAfterGap'>): readonly Point[] => join(points, [now]);

/** Returns the points from `from` until `to` (ms since the Unix epoch). */
export const between = (points: readonly Point[], from: number, to: number): readonly Point[] =>
  points.filter(({ at }) => at >= from && at <= to);

/** Returns the value at `from`; undefined if it is unknown. */
export const first = ([point]: readonly Point[], from: number): number | undefined =>
  point && point.at <= from ? point.value : undefined;

/** Share of the previous value below which a counter counts as reset. A smaller decrease is due to a restored backup. */
const RESET = 0.5;

/**
 * Returns the sum of all increases of a counter, which may have been reset; undefined if there are no points, or if the counter
 * decreased in a gap, because earlier increases in that gap are unknown.
 */
export function riseOf([start, ...points]: readonly Point[]): number | undefined {
  if (!start) return undefined;
  let [sum, last] = [0, start.value];
  for (const { value, isAfterGap } of points) {
    if (value < last && isAfterGap) return undefined;
    if (value >= last) sum += value - last;
    else if (value < RESET * last) sum += value;
    last = value;
  }
  return sum;
}

const isWhole = ([start, ...points]: readonly Point[]) =>
  start !== undefined && !points.some(({ isAfterGap }) => isAfterGap);

/** Returns the lowest value; undefined if there are no points, or if there is a gap between them. */
export const min = (points: readonly Point[]): number | undefined =>
  isWhole(points) ? points.reduce((least, { value }) => Math.min(least, value), Number.POSITIVE_INFINITY) : undefined;

/** Returns the highest value; undefined if there are no points, or if there is a gap between them. */
export const max = (points: readonly Point[]): number | undefined =>
  isWhole(points) ? points.reduce((most, { value }) => Math.max(most, value), Number.NEGATIVE_INFINITY) : undefined;
