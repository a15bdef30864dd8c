export { seriesName } from '../../history/series-name.ts';

import { type AccountHistory, type Point, pointsBefore } from '../../model/history.ts';

/** By how much something has changed, and over what time that is known: shorter where the history begins later. */
export interface Change {
  readonly by: number;
  readonly overSeconds: number;
}

/** How an account's numbers have changed lately: from what was recorded to what is shown now. */
export interface Recent {
  /** Of a gauge: up or down. Null where it is not known now, or was not recorded a while ago. */
  change(series: string, now: number | undefined, over: number): Change | null;
  /** Of a counter: never below 0, for what has begun anew counts from there. Null as above. */
  rise(series: string, now: number | undefined, over: number): Change | null;
}

/** Of a shorter time, milliseconds, nothing is said: the history is sampled once a minute. */
const SHORTEST = 60_000;

/** Sum of what was added between points, and from the last one to now. */
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

/** `at`: the time of what is shown now, milliseconds since the Unix epoch. */
export function createRecent({ recent }: Pick<AccountHistory, 'recent'>, at: number): Recent {
  function since(
    series: string,
    now: number | undefined,
    over: number,
    by: (points: readonly Point[], now: number) => number,
  ): Change | null {
    if (now === undefined) return null;
    const points = recent(series, over);
    const [first] = points;
    if (!first || at - first.at < SHORTEST) return null;
    return { by: by(points, now), overSeconds: Math.round((at - first.at) / 1000) };
  }
  return {
    change: (series, now, over) => since(series, now, over, ([first], now) => now - (first?.value ?? now)),
    rise: (series, now, over) => since(series, now, over, risen),
  };
}

/** Milliseconds. */
export const HOUR = 3_600_000;

/** Milliseconds that memory has of every series at least. */
const ALWAYS = 75 * 60_000;
/** How much older than a window, milliseconds, the point before it may be: see AccountHistory. */
const BEFORE = 120_000;

/** The same as `recent` at one moment, milliseconds since the Unix epoch: each series is read once, however often it is asked for. */
export function rememberedAt(recent: AccountHistory['recent'], now: number): AccountHistory['recent'] {
  const known = new Map<string, readonly Point[]>();
  return (series, over) => {
    if (over > ALWAYS) return recent(series, over);
    const points = known.get(series) ?? recent(series, ALWAYS);
    known.set(series, points);
    const begin = pointsBefore(points, now - over);
    const earlier = points[begin - 1];
    return points.slice(earlier && earlier.at >= now - over - BEFORE ? begin - 1 : begin);
  };
}
