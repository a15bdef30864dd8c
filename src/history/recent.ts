import { type AccountHistory, type Point, pointsBefore } from '../model/history.ts';

/** Recent changes of an account's numbers: from the recorded to the current ones. */
export type Recent = ReturnType<typeof createRecent>;

/** Minimum window (ms): the history has a sample a minute. */
const SHORTEST = 60_000;

/** Sum of the increases between points and to the current value. */
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

/** `at`: time of the current values, milliseconds since the Unix epoch. */
export function createRecent({ recent }: Pick<AccountHistory, 'recent'>, at: number) {
  function since(series: string, now: number | undefined, over: number, by: typeof risen) {
    if (now === undefined) return null;
    const points = recent(series, over);
    const [first] = points;
    if (!first || at - first.at < SHORTEST) return null;
    return { by: by(points, now), overSeconds: Math.round((at - first.at) / 1000) };
  }
  return {
    /** Change of a gauge; null if its current or recorded value is unknown. */
    change: (series: string, now: number | undefined, over: number) =>
      since(series, now, over, ([first], now) => now - (first?.value ?? now)),
    /** Increase of a counter, which may have been reset; null as above. */
    rise: (series: string, now: number | undefined, over: number) => since(series, now, over, risen),
  };
}

export const HOUR = 3_600_000;

/** Window that the memory has of every series (ms). */
const ALWAYS = 75 * 60_000;
/** Maximum distance between a window and the point before it (ms): see AccountHistory. */
const BEFORE = 120_000;

/** `recent` at one time (`now`, milliseconds since the Unix epoch) with a cache by series. */
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
