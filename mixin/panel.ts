import type { Thresholds, Words } from './palette.ts';

export type Unit =
  | 'count'
  | 'number'
  | 'messages/s'
  | 'attempts/s'
  | 'requests/s'
  | 'share'
  | 'seconds'
  | 'days'
  | 'bytes'
  | 'state';

interface Format {
  /** Grafana's identifier of the unit. */
  readonly unit: string;
  /** Number of decimals; by default, as many as a value needs. */
  readonly decimals?: number;
  readonly scale: number;
}

/**
 * Number formats. `scale`: minimum upper limit of a graph's axis, so that a constant zero is drawn at the bottom instead of in
 * the middle. Durations are in seconds or days, because Grafana's duration units show neighbouring ticks as the same text.
 */
export const UNITS: Readonly<Record<Unit, Format>> = {
  count: { unit: 'locale', decimals: 0, scale: 5 },
  number: { unit: 'none', decimals: 1, scale: 2 },
  'messages/s': { unit: 'suffix:/s', scale: 0.05 },
  'attempts/s': { unit: 'suffix:/s', scale: 0.05 },
  'requests/s': { unit: 'reqps', scale: 0.05 },
  share: { unit: 'percentunit', decimals: 1, scale: 0.01 },
  seconds: { unit: 's', decimals: 1, scale: 1 },
  days: { unit: 'suffix:d', decimals: 1, scale: 1 },
  bytes: { unit: 'bytes', decimals: 1, scale: 1024 },
  state: { unit: 'bool', decimals: 0, scale: 1 },
};

/** One query of a panel. */
export interface Query {
  readonly expr: string;
  /** Grafana's legend format; empty if there is only one series. */
  readonly legend: string;
}

/** A link from a series, a row or a panel. Its address may contain Grafana's variables. */
export interface PanelLink {
  readonly title: string;
  readonly url: string;
}

interface Base {
  readonly title: string;
  /** The question that the panel answers, and how to read the panel. */
  readonly description: string;
  /** Default `count`. */
  readonly unit?: Unit;
  /** Text that is shown if there is no data. */
  readonly noValue?: string;
  /** Width (of 24 columns); the default depends on the kind. The last panel of a line takes the remaining width. */
  readonly width?: number;
  readonly height?: number;
}

/** One number per series. If the query has a legend, the name of the series is also shown. */
export interface StatSpec extends Base {
  readonly kind: 'stat';
  readonly queries: readonly [Query];
  readonly thresholds?: Thresholds;
  readonly words?: Words;
  readonly links?: readonly PanelLink[];
}

export interface Limit extends Query {
  readonly colour: string;
}

/** Lines over time; `stack`: stacked areas; `bars`: stacked bars, for rare events. */
export interface GraphSpec extends Base {
  readonly kind?: 'stack' | 'bars';
  readonly queries: readonly Query[];
  /** Limits, drawn as dashed lines with a fixed colour. */
  readonly limits?: readonly Limit[];
  readonly links?: readonly PanelLink[];
}

/** Named states over time. */
export interface StatesSpec extends Base {
  readonly kind: 'states';
  readonly queries: readonly Query[];
  readonly words: Words;
}

/** Counts of histogram buckets over time. */
export interface HeatmapSpec extends Base {
  readonly kind: 'heatmap';
  readonly queries: readonly [Query];
  readonly links?: readonly PanelLink[];
}

/** A column of a table with the values of one query. */
export interface ColumnSpec {
  readonly title: string;
  readonly expr: string;
  readonly unit?: Unit;
  readonly thresholds?: Thresholds;
  readonly words?: Words;
  /** Shows a bar relative to the column's largest value, or to `full`. */
  readonly bar?: { readonly full?: number };
  /** Width (pixels). By default, columns share the remaining width. */
  readonly width?: number;
  readonly links?: readonly PanelLink[];
  /** Text of a cell without a value. */
  readonly noValue?: string;
}

/** A table of the latest values, with a row for each set of labels and a column for each query. */
export interface TableSpec extends Base {
  readonly kind: 'table';
  /** Label columns in order, with their titles. Other labels are omitted. */
  readonly labels: Readonly<Record<string, string>>;
  readonly columns: readonly ColumnSpec[];
  /** Titles of the columns by which the table is sorted in descending order. */
  readonly sortBy: readonly string[];
  /** Links of label columns, by column title. */
  readonly links?: Readonly<Record<string, readonly PanelLink[]>>;
  /** Widths of label columns (pixels), by column title. By default, columns share the remaining width. */
  readonly widths?: Readonly<Record<string, number>>;
  /** Texts of label values, by column title. */
  readonly texts?: Readonly<Record<string, Readonly<Record<string, string>>>>;
}

export type PanelSpec = StatSpec | GraphSpec | StatesSpec | HeatmapSpec | TableSpec;

export interface RowSpec {
  readonly title: string;
  readonly isCollapsed?: boolean;
  readonly panels: readonly PanelSpec[];
}

export const one = (expr: string): readonly [Query] => [{ expr, legend: '' }];
export const each = (legend: string, expr: string): readonly [Query] => [{ expr, legend }];
