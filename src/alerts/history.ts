import type { FirstValue } from './judge.ts';

/** Series of one kind as they were, over a window that moves on. In memory: it starts empty with the process. */
export interface History {
  /** Takes what is known at `at` (monotonic, milliseconds), by key; undefined: nothing is. */
  record(at: number, values: ReadonlyMap<string, number> | undefined): void;
  /**
   * The first value of each series in the window that ends at `at`, and whether the window began with it; undefined while the
   * window was not watched from its begin on, and where nothing was known then.
   */
  firsts(at: number): ReadonlyMap<string, FirstValue> | undefined;
}

/** Times that are kept of a window, at most: a longer one is not kept more exactly. */
const POINTS = 120;
/** Share of the distance of two points by which the next may come early: evaluations have jitter. */
const EARLY = 0.2;

/** `over`: length of the window in milliseconds. Takes no more than some 150 times the memory of the series themselves. */
export function createHistory(over: number): History {
  const points: { at: number; values: ReadonlyMap<string, number> | undefined }[] = [];
  return {
    record(at, values) {
      const last = points.at(-1);
      if (last && at - last.at < (over / POINTS) * (1 - EARLY)) return;
      points.push({ at, values });
      // One point at the begin of the window or before it is enough.
      while ((points[1]?.at ?? at) <= at - over) points.shift();
    },
    firsts(at) {
      const from = points.findLastIndex(point => point.at <= at - over);
      if (!points[from]?.values) return undefined;
      const firsts = new Map<string, FirstValue>();
      for (const [index, { values }] of points.slice(from).entries()) {
        for (const [key, value] of values ?? []) {
          if (!firsts.has(key)) firsts.set(key, { value, isAtStart: index === 0 });
        }
      }
      return firsts;
    },
  };
}
