import type { Family, Sample } from '../metrics/family.ts';
import { seriesName } from './series-name.ts';

/** What is recorded of a family. Always summed over the label `destination`. */
export interface Recorded {
  readonly family: Family;
  /** Labels that are left out, too: their series are summed. */
  readonly without?: readonly string[];
  /** Of the series, so many with the largest values. */
  readonly largest?: number;
  /** The sum of all, beside them. */
  readonly sum?: boolean;
  /** Of these families, the series with the same labels as those that are recorded. */
  readonly along?: readonly Family[];
}

interface Series {
  readonly name: string;
  readonly labels: Sample['labels'];
  value: number;
}

/** Samples of a family by the labels that are left, summed. */
function summed(family: Family, samples: readonly Sample[], without: readonly string[]): Series[] {
  const series = new Map<string, Series>();
  for (const { labels, value, suffix = '' } of samples) {
    const kept = without.some(label => label in labels)
      ? Object.fromEntries(Object.entries(labels).filter(([label]) => !without.includes(label)))
      : labels;
    const name = seriesName(family.name + suffix, kept);
    const known = series.get(name);
    if (known) known.value += value;
    else series.set(name, { name, labels, value });
  }
  return [...series.values()];
}

const textOf = (labels: Sample['labels']) => JSON.stringify(Object.values(labels));

/** The values to record by series. What is not shown has none. */
export function sampleOf(
  recorded: readonly Recorded[],
  samplesOf: (family: Family) => readonly Sample[],
): Map<string, number> {
  const values = new Map<string, number>();
  for (const { family, without = [], largest, sum, along = [] } of recorded) {
    const samples = samplesOf(family);
    if (samples.length === 0) continue;
    let series = summed(family, samples, ['destination', ...without]);
    if (sum)
      values.set(
        family.name,
        series.reduce((sum, { value }) => sum + value, 0),
      );
    if (largest !== undefined && series.length > largest) {
      series = series.toSorted((a, b) => b.value - a.value).slice(0, largest);
    }
    for (const { name, value } of series) values.set(name, value);
    if (along.length === 0) continue;
    const chosen = new Set(series.map(({ labels }) => textOf(labels)));
    for (const other of along) {
      for (const { labels, value } of samplesOf(other)) {
        if (chosen.has(textOf(labels))) values.set(seriesName(other.name, labels), value);
      }
    }
  }
  return values;
}
