import type { FirstValue } from './evaluate-condition.ts';

export interface HistoryPoint {
  readonly at: number;
  /** Values by key; undefined if there was no data at this time. */
  readonly values: ReadonlyMap<string, number> | undefined;
}

/** Values of series over a sliding window, in memory. */
export type History = ReturnType<typeof createHistory>;

/** Number of points per window without jitter. Longer windows have a lower resolution. */
const POINTS = 120;
/** How early a point may be, as a fraction of the point interval: evaluations have jitter. */
const EARLY = 0.2;

/** Maximum gap after a restored sample (ms): more than two sample intervals. Longer gaps count as times without data. */
const MAX_GAP = 150_000;
/** Maximum gap as a share of the window, for short windows. */
const MAX_GAP_SHARE = 0.1;

interface Point {
  readonly at: number;
  values: ReadonlyMap<string, number> | undefined;
  /** Keys that are missing in the previous point. */
  readonly added: readonly string[];
}

/**
 * Creates a history of the last `over` milliseconds, with at most about 150 points. `isCounter`: a decrease is a reset to 0, and
 * increases before the reset still count.
 */
export function createHistory(over: number, isCounter = false) {
  const points: Point[] = [];
  const interval = over / POINTS;
  const maxGap = Math.max(interval, Math.min(MAX_GAP, over * MAX_GAP_SHARE));
  /** Time of the last restored sample, until another is recorded. */
  let restoredUntil: number | undefined;

  /** Subtracts a counter's last value before a reset from its earlier values, so that differences span the reset. */
  function spanResets(values: ReadonlyMap<string, number>): void {
    for (const [key, value] of values) {
      const last = points.findLast(point => point.values?.has(key))?.values?.get(key) ?? value;
      if (value >= last) continue;
      for (const point of points) {
        const earlier = point.values?.get(key);
        if (earlier !== undefined) point.values = new Map(point.values).set(key, earlier - last);
      }
    }
  }

  function push(at: number, values: ReadonlyMap<string, number> | undefined): void {
    const before = points.at(-1)?.values;
    points.push({ at, values, added: values ? [...values.keys()].filter(key => !before?.has(key)) : [] });
  }

  function record(at: number, values: ReadonlyMap<string, number> | undefined): void {
    if (restoredUntil !== undefined && at - restoredUntil > maxGap) push(restoredUntil + 1, undefined);
    restoredUntil = undefined;
    if (isCounter && values) spanResets(values);
    const last = points.at(-1);
    if (last && at - last.at < interval * (1 - EARLY)) return;
    push(at, values);
    // Keep one point at or before the start of the window.
    while ((points[1]?.at ?? at) <= at - over) points.shift();
  }

  return {
    /** Adds the values by key at `at` (monotonic, ms); undefined if there is no data. */
    record,
    /** Adds points of an earlier process in ascending order, before any `record`. Times are on this process's monotonic clock. */
    restore(past: readonly HistoryPoint[]): void {
      for (const { at, values } of past) {
        record(at, values);
        restoredUntil = at;
      }
    },
    /** Returns the first value of each series in the window that ends at `at`; undefined if its start has no data. */
    firsts(at: number): ReadonlyMap<string, FirstValue> | undefined {
      // Find the last point at or before the start: usually the first one.
      let from = -1;
      while ((points[from + 1]?.at ?? Number.POSITIVE_INFINITY) <= at - over) from += 1;
      const start = points[from]?.values;
      if (!start) return undefined;
      const firsts = new Map<string, FirstValue>();
      for (const [key, value] of start) firsts.set(key, { value, isAtStart: true });
      for (let index = from + 1; index < points.length; index += 1) {
        const { values, added } = points[index] as Point;
        for (const key of added) {
          if (!firsts.has(key)) firsts.set(key, { value: values?.get(key) ?? 0, isAtStart: false });
        }
      }
      return firsts;
    },
  };
}
