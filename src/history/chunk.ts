import { deflateSync, inflateSync } from 'node:zlib';
import type { Point } from '../model/history.ts';
import { MAX_GAP } from './points.ts';

/** Samples of an hour or of a part of it, or hourly values. Times are in milliseconds since the Unix epoch. */
export interface Chunk {
  readonly times: readonly number[];
  /** One value per time in each series; NaN if missing. */
  readonly series: ReadonlyMap<string, readonly number[]>;
}

/** A chunk that changes. */
export interface OpenChunk extends Chunk {
  readonly times: number[];
  readonly series: Map<string, number[]>;
}

/** Maximum size of a decompressed row (bytes), because a stored row may be damaged. */
const MAX_SIZE = 2 ** 25;

/** Encodes a chunk as deflated JSON, with null for missing values. */
export function encodeChunk({ times, series }: Chunk): string {
  return deflateSync(JSON.stringify({ times, series: [...series] })).toString('base64');
}

/** Decodes a chunk. Throws if the text is damaged, which its checksum shows, or has another form. */
export function decodeChunk(text: string): Chunk {
  const bytes = inflateSync(Buffer.from(text, 'base64'), { maxOutputLength: MAX_SIZE });
  const { times, series }: { times: number[]; series: [string, (number | null)[]][] } = JSON.parse(bytes.toString());
  if (!Array.isArray(times)) throw new Error('not an hour');
  return {
    times,
    series: new Map(series.map(([name, values]) => [name, values.map(value => value ?? Number.NaN)])),
  };
}

/** Returns the samples selected by `isKept`; undefined if none are left. */
export function pick({ times, series }: Chunk, isKept: (at: number) => boolean): Chunk | undefined {
  const indices = [...times.keys()].filter(index => isKept(times[index] as number));
  if (indices.length === 0) return undefined;
  const picked = (values: readonly number[]) => indices.map(index => values[index] as number);
  return { times: picked(times), series: new Map([...series].map(([name, values]) => [name, picked(values)])) };
}

/** Returns the series selected by `isKept`. */
export const pickSeries = ({ times, series }: Chunk, isKept: (name: string) => boolean): Chunk => ({
  times,
  series: new Map([...series].filter(([name]) => isKept(name))),
});

/**
 * Returns the values of a series from `from` until `to`, oldest first. If no value is at `from`, the last value before it comes
 * first, unless that is more than `MAX_GAP` earlier or followed by a gap. `chunks`: in ascending order of time.
 */
export function pointsOf(chunks: readonly Chunk[], name: string, from: number, to: number): readonly Point[] {
  const points: Point[] = [];
  let isAfterGap = false;
  let last: number | undefined;
  for (const { times, series } of chunks) {
    const values = series.get(name);
    for (let index = 0; index < times.length; index += 1) {
      const at = times[index] as number;
      if (at < from - MAX_GAP) continue;
      if (at > to) break;
      if (last !== undefined && at - last > MAX_GAP) isAfterGap = true;
      last = at;
      const value = values?.[index] ?? Number.NaN;
      if (Number.isNaN(value)) continue;
      if (at <= from) points.length = 0;
      points.push(isAfterGap ? { at, value, isAfterGap } : { at, value });
      isAfterGap = false;
    }
  }
  const [start, next] = points;
  return start && start.at < from && next?.isAfterGap ? points.slice(1) : points;
}

/** Copies a chunk, in order to change the copy. */
export const openChunk = ({ times, series }: Chunk = { times: [], series: new Map() }): OpenChunk => ({
  times: [...times],
  series: new Map([...series].map(([name, values]) => [name, [...values]])),
});

/** Adds a sample that is later than all others. Values that are not finite count as missing. */
export function appendSample({ times, series }: OpenChunk, at: number, sample: ReadonlyMap<string, number>): void {
  for (const name of sample.keys()) {
    if (!series.has(name)) series.set(name, Array<number>(times.length).fill(Number.NaN));
  }
  for (const [name, values] of series) {
    const value = sample.get(name) ?? Number.NaN;
    // Converts -0 to 0.
    values.push(Number.isFinite(value) ? value + 0 : Number.NaN);
  }
  times.push(at);
}
