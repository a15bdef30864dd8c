import type { FirstValue } from './judge.ts';

export interface Known {
  readonly at: number;
  /** By key; undefined: nothing is known of this time. */
  readonly values: ReadonlyMap<string, number> | undefined;
}

/** Series of one kind as they were, over a window that moves on. In memory: it starts empty with the process, or from `restore`. */
export type History = ReturnType<typeof createHistory>;

/** Times that are kept of a window, at most: a longer one is not kept more exactly. */
const POINTS = 120;
/** Share of the distance of two points by which the next may come early: evaluations have jitter. */
const EARLY = 0.2;

/** After a sample that was restored, the next may come so many milliseconds later: more than two of their intervals; */
const LATE = 150_000;
/** but not more than this share of the window. In what is longer, nothing was known. */
const LATE_SHARE = 0.1;

interface Point {
  readonly at: number;
  values: ReadonlyMap<string, number> | undefined;
  /** Keys that the point before it does not have. */
  readonly added: readonly string[];
}

/**
 * `over`: length of the window in milliseconds. Takes no more than some 150 times the memory of the series themselves. `isCounter`:
 * a value that falls began again at 0, and what was before it counts on from there.
 */
export function createHistory(over: number, isCounter = false) {
  const points: Point[] = [];
  const apart = over / POINTS;
  const mayBeLate = Math.max(apart, Math.min(LATE, over * LATE_SHARE));
  /** Time of the sample that was restored last, until another is recorded. */
  let restoredUntil: number | undefined;

  /** Lets the values before a counter began again be as much below the new ones as they were below its last. */
  function countOn(values: ReadonlyMap<string, number>): void {
    for (const [key, value] of values) {
      const last = points.findLast(point => point.values?.has(key))?.values?.get(key) ?? value;
      if (value >= last) continue;
      for (const point of points) {
        const known = point.values?.get(key);
        if (known !== undefined) point.values = new Map(point.values).set(key, known - last);
      }
    }
  }

  function push(at: number, values: ReadonlyMap<string, number> | undefined): void {
    const before = points.at(-1)?.values;
    points.push({ at, values, added: values ? [...values.keys()].filter(key => !before?.has(key)) : [] });
  }

  function record(at: number, values: ReadonlyMap<string, number> | undefined): void {
    if (restoredUntil !== undefined && at - restoredUntil > mayBeLate) push(restoredUntil + 1, undefined);
    restoredUntil = undefined;
    if (isCounter && values) countOn(values);
    const last = points.at(-1);
    if (last && at - last.at < apart * (1 - EARLY)) return;
    push(at, values);
    // One point at the begin of the window or before it is enough.
    while ((points[1]?.at ?? at) <= at - over) points.shift();
  }

  return {
    /** Takes what is known at `at` (monotonic, milliseconds), by key; undefined: nothing is. */
    record,
    /** Takes what an earlier process knew, ascending, before anything else; times are on this process's monotonic clock. */
    restore(past: readonly Known[]): void {
      for (const { at, values } of past) {
        record(at, values);
        restoredUntil = at;
      }
    },
    /**
     * The first value of each series in the window that ends at `at`, and whether the window began with it; undefined while the
     * window was not watched from its begin on, and where nothing was known then.
     */
    firsts(at: number): ReadonlyMap<string, FirstValue> | undefined {
      // As a rule it is the first.
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
