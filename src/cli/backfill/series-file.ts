import { closeSync, mkdtempSync, openSync, readSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createLines, renderHeader } from '../../metrics/exposition-text.ts';
import { type Family, formatValue, type Sample } from '../../metrics/family.ts';

/** Maximum number of points per series in memory (512 bytes). */
const IN_MEMORY = 64;

interface Series {
  /** Output line without its value and time. */
  readonly line: string;
  /** Values of points that are not in the file yet; NaN if missing. */
  readonly values: Float64Array;
}

/** Flushed points of one account: `series` consecutive series, starting at the index `first`. */
interface Block {
  readonly offset: number;
  readonly first: number;
  readonly series: number;
  readonly times: readonly number[];
}

/**
 * Stores points by time and returns them by series, as OpenMetrics requires. A temporary file holds the values, so memory use
 * does not grow with the range.
 */
export type SeriesFile = ReturnType<typeof createSeriesFile>;

export function createSeriesFile(labels: (account: string) => Readonly<Record<string, string>>) {
  const folder = mkdtempSync(join(tmpdir(), 'delivery-watch-backfill-'));
  const file = openSync(join(folder, 'values'), 'wx+', 0o600);
  const all: Series[] = [];
  const numbers = new Map<string, number>();
  /** Series indexes by family and labels without `le`, so that the lines of a histogram stay together. */
  const families = new Map<Family, Map<string, number[]>>();
  const blocks: Block[] = [];
  let [size, times]: [number, number[]] = [0, []];
  let [last, first]: [string | undefined, number] = [undefined, 0];

  /**
   * Moves points from memory to the file. `isLastKept`: whether the last point stays, because a new series may add a 0 there.
   */
  function flush(isLastKept: boolean): void {
    const written = isLastKept ? times.slice(0, -1) : times;
    const done = written.length;
    blocks.push({ offset: size, first, series: all.length - first, times: written });
    for (let number = first; number < all.length; number += 1) {
      const { values } = all[number] as Series;
      writeSync(file, values, 0, values.byteLength, size);
      size += values.byteLength;
      const kept = values[done] as number;
      values.fill(Number.NaN);
      if (isLastKept) values[0] = kept;
    }
    times = times.slice(done);
  }

  function* linesOf(series: readonly number[]): Generator<string> {
    const values = new Float64Array(IN_MEMORY);
    for (const block of blocks) {
      const read = series.flatMap(number => {
        if (number < block.first || number >= block.first + block.series) return [];
        const position = block.offset + (number - block.first) * values.byteLength;
        readSync(file, values, 0, values.byteLength, position);
        return [{ line: all[number]?.line ?? '', values: values.slice() }];
      });
      const lines: string[] = [];
      for (const [index, time] of block.times.entries()) {
        for (const { line, values } of read) {
          const value = values[index] as number;
          if (!Number.isNaN(value)) lines.push(`${line} ${formatValue(value)} ${time / 1000}\n`);
        }
      }
      yield lines.join('');
    }
  }

  return {
    /** Starts a new point (ms since the Unix epoch), later than all previous ones. */
    begin(time: number): void {
      if (times.length === IN_MEMORY) flush(true);
      times.push(time);
    },
    /** Returns the index of a series. Accounts must be written one after the other. */
    of(account: string, family: Family, { suffix, labels: own }: Pick<Sample, 'suffix' | 'labels'>): number {
      const { le, ...rest }: Readonly<Record<string, string | undefined>> = { ...own };
      const key = JSON.stringify([account, family.name, rest]);
      const exact = `${suffix ?? ''}${le ?? ''}${key}`;
      const before = numbers.get(exact);
      if (before !== undefined) return before;
      if (account !== last) [last, first] = [account, all.length];
      const named = { ...labels(account), ...own };
      const wide = { ...family, labels: [...Object.keys(labels(account)), ...family.labels] };
      const lines = createLines(wide, account, 'openmetrics');
      const line = lines([{ ...(suffix && { suffix }), labels: named, value: 0 }]).slice(0, -3);
      const number = all.push({ line, values: new Float64Array(IN_MEMORY).fill(Number.NaN) }) - 1;
      numbers.set(exact, number);
      const metrics = families.get(family) ?? new Map<string, number[]>();
      families.set(family, metrics);
      metrics.set(key, [...(metrics.get(key) ?? []), number]);
      return number;
    },
    set(series: number, value: number): void {
      (all[series] as Series).values[times.length - 1] = value;
    },
    /** Makes a series start with 0 at the previous point, if any. */
    startAtZero(series: number): void {
      if (times.length > 1) (all[series] as Series).values[times.length - 2] = 0;
    },
    endAccount: () => flush(false),
    /** Yields OpenMetrics text. Call it once, after the last account. */
    *text(): Generator<string> {
      for (const [family, metrics] of families) {
        yield renderHeader(family, 'openmetrics');
        for (const series of metrics.values()) yield* linesOf(series);
      }
      yield '# EOF\n';
    },
    close(): void {
      closeSync(file);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
