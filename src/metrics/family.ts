export type FamilyType = 'gauge' | 'counter' | 'histogram' | 'info';

export interface Family<L extends string = string> {
  /** Full name as in the text format: counters end in `_total`, infos in `_info`. */
  readonly name: string;
  readonly type: FamilyType;
  readonly help: string;
  /** Names in output order. Series about an account also have the label `account`, which comes first. */
  readonly labels: readonly L[];
}

/** A histogram has one sample per line, with `suffix` and, for buckets, the label `le`. */
export interface Sample<L extends string = string> {
  readonly labels: Readonly<Record<L, string | undefined>>;
  readonly value: number;
  readonly suffix?: '_bucket' | '_sum' | '_count';
}

const define =
  (type: FamilyType) =>
  <const L extends string = never>(name: string, help: string, labels: readonly L[] = []): Family<L> => ({
    name,
    type,
    help,
    labels,
  });

export const gauge = define('gauge');
export const counter = define('counter');
export const histogram = define('histogram');
export const info = define('info');

/** A source of samples. Sources that share a family must differ in account or labels, which is not checked. */
export interface Source {
  readonly account?: string;
  readonly families: readonly Family[];
  /** Returns an identity of the current samples: `samples()` is called again only if it changes (`===`). */
  revision(): unknown;
  /** Returns samples by family name. Families without samples are not exposed for this source. */
  samples(): ReadonlyMap<string, readonly Sample[]>;
}

/** Returns a source with only the wanted families; the same object if all are wanted. */
export function onlyFamilies(source: Source, isWanted: (family: Family) => boolean): Source {
  const families = source.families.filter(isWanted);
  if (families.length === source.families.length) return source;
  const names = new Set(families.map(({ name }) => name));
  return {
    ...source,
    families,
    samples: () => new Map([...source.samples()].filter(([name]) => names.has(name))),
  };
}

/** `counts` is not cumulative and has one element more than `bounds`, for values above the last bound. */
export interface HistogramState {
  readonly counts: number[];
  sum: number;
}

export function createHistogram(bounds: readonly number[]): HistogramState {
  return { counts: Array(bounds.length + 1).fill(0), sum: 0 };
}

/** Adds a value to a histogram. `bounds`: inclusive upper bounds in ascending order. */
export function observeValue(histogram: HistogramState, bounds: readonly number[], value: number): void {
  let index = 0;
  while (index < bounds.length && value > (bounds[index] as number)) index += 1;
  (histogram.counts[index] as number) += 1;
  histogram.sum += value;
}

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
  // Rounded to a millionth, to hide floating-point errors.
  const rounded = Math.round(sum * 1e6) / 1e6;
  samples.push({ labels, value: rounded, suffix: '_sum' }, { labels, value: below, suffix: '_count' });
  return samples;
}

/** Formats a bucket's upper bound like Prometheus 3 and client_golang: `300.0`, `0.25`, `1e+06`, `+Inf`. */
export function formatLe(bound: number): string {
  if (!Number.isFinite(bound)) return formatValue(bound);
  // Go's strconv.FormatFloat(bound, 'g', -1, 64) uses `e` for exponents below -4 and from 6, with at least two exponent digits.
  const size = Math.abs(bound);
  if (size === 0 || (size >= 1e-4 && size < 1e6)) return Number.isInteger(bound) ? `${bound}.0` : String(bound);
  const [digits = '', exponent = ''] = bound.toExponential().split('e');
  return `${digits}e${exponent[0]}${exponent.slice(1).padStart(2, '0')}`;
}

export function formatValue(value: number): string {
  if (value === Number.POSITIVE_INFINITY) return '+Inf';
  if (value === Number.NEGATIVE_INFINITY) return '-Inf';
  return String(value);
}
