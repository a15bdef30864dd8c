import { deflateSync, inflateSync } from 'node:zlib';
import { MINUTE } from '../kit/duration.ts';

/** Sampling intervals (minutes), from finest to coarsest. */
export const SAMPLE_STEPS = [1, 2, 5, 10, 15, 30] as const;
export type SampleStep = (typeof SAMPLE_STEPS)[number];

/** Samples of an hour or of a part of it. Times are in milliseconds since the Unix epoch. */
export interface Chunk {
  readonly step: SampleStep;
  readonly times: readonly number[];
  /** One value per time in each series; NaN if missing. */
  readonly series: ReadonlyMap<string, readonly number[]>;
}

/** Maximum size of a decompressed row (bytes), because a stored row may be damaged. */
const MAX_SIZE = 2 ** 25;
const MAX_SAMPLES = 60;

/** Encodes a chunk as deflated JSON, with null for missing values. */
export function encodeChunk({ step, times, series }: Chunk): string {
  return deflateSync(JSON.stringify({ step, times, series: [...series] })).toString('base64');
}

function valuesOf(values: unknown, length: number): number[] {
  if (!Array.isArray(values) || values.length !== length) throw new Error('not a series');
  return values.map(value => {
    if (value !== null && typeof value !== 'number') throw new Error('not a value');
    return value ?? Number.NaN;
  });
}

/** Decodes a chunk. Throws if the text does not come from `encodeChunk`. */
export function decodeChunk(text: string): Chunk {
  const bytes = inflateSync(Buffer.from(text, 'base64'), { maxOutputLength: MAX_SIZE });
  const { step, times, series } = JSON.parse(bytes.toString()) as { [Key in keyof Chunk]: unknown };
  const known = SAMPLE_STEPS.find(each => each === step);
  const isSound = Array.isArray(times) && times.length > 0 && times.length <= MAX_SAMPLES && Array.isArray(series);
  if (known === undefined || !isSound) throw new Error('not an hour');
  if (times.some((at, index) => !Number.isFinite(at) || at <= times[index - 1])) throw new Error('not a time');
  return {
    step: known,
    times,
    series: new Map(
      (series as unknown[][]).map(([name, values]) => {
        if (typeof name !== 'string') throw new Error('not a name');
        return [name, valuesOf(values, times.length)];
      }),
    ),
  };
}

/** Returns the samples selected by `isKept`; undefined if none are left. */
export function pick(
  { step, times, series }: Chunk,
  isKept: (at: number, previous: number | undefined) => boolean,
): Chunk | undefined {
  const indices = [...times.keys()].filter(index => isKept(times[index] as number, times[index - 1]));
  if (indices.length === 0) return undefined;
  const picked = (values: readonly number[]) => indices.map(index => values[index] as number);
  const kept = [...series].map(([name, values]) => [name, picked(values)] as const);
  return { step, times: picked(times), series: new Map(kept) };
}

export function thin(chunk: Chunk, step: SampleStep): Chunk {
  const slot = (at: number) => Math.floor(at / (step * MINUTE));
  const kept = pick(chunk, (at, previous) => previous === undefined || slot(at) > slot(previous));
  return { ...(kept ?? chunk), step };
}

export type OpenChunk = ReturnType<typeof openChunk>;

/** Creates a chunk to append to. `chunk`: existing samples, which are copied. */
export function openChunk(chunk?: Chunk) {
  const times = [...(chunk?.times ?? [])];
  const series = new Map([...(chunk?.series ?? [])].map(([name, values]) => [name, [...values]]));
  return {
    /** Time of the last sample; undefined before the first. */
    get lastAt() {
      return times.at(-1);
    },
    /** Adds a sample later than `lastAt`. Values that are not finite count as missing. */
    add(at: number, sample: ReadonlyMap<string, number>): void {
      for (const name of sample.keys()) {
        if (!series.has(name)) series.set(name, Array<number>(times.length).fill(Number.NaN));
      }
      for (const [name, values] of series) {
        const value = sample.get(name) ?? Number.NaN;
        // Converts -0 to 0.
        values.push(Number.isFinite(value) ? value + 0 : Number.NaN);
      }
      times.push(at);
    },
    /** Returns a live view, which later calls of `add` change. */
    chunk: (): Chunk | undefined => (times.length === 0 ? undefined : { step: 1, times, series }),
  };
}
