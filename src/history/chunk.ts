import { deflateSync, inflateSync } from 'node:zlib';
import type { Point } from '../model/history.ts';
import { append, type Column, createColumn, decodeColumn, encodeColumn, resume } from './column.ts';

/** Distances of the samples of an hour, in minutes: the further the samples are apart, the less it takes. */
export const STEPS = [1, 2, 5, 10, 15, 30] as const;
export type Step = (typeof STEPS)[number];

/** The samples of an hour, or of a part of it. As few objects as can be: an agent may hold three for each of a thousand accounts. */
export interface Chunk {
  readonly step: Step;
  /** Milliseconds since the Unix epoch, ascending, as a column. */
  readonly times: string;
  readonly length: number;
  /** Names of the series; the same strings in all accounts that have the same series. */
  readonly names: readonly string[];
  /** Their columns in the same order, a line each. */
  readonly columns: string;
}

/** Row format; a row of another one is not read. */
const VERSION = 1;
const MINUTE = 60_000;
/** What a row may unpack to, bytes: a damaged one must not take all memory. */
const LARGEST = 2 ** 25;
/** Samples of an hour at most: one a minute. */
const MOST_SAMPLES = 60;
/** Lines of a row at most, two for each series: far more than any account has. */
const MOST_LINES = 200_000;

const linesOf = (text: string): string[] => (text === '' ? [] : text.split('\n'));

export const timesOf = ({ times, length }: Chunk): number[] => decodeColumn(times, length);

const areSame = (some: readonly string[], others: readonly string[] | undefined) =>
  some.length === others?.length && some.every((name, index) => name === others[index]);

/** Where the column of each series is. */
const indicesOf = (chunk: Chunk): ReadonlyMap<string, number> => {
  const indices = new Map<string, number>();
  for (const name of chunk.names) indices.set(name, indices.size);
  return indices;
};

/** Values of the series that are wanted, by name; NaN: none. */
export function valuesOf(chunk: Chunk, isWanted: (series: string) => boolean): Map<string, number[]> {
  const columns = linesOf(chunk.columns);
  return new Map(
    chunk.names.flatMap((name, index) =>
      isWanted(name) ? [[name, decodeColumn(columns[index] as string, chunk.length)] as const] : [],
    ),
  );
}

/**
 * For who asks for series after series of chunks that follow each other: names are looked up once, and each series is unpacked once.
 * Gives all values of a series with their times, the oldest first.
 */
export function unpack(chunks: readonly Chunk[]): (series: string) => readonly Point[] {
  let indices: ReadonlyMap<string, number> | undefined;
  const hours = chunks.map((chunk, hour) => {
    // Mostly the same as an hour ago.
    if (!indices || !areSame(chunk.names, chunks[hour - 1]?.names)) indices = indicesOf(chunk);
    return { times: timesOf(chunk), indices, columns: linesOf(chunk.columns) };
  });
  const known = new Map<string, readonly Point[]>();

  function pointsOf(series: string): readonly Point[] {
    const points: Point[] = [];
    for (const { times, indices, columns } of hours) {
      const index = indices.get(series);
      if (index === undefined) continue;
      const values = decodeColumn(columns[index] as string, times.length);
      for (let sample = 0; sample < values.length; sample += 1) {
        const value = values[sample] as number;
        if (!Number.isNaN(value)) points.push({ at: times[sample] as number, value });
      }
    }
    return points;
  }

  return series => {
    const points = known.get(series) ?? pointsOf(series);
    known.set(series, points);
    return points;
  };
}

/** A row is some 10 KB: zlib's usual memory of 256 KB for each would be in vain. */
const DEFLATE = { level: 6, windowBits: 13, memLevel: 6, chunkSize: 8192 };

/** Text for the store. */
export function encodeChunk({ step, times, length, names, columns }: Chunk): string {
  const lines = [`${VERSION} ${step} ${length}`, times, ...(names.length === 0 ? [] : [...names, columns])];
  return deflateSync(lines.join('\n'), DEFLATE).toString('base64');
}

/** Text as it was before `encodeChunk` packed it. Throws where it would take much more memory than what is packed by it. */
function unpacked(text: string): string {
  const bytes = inflateSync(Buffer.from(text, 'base64'), { maxOutputLength: LARGEST });
  let lines = 0;
  for (let at = bytes.indexOf(10); at !== -1; at = bytes.indexOf(10, at + 1)) {
    lines += 1;
    if (lines > MOST_LINES) throw new Error('too many lines');
  }
  return bytes.toString();
}

/** Throws when the text is not what `encodeChunk` gave; whether each column is whole, only `valuesOf` finds. */
export function decodeChunk(text: string): Chunk {
  const [head = '', times = '', ...rest] = unpacked(text).split('\n');
  const [version, step, length] = head.split(' ').map(Number);
  const known = STEPS.find(each => each === step);
  const count = rest.length / 2;
  // Columns are as long as it says, however short their text is.
  const isLength = Number.isInteger(length) && Number(length) > 0 && Number(length) <= MOST_SAMPLES;
  const isSound = isLength && Number.isInteger(count);
  if (version !== VERSION || known === undefined || length === undefined || !isSound) throw new Error('not an hour');
  const [names, columns] = [rest.slice(0, count), rest.slice(count)];
  const chunk = { step: known, times, length, names, columns: columns.join('\n') };
  if (timesOf(chunk).some((at, index, all) => index > 0 && at <= (all[index - 1] as number)))
    throw new Error('no order');
  return chunk;
}

/** The samples with these indices alone; undefined where there are none. */
function pick(chunk: Chunk, step: Step, indices: readonly number[]): Chunk | undefined {
  if (indices.length === 0) return undefined;
  if (indices.length === chunk.length) return { ...chunk, step };
  const picked = (values: readonly number[]) => encodeColumn(indices.map(index => values[index] as number));
  const columns = linesOf(chunk.columns).map(column => picked(decodeColumn(column, chunk.length)));
  return { ...chunk, step, times: picked(timesOf(chunk)), length: indices.length, columns: columns.join('\n') };
}

const indicesWhere = (chunk: Chunk, isKept: (at: number, before: number | undefined) => boolean): number[] =>
  timesOf(chunk).flatMap((at, index, all) => (isKept(at, all[index - 1]) ? [index] : []));

/** The first sample of each `step` minutes alone. */
export function thin(chunk: Chunk, step: Step): Chunk {
  const slot = (at: number) => Math.floor(at / (step * MINUTE));
  return (
    pick(
      chunk,
      step,
      indicesWhere(chunk, (at, before) => before === undefined || slot(at) > slot(before)),
    ) ?? chunk
  );
}

/** The samples before `end` alone. */
export const before = (chunk: Chunk, end: number): Chunk | undefined =>
  pick(
    chunk,
    chunk.step,
    indicesWhere(chunk, at => at < end),
  );

/** The samples from `begin` on alone. */
export const after = (chunk: Chunk, begin: number): Chunk | undefined =>
  pick(
    chunk,
    chunk.step,
    indicesWhere(chunk, at => at >= begin),
  );

/** The hour that goes on. */
export interface OpenChunk {
  /** Of the last sample; undefined before the first. */
  readonly lastAt: number | undefined;
  /** Puts a sample behind; `at` is later than `lastAt`. A value that is NaN is none. */
  add(at: number, values: ReadonlyMap<string, number>): void;
  chunk(): Chunk | undefined;
}

/** `chunk`: what is there already. `share` gives one string for equal ones: accounts mostly have the same series. */
export function openChunk(share: (name: string) => string, chunk?: Chunk): OpenChunk {
  const step = 1;
  let { length = 0, names = [], columns = '' }: Partial<Chunk> = chunk ?? {};
  const times = chunk ? resume(chunk.times, length) : createColumn();
  const resumed = linesOf(columns).map(text => resume(text, length));
  // Numbers side by side instead of objects: see Chunk.
  let lasts = Float64Array.from(resumed, ({ last }) => last);
  let covered = Uint16Array.from(resumed, ({ covered }) => covered);

  /** Columns of all series, with those that come with this sample, in order. */
  function columnsFor(order: readonly string[], known: number): Column[] {
    const texts = linesOf(columns);
    const none = () => (length === 0 ? createColumn() : { text: 'n', last: Number.NaN, covered: 1 });
    return order.map((_, index) =>
      index < known
        ? { text: texts[index] as string, last: lasts[index] as number, covered: covered[index] as number }
        : none(),
    );
  }

  return {
    get lastAt() {
      return length === 0 ? undefined : times.last;
    },
    add(at, values) {
      const isKnown = new Set(names);
      const more = [...values.keys()].filter(name => !isKnown.has(name));
      const known = names.length;
      if (more.length > 0) names = [...names, ...more.map(share)];
      const all = columnsFor(names, known);
      for (const [index, column] of all.entries()) {
        // No difference is made between 0 and -0.
        append(column, length, (values.get(names[index] as string) ?? Number.NaN) + 0);
      }
      append(times, length, at);
      length += 1;
      lasts = Float64Array.from(all, ({ last }) => last);
      covered = Uint16Array.from(all, ({ covered }) => covered);
      columns = all.map(({ text }) => text).join('\n');
    },
    chunk: () => (length === 0 ? undefined : { step, times: times.text, length, names, columns }),
  };
}
