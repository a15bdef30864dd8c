import { HOUR } from '../kit/duration.ts';
import type { Point } from '../model/history.ts';
import { appendSample, type Chunk, type OpenChunk, openChunk } from './chunk.ts';
import { join, riseOf, upTo } from './points.ts';

/** Values that windows of hours and days need; absent if unknown. */
export interface HourlyValues {
  readonly counters: ReadonlyMap<string, number>;
  readonly gauges: ReadonlyMap<string, number>;
}

/** Maximum number of values per series: 72 for three days, one for the hour in which a window starts, and one as tolerance. */
const MAX_HOURS = 74;
/** Maximum time by which a window may start early, if the values at its start are unknown (ms). */
const EARLY = 2 * HOUR;

/**
 * Values of some series at the first sample of each hour. Counters are stored as if they had never been reset: after a reset,
 * earlier values are reduced, so that differences are exact increases. Values before a reset in a gap are unknown.
 */
export class Hours {
  #chunk: OpenChunk;

  constructor(chunk?: Chunk) {
    this.#chunk = openChunk(chunk);
  }

  /** Whether there are no values of this hour yet. */
  isDue(at: number): boolean {
    const last = this.#chunk.times.at(-1);
    return last === undefined || at < last || Math.floor(at / HOUR) > Math.floor(last / HOUR);
  }

  clear(): void {
    this.#chunk = openChunk();
  }

  /** Adds values. `since`: returns the samples of a series after a time. */
  add(at: number, { counters, gauges }: HourlyValues, since: (series: string, from: number) => readonly Point[]): void {
    if (at <= (this.#chunk.times.at(-1) ?? 0)) this.clear();
    for (const [name, value] of counters) this.#continue(name, { at, value }, since);
    appendSample(this.#chunk, at, new Map([...gauges, ...counters]));
    this.#trim(at);
  }

  /** Reduces earlier values of a counter if it was reset. */
  #continue(name: string, now: Omit<Point, 'isAfterGap'>, since: Parameters<Hours['add']>[2]): void {
    const { times, series } = this.#chunk;
    const values = series.get(name) ?? [];
    const last = values.findLastIndex(value => !Number.isNaN(value));
    if (last < 0) return;
    const from = { at: times[last] as number, value: values[last] as number };
    const samples = since(name, from.at).filter(({ at }) => at > from.at && at < now.at);
    const rise = riseOf(upTo(join([from], samples), now));
    const reset = now.value - (from.value + (rise ?? Number.NaN));
    if (reset !== 0) for (const index of values.keys()) values[index] = (values[index] as number) + reset;
  }

  #trim(at: number): void {
    const { times, series } = this.#chunk;
    const old = times.findIndex((time, index) => index >= times.length - MAX_HOURS && time > at - MAX_HOURS * HOUR);
    times.splice(0, old);
    for (const [name, values] of series) {
      values.splice(0, old);
      if (values.every(Number.isNaN)) series.delete(name);
    }
  }

  /**
   * Returns the values since `from`. The first one is at `from` or up to `EARLY` earlier, if such a value exists. Values
   * before `after` are omitted.
   */
  points(series: string, from: number, after: number): readonly Point[] {
    const values = this.#chunk.series.get(series);
    if (!values) return [];
    const known = this.#chunk.times.flatMap((at, index): Point | [] => {
      const value = values[index] as number;
      return Number.isNaN(value) || at < after || at < from - EARLY ? [] : { at, value };
    });
    const start = known.findLastIndex(({ at }) => at <= from);
    return known.slice(Math.max(0, start));
  }

  chunk(): Chunk {
    return this.#chunk;
  }
}
