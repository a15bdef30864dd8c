import { formatLe } from './exposition-text.ts';
import type { Sample } from './family.ts';

/** A histogram's state. `counts` has one number more than there are bounds: that above the last. Not cumulative. */
export interface HistogramState {
  readonly counts: number[];
  sum: number;
}

export function createHistogram(bounds: readonly number[]): HistogramState {
  return { counts: Array(bounds.length + 1).fill(0), sum: 0 };
}

/** Adds one value to the histogram with these upper bounds, which are inclusive and rise. */
export function observeValue(histogram: HistogramState, bounds: readonly number[], value: number): void {
  let index = 0;
  while (index < bounds.length && value > (bounds[index] as number)) index += 1;
  (histogram.counts[index] as number) += 1;
  histogram.sum += value;
}

/** The lines of one series of a histogram. */
export function histogramSamples<L extends string>(
  labels: Sample<L>['labels'],
  bounds: readonly number[],
  { counts, sum }: Readonly<HistogramState>,
): Sample<L>[] {
  const samples: Sample<L>[] = [];
  let below = 0;
  for (const [index, count] of counts.entries()) {
    below += count;
    const le = formatLe(bounds[index] ?? Number.POSITIVE_INFINITY);
    samples.push({ labels: { ...labels, le }, value: below, suffix: '_bucket' });
  }
  samples.push(
    // To a millionth, which adding up floating-point numbers would spoil.
    { labels, value: Math.round(sum * 1e6) / 1e6, suffix: '_sum' },
    { labels, value: below, suffix: '_count' },
  );
  return samples;
}
