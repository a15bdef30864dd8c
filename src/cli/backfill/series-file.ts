import { closeSync, mkdtempSync, openSync, readSync, rmSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createLines, renderHeader } from '../../metrics/exposition-text.ts';
import { type Family, formatValue, type Sample } from '../../metrics/family.ts';

/** Points in time that are held in memory: 512 bytes a series. */
const IN_MEMORY = 64;

interface Series {
  /** Its line in the output, without value and time. */
  readonly line: string;
  /** At the times that were not written to the file yet; NaN where there is none. */
  readonly values: Float64Array;
}

/** Points in time of one account: the values of each series from `first` on. */
interface Block {
  readonly offset: number;
  readonly first: number;
  readonly series: number;
  readonly times: readonly number[];
}

/**
 * Counters and histograms over time. They come point by point and leave series by series, as OpenMetrics wants them; in
 * between they are in a temporary file, so that memory grows with the number of series, not with time.
 */
export interface SeriesFile {
  /** A point in time, milliseconds since the Unix epoch, later than those before it. */
  begin(time: number): void;
  /** The number of a series; the same for the same labels. All of one account come before those of the next. */
  of(account: string, family: Family, sample: Pick<Sample, 'suffix' | 'labels'>): number;
  /** Sets the value of a series at the last time. */
  set(series: number, value: number): void;
  /** A series begins with the last time: at the one before it was 0. */
  startAtZero(series: number): void;
  /** Ends the series of an account. */
  endAccount(): void;
  /** Returns everything as OpenMetrics text, in pieces; to be called once, after the last account. */
  text(): Generator<string>;
  /** Removes the file. */
  close(): void;
}

/** `labels`: those of every series beside its own. */
export function createSeriesFile(labels: (account: string) => Readonly<Record<string, string>>): SeriesFile {
  const folder = mkdtempSync(join(tmpdir(), 'delivery-watch-backfill-'));
  const file = openSync(join(folder, 'values'), 'wx+', 0o600);
  const all: Series[] = [];
  const numbers = new Map<string, number>();
  /** By family, and by labels without `le`: the lines of one histogram belong together. */
  const families = new Map<Family, Map<string, number[]>>();
  const blocks: Block[] = [];
  let [size, times]: [number, number[]] = [0, []];
  /** The account of the series that came last, and its first one. */
  let [last, first]: [string | undefined, number] = [undefined, 0];

  /** `isLastKept`: it may turn out that a series was 0 then. */
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
    begin(time) {
      if (times.length === IN_MEMORY) flush(true);
      times.push(time);
    },
    of(account, family, { suffix, labels: own }) {
      const { le, ...rest }: Readonly<Record<string, string | undefined>> = { ...own };
      const key = JSON.stringify([account, family.name, rest]);
      const exact = `${suffix ?? ''}${le ?? ''}${key}`;
      const before = numbers.get(exact);
      if (before !== undefined) return before;
      if (account !== last) [last, first] = [account, all.length];
      const named = { ...labels(account), ...own };
      const wide = { ...family, labels: [...Object.keys(labels(account)), ...family.labels] };
      // Written as the exposition writes it, which ends it with a value.
      const line = createLines(
        wide,
        account,
        'openmetrics',
      )([{ ...(suffix && { suffix }), labels: named, value: 0 }]).slice(0, -3);
      const number = all.push({ line, values: new Float64Array(IN_MEMORY).fill(Number.NaN) }) - 1;
      numbers.set(exact, number);
      const metrics = families.get(family) ?? new Map<string, number[]>();
      families.set(family, metrics);
      metrics.set(key, [...(metrics.get(key) ?? []), number]);
      return number;
    },
    set(series, value) {
      const { values } = all[series] as Series;
      values[times.length - 1] = value;
    },
    startAtZero(series) {
      const { values } = all[series] as Series;
      if (times.length > 1) values[times.length - 2] = 0;
    },
    endAccount: () => flush(false),
    *text() {
      for (const [family, metrics] of families) {
        yield renderHeader(family, 'openmetrics');
        for (const series of metrics.values()) yield* linesOf(series);
      }
      yield '# EOF\n';
    },
    close() {
      closeSync(file);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
