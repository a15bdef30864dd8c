import { formatLe } from './exposition-text.ts';
import type { Sample } from './family.ts';

/** A histogram's state. `counts` has one number more than there are bounds: that above the last. Not cumulative. */
export interface HistogramState {
  readonly counts: number[];
  sum: number;
  /** The latest trace of each bucket, where there is one. */
  exemplars?: (Exemplar | null)[];
}

/** A trace that shows how one value came about. */
export interface Exemplar {
  /** 32 hexadecimal digits. */
  readonly traceId: string;
  readonly value: number;
  /** When the value was observed, milliseconds since the Unix epoch. */
  readonly time: number;
}

export function createHistogram(bounds: readonly number[]): HistogramState {
  return { counts: Array(bounds.length + 1).fill(0), sum: 0 };
}

/** Adds one value to the histogram with these upper bounds, which are inclusive and rise. */
export function observeValue(
  histogram: HistogramState,
  bounds: readonly number[],
  value: number,
  exemplar?: Omit<Exemplar, 'value'>,
): void {
  let index = 0;
  while (index < bounds.length && value > (bounds[index] as number)) index += 1;
  (histogram.counts[index] as number) += 1;
  histogram.sum += value;
  if (!exemplar) return;
  histogram.exemplars ??= bounds.map(() => null);
  histogram.exemplars[index] = { ...exemplar, value };
}

/** The lines of one series of a histogram. */
export function histogramSamples<L extends string>(
  labels: Sample<L>['labels'],
  bounds: readonly number[],
  { counts, sum, exemplars }: Readonly<HistogramState>,
): Sample<L>[] {
  const samples: Sample<L>[] = [];
  let below = 0;
  for (const [index, count] of counts.entries()) {
    below += count;
    const le = formatLe(bounds[index] ?? Number.POSITIVE_INFINITY);
    const exemplar = exemplars?.[index];
    const sample = { labels: { ...labels, le }, value: below, suffix: '_bucket' } as const;
    samples.push(exemplar ? { ...sample, exemplar } : sample);
  }
  samples.push(
    // To a millionth, which adding up floating-point numbers would spoil.
    { labels, value: Math.round(sum * 1e6) / 1e6, suffix: '_sum' },
    { labels, value: below, suffix: '_count' },
  );
  return samples;
}
