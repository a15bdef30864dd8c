import { HOUR } from '../kit/duration.ts';
import type { Point } from '../model/history.ts';
import type { Chunk } from './chunk.ts';
import { join, riseOf, upTo } from './points.ts';

/** Values that windows of hours and days need; absent if unknown. */
export interface HourlyValues {
  readonly counters: ReadonlyMap<string, number>;
  readonly gauges: ReadonlyMap<string, number>;
}

/** Maximum number of values per series: 72 for three days, one for the hour in which a window starts, and one as tolerance. */
export const MAX_HOURS = 74;
/** Maximum time by which a window may start early, if the values at its start are unknown (ms). */
const EARLY = 2 * HOUR;

/**
 * Values of some series at the first sample of each hour. Counters are stored as if they had never been reset: after a reset,
 * earlier values are reduced, so that differences are exact increases. Values before a reset in a gap are unknown.
 */
export class Hours {
  #times: number[];
  readonly #series: Map<string, number[]>;

  constructor(chunk?: Chunk) {
    this.#times = [...(chunk?.times ?? [])];
    this.#series = new Map([...(chunk?.series ?? [])].map(([name, values]) => [name, [...values]]));
  }

  /** Whether there are no values of this hour yet. */
  isDue(at: number): boolean {
    const last = this.#times.at(-1);
    return last === undefined || at < last || Math.floor(at / HOUR) > Math.floor(last / HOUR);
  }

  clear(): void {
    this.#times = [];
    this.#series.clear();
  }

  /** Adds values. `since`: returns the samples of a series after a time. */
  add(at: number, { counters, gauges }: HourlyValues, since: (series: string, from: number) => readonly Point[]): void {
    if (at <= (this.#times.at(-1) ?? 0)) this.clear();
    for (const name of [...counters.keys(), ...gauges.keys()]) {
      if (!this.#series.has(name)) this.#series.set(name, Array<number>(this.#times.length).fill(Number.NaN));
    }
    for (const [name, values] of this.#series) {
      const value = counters.get(name);
      if (value !== undefined) this.#continue(name, values, { at, value }, since);
      values.push(value ?? gauges.get(name) ?? Number.NaN);
    }
    this.#times.push(at);
    this.#trim(at);
  }

  /** Reduces earlier values of a counter if it was reset. */
  #continue(name: string, values: number[], now: Omit<Point, 'isAfterGap'>, since: Parameters<Hours['add']>[2]): void {
    const last = values.findLastIndex(value => !Number.isNaN(value));
    if (last < 0) return;
    const from = { at: this.#times[last] as number, value: values[last] as number };
    const samples = since(name, from.at).filter(({ at }) => at > from.at && at < now.at);
    const rise = riseOf(upTo(join([from], samples), now));
    const reset = now.value - (from.value + (rise ?? Number.NaN));
    if (reset !== 0) for (const index of values.keys()) values[index] = (values[index] as number) + reset;
  }

  #trim(at: number): void {
    const old = this.#times.findIndex(
      (time, index) => index >= this.#times.length - MAX_HOURS && time > at - MAX_HOURS * HOUR,
    );
    if (old > 0) this.#times.splice(0, old);
    for (const [name, values] of this.#series) {
      if (old > 0) values.splice(0, old);
      if (values.every(Number.isNaN)) this.#series.delete(name);
    }
  }

  /**
   * Returns the values since `from`. The first one is at `from` or up to `EARLY` earlier, if such a value exists. Values
   * before `after` are omitted.
   */
  points(series: string, from: number, after: number): readonly Point[] {
    const values = this.#series.get(series);
    if (!values) return [];
    const known = this.#times.flatMap((at, index): Point | [] => {
      const value = values[index] as number;
      return Number.isNaN(value) || at < after || at < from - EARLY ? [] : { at, value };
    });
    const start = known.findLastIndex(({ at }) => at <= from);
    return known.slice(Math.max(0, start));
  }

  chunk(): Chunk {
    return { times: this.#times, series: this.#series };
  }
}
