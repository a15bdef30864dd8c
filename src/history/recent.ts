import { MINUTE } from '../kit/duration.ts';
import type { AccountHistory, Point } from '../model/history.ts';

export type RecentChanges = ReturnType<typeof createRecentChanges>;

/** Minimum window (ms): samples are a minute apart. */
const MIN_WINDOW = MINUTE;

/** Returns the sum of all increases up to the current value. */
function risen(points: readonly Point[], now: number): number {
  let [rise, last] = [0, points[0]?.value ?? now];
  const add = (value: number) => {
    rise += value < last ? value : value - last;
    last = value;
  };
  for (const { value } of points) add(value);
  add(now);
  return rise;
}

/** `at`: time of the current values (ms since the Unix epoch). */
export function createRecentChanges({ recent }: Pick<AccountHistory, 'recent'>, at: number) {
  function since(series: string, now: number | undefined, over: number, by: typeof risen) {
    if (now === undefined) return null;
    const points = recent(series, over);
    const [first] = points;
    if (!first || at - first.at < MIN_WINDOW) return null;
    return { by: by(points, now), overSeconds: Math.round((at - first.at) / 1000) };
  }
  return {
    /** Returns the change of a gauge; null if a value is unknown. */
    change: (series: string, now: number | undefined, over: number) =>
      since(series, now, over, ([first], now) => now - (first?.value ?? now)),
    /** Returns the increase of a counter, which may have been reset; null if a value is unknown. */
    rise: (series: string, now: number | undefined, over: number) => since(series, now, over, risen),
  };
}

export const HOUR = 3_600_000;

/** Window that is in memory for every series (ms). */
export const ALWAYS = 90 * MINUTE;
/** Maximum distance between the start of a window and the point before it (ms). */
const BEFORE = 2 * MINUTE;

/** Returns the number of points before `at`. `points` must be in ascending order of time. */
function pointsBefore(points: readonly Point[], at: number): number {
  let [low, high] = [0, points.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((points[middle] as Point).at < at) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Returns the points from `from` until now, and the previous one if it is close. `points`: oldest first. */
export function pointsWithin(points: readonly Point[], from: number, now: number): readonly Point[] {
  // After the clock was set back, some points are in the future.
  const end = pointsBefore(points, now + 1);
  const begin = Math.min(pointsBefore(points, from), end);
  const earlier = points[begin - 1];
  return points.slice(earlier && earlier.at >= from - BEFORE ? begin - 1 : begin, end);
}

/** Caches `recent` by series, as of `now` (ms since the Unix epoch). */
export function cachedAt(recent: AccountHistory['recent'], now: number): AccountHistory['recent'] {
  const known = new Map<string, readonly Point[]>();
  return (series, over) => {
    if (over > ALWAYS) return recent(series, over);
    const points = known.get(series) ?? recent(series, ALWAYS);
    known.set(series, points);
    return pointsWithin(points, now - over, now);
  };
}
