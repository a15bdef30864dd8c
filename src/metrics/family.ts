import { createNative, type NativeHistogram, observeNative } from './native-histogram.ts';

export type { NativeHistogram } from './native-histogram.ts';

export type FamilyType = 'gauge' | 'counter' | 'histogram' | 'info';

export interface Family<L extends string = string> {
  /** Full name as in the text format: counters end in `_total`, infos in `_info`. */
  readonly name: string;
  readonly type: FamilyType;
  readonly help: string;
  /**
   * Exposes a counter as `unknown` in OpenMetrics, under its full name: a gauge has the name without `_total`, which
   * OpenMetrics would use for the counter.
   */
  readonly isUnknown?: true;
  /** Label names in the order they are written. Series about an account carry `account` before them. */
  readonly labels: readonly L[];
}

/** One series' value. Histograms give one sample a line, with `suffix` and, for buckets, the label `le`; the count comes last. */
export interface Sample<L extends string = string> {
  readonly labels: Readonly<Record<L, string | undefined>>;
  readonly value: number;
  readonly suffix?: '_bucket' | '_sum' | '_count';
  /** Of a bucket: one of the traces in it. Text 0.0.4 has no place for it. */
  readonly exemplar?: Exemplar;
  /** Start of a counter or of a histogram's `_count` (ms since the Unix epoch), if known. */
  readonly since?: number;
  /** Of a histogram's `_count`: the whole series, for formats in which it is one thing. */
  readonly whole?: WholeHistogram;
}

export interface WholeHistogram {
  readonly bounds: readonly number[];
  readonly state: Readonly<HistogramState>;
}

export interface Exemplar {
  readonly traceId: string;
  readonly value: number;
  readonly time: number;
}

export type Families = Readonly<Record<string, Family>>;

type LabelOf<F> = F extends Family<infer L> ? L : never;

/** Samples by the key of their family; a family without a key, or with an empty list, is not shown. */
export type SamplesOf<F extends Families> = { readonly [K in keyof F]?: readonly Sample<LabelOf<F[K]>>[] };

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
  /** Identity of what `samples()` would say now, compared by `===`: samples are asked for again only when it changes. */
  revision(): unknown;
  /** Samples by name of the family; families without samples are not shown for this source. */
  samples(): ReadonlyMap<string, readonly Sample[]>;
}

/** The source without the families that `isWanted` is false for: the same object where it is true for all. */
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

/** A histogram's state. `counts` has one number more than there are bounds: that above the last. Not cumulative. */
export interface HistogramState {
  readonly counts: number[];
  sum: number;
  /** The latest trace of each bucket, where there is one. */
  exemplars?: (Exemplar | null)[];
  readonly native?: NativeHistogram;
}

/** `isNative`: with native buckets, too, which take up to some 3 KB. */
export function createHistogram(bounds: readonly number[], isNative = true): HistogramState {
  const classic = { counts: Array(bounds.length + 1).fill(0), sum: 0 };
  return isNative ? { ...classic, native: createNative() } : classic;
}

/** A stored histogram with native buckets. One without them starts again: it was never shown. */
export const withNative = (stored: HistogramState, bounds: readonly number[]): HistogramState =>
  stored.native ? stored : createHistogram(bounds);

/** A sum as it is shown: to a millionth, which adding up floating-point numbers would spoil. */
export const roundSum = (sum: number): number => Math.round(sum * 1e6) / 1e6;

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
  if (histogram.native) observeNative(histogram.native, value);
  if (!exemplar) return;
  histogram.exemplars ??= bounds.map(() => null);
  histogram.exemplars[index] = { ...exemplar, value };
}

/** The lines of one series of a histogram. `since`: when it began, milliseconds since the Unix epoch. */
export function histogramSamples<L extends string>(
  labels: Sample<L>['labels'],
  bounds: readonly number[],
  state: Readonly<HistogramState>,
  since?: number,
): Sample<L>[] {
  const { counts, sum, exemplars } = state;
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
    { labels, value: roundSum(sum), suffix: '_sum' },
    { labels, value: below, suffix: '_count', whole: { bounds, state }, ...(since === undefined ? {} : { since }) },
  );
  return samples;
}

/** Label value that Prometheus 3 and client_golang make of a bucket's upper bound: `300.0`, `0.25`, `1e+06`, `+Inf`. */
export function formatLe(bound: number): string {
  if (!Number.isFinite(bound)) return formatValue(bound);
  // Go's strconv.FormatFloat(bound, 'g', -1, 64): exponents below -4 and from 6 are written, with two digits at least.
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
