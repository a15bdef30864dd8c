import { MINUTE } from '../kit/duration.ts';
import type { AccountHistory, Point } from '../model/history.ts';
import { riseOf, upTo } from './points.ts';

export type RecentChanges = ReturnType<typeof createRecentChanges>;

/** Minimum window (ms): samples are a minute apart. */
const MIN_WINDOW = MINUTE;

/** Window that is in memory for every series (ms). */
export const ALWAYS = 90 * MINUTE;

/** `at`: time of the current values (ms since the Unix epoch). */
export function createRecentChanges({ recent }: Pick<AccountHistory, 'recent'>, at: number) {
  function since(
    series: string,
    value: number | undefined,
    over: number,
    changeOf: (points: readonly Point[], value: number) => number | undefined,
  ) {
    if (value === undefined) return null;
    const points = recent(series, over);
    const [first] = points;
    if (!first || at - first.at < MIN_WINDOW) return null;
    const by = changeOf(upTo(points, { at, value }), value);
    return by === undefined ? null : { by, overSeconds: Math.round((at - first.at) / 1000) };
  }
  return {
    /** Returns the change of a gauge; null if a value is unknown. */
    change: (series: string, now: number | undefined, over: number) =>
      since(series, now, over, ([first], value) => value - (first?.value ?? value)),
    /** Returns the increase of a counter, which may have been reset; null if a value is unknown. */
    rise: (series: string, now: number | undefined, over: number) => since(series, now, over, riseOf),
    /**
     * Returns the increase of a counter that starts at 0 with each process; 0 if no value is recorded yet. Excludes increases in
     * earlier processes, because their last counts are unknown.
     */
    riseInProcess(series: string, now: number, over: number) {
      const points = upTo(recent(series, over), { at, value: now });
      const restart = points.findLastIndex(({ value }, index) => value < (points[index - 1]?.value ?? 0));
      const start = points[Math.max(0, restart)]?.at ?? at;
      const before = restart < 0 ? (points[0]?.value ?? now) : 0;
      return { by: now - before, overSeconds: Math.round((at - start) / 1000) };
    },
  };
}
