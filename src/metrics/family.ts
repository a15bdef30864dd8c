import type { Exemplar } from './histogram.ts';

/** The door of this room: what a metric family is, and what its samples are. */
export { createHistogram, type Exemplar, type HistogramState, histogramSamples, observeValue } from './histogram.ts';

export type FamilyType = 'gauge' | 'counter' | 'histogram' | 'info';

export interface Family<L extends string = string> {
  /** Full name as in the text format: counters end in `_total`, infos in `_info`. */
  readonly name: string;
  readonly type: FamilyType;
  /** One line that says how the number is obtained. */
  readonly help: string;
  /** Label names in the order they are written. Series about an account carry `account` before them. */
  readonly labels: readonly L[];
}

/** One series' value. Histograms give one sample a line, with `suffix` and, for buckets, the label `le`. */
export interface Sample<L extends string = string> {
  /** A label that is undefined is left out. */
  readonly labels: Readonly<Record<L, string | undefined>>;
  readonly value: number;
  readonly suffix?: '_bucket' | '_sum' | '_count';
  /** Of a bucket: one of the traces in it. Only OpenMetrics has a place for it. */
  readonly exemplar?: Exemplar;
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

/**
 * One source of samples: a collector's facts of one account, or the agent's own numbers.
 * Two sources may own the same family; their samples then differ in account or labels, which nobody checks here.
 */
export interface Source {
  /** Written as the first label of each sample when present. */
  readonly account?: string;
  readonly families: readonly Family[];
  /** Identity of what `samples()` would say now, compared by `===`: samples are asked for again only when it changes. */
  revision(): unknown;
  /** Samples by name of the family; families without samples are not shown for this source. */
  samples(): ReadonlyMap<string, readonly Sample[]>;
}
