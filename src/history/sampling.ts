import type { Family, Sample, Source } from '../metrics/family.ts';
import { seriesName } from './series-name.ts';

export interface Recorded {
  readonly family: Family;
  /** Labels over which values are summed. */
  readonly without?: readonly string[];
  /** Maximum number of recorded series. Series with the largest values are recorded. */
  readonly largest?: number;
  /** Whether the sum of all series is recorded, too. */
  readonly sum?: boolean;
  /** Other families. Their series are recorded if a recorded series of this family has equal labels. */
  readonly along?: readonly Family[];
}

interface Value {
  readonly labels: Sample['labels'];
  readonly suffix?: string | undefined;
  readonly value: number;
}

/** Returns values summed over the labels in `without`. */
function summed(family: Family, samples: readonly Sample[], without: readonly string[]): readonly Value[] {
  if (!without.some(label => family.labels.includes(label))) return samples;
  const sums = new Map<string, { labels: Sample['labels']; suffix: string; value: number }>();
  for (const { labels, value, suffix = '' } of samples) {
    const kept = Object.fromEntries(Object.entries(labels).filter(([label]) => !without.includes(label)));
    const name = seriesName(suffix, kept);
    const known = sums.get(name);
    if (known) known.value += value;
    else sums.set(name, { labels: kept, suffix, value });
  }
  return [...sums.values()];
}

const textOf = (labels: Sample['labels']) => JSON.stringify(Object.values(labels));

function samplesBy(sources: readonly Source[]): (family: Family) => readonly Sample[] {
  const found = new Map<string, readonly Sample[]>();
  for (const source of sources) {
    for (const [name, samples] of source.samples()) {
      const before = found.get(name);
      found.set(name, before ? [...before, ...samples] : samples);
    }
  }
  return ({ name }) => found.get(name) ?? [];
}

export function sampleOf(recorded: readonly Recorded[], sources: readonly Source[]): Map<string, number> {
  const samplesOf = samplesBy(sources);
  const values = new Map<string, number>();
  for (const { family, without = [], largest, sum, along = [] } of recorded) {
    const samples = samplesOf(family);
    if (samples.length === 0) continue;
    const all = summed(family, samples, ['destination', ...without]);
    const total = all.reduce((sum, { value }) => sum + value, 0);
    if (sum) values.set(family.name, total);
    const chosen = largest === undefined ? all : all.toSorted((a, b) => b.value - a.value).slice(0, largest);
    for (const { labels, suffix = '', value } of chosen) values.set(seriesName(family.name + suffix, labels), value);
    if (along.length === 0) continue;
    const texts = new Set(chosen.map(({ labels }) => textOf(labels)));
    for (const other of along) {
      for (const { labels, value } of samplesOf(other)) {
        if (texts.has(textOf(labels))) values.set(seriesName(other.name, labels), value);
      }
    }
  }
  return values;
}
