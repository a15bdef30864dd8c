import type { Thresholds, Words } from './palette.ts';

export type Unit =
  | 'count'
  | 'number'
  | 'messages/s'
  | 'events/s'
  | 'attempts/s'
  | 'requests/s'
  | 'rows/s'
  | 'share'
  | 'seconds'
  | 'hours'
  | 'days'
  | 'bytes'
  | 'bytes/s'
  | 'state';

interface Format {
  /** Grafana's identifier. */
  readonly unit: string;
  /** Default: as many as the number needs. */
  readonly decimals?: number;
  readonly scale: number;
}

/**
 * How a number is written. `scale`: the least that the axis of a graph shows, so that nothing at all is a line at the bottom
 * and not at half of 100. Times that axes show are hours or seconds: Grafana's words for durations repeat on neighbouring ticks.
 */
export const UNITS: Readonly<Record<Unit, Format>> = {
  count: { unit: 'locale', decimals: 0, scale: 5 },
  number: { unit: 'none', decimals: 1, scale: 2 },
  'messages/s': { unit: 'suffix:/s', scale: 0.05 },
  'events/s': { unit: 'suffix:/s', scale: 0.05 },
  'attempts/s': { unit: 'suffix:/s', scale: 0.05 },
  'requests/s': { unit: 'reqps', scale: 0.05 },
  'rows/s': { unit: 'suffix:/s', scale: 0.05 },
  share: { unit: 'percentunit', decimals: 1, scale: 0.01 },
  seconds: { unit: 's', decimals: 1, scale: 1 },
  hours: { unit: 'suffix:h', decimals: 1, scale: 1 },
  days: { unit: 'suffix:d', decimals: 1, scale: 1 },
  bytes: { unit: 'bytes', decimals: 1, scale: 1024 },
  'bytes/s': { unit: 'Bps', decimals: 1, scale: 1024 },
  state: { unit: 'bool', decimals: 0, scale: 1 },
};

/** One query of a panel. */
export interface Query {
  readonly expr: string;
  /** Grafana's legend format; empty for the only series. */
  readonly legend: string;
}

/** A link from a series, a row or a panel; Grafana's variables stand in the address. */
export interface Link {
  readonly title: string;
  readonly url: string;
}

interface Base {
  readonly title: string;
  /** The question that the panel answers, and how to read it. */
  readonly description: string;
  /** Default `count`. */
  readonly unit?: Unit;
  /** What it says where there is nothing to show. */
  readonly noValue?: string;
  /** Of 24 columns; by default what the kind has. The last of a line takes what is left. */
  readonly width?: number;
  readonly height?: number;
  readonly thresholds?: Thresholds;
}

/** One number, or with a legend the name and number of one series. */
export interface StatSpec extends Base {
  readonly kind: 'stat';
  readonly queries: readonly [Query];
  readonly words?: Words;
  readonly links?: readonly Link[];
}

/** Lines over time; `stack`: areas that add up. */
export interface GraphSpec extends Base {
  readonly kind?: 'stack';
  readonly queries: readonly Query[];
  /** A table at the right instead of a list below: where there may be many lines. */
  readonly hasManyLines?: true;
  /** The axis may go below zero. */
  readonly isSigned?: true;
  readonly links?: readonly Link[];
}

/** Bands of words over time. */
export interface StatesSpec extends Base {
  readonly kind: 'states';
  readonly queries: readonly Query[];
  readonly words: Words;
}

/** How many there were of each size, over time. */
export interface HeatmapSpec extends Base {
  readonly kind: 'heatmap';
  readonly queries: readonly [Query];
  readonly links?: readonly Link[];
}

/** A column of numbers. */
export interface Column {
  readonly title: string;
  readonly expr: string;
  readonly unit?: Unit;
  readonly thresholds?: Thresholds;
  readonly words?: Words;
  /** A bar of the size: of the column's largest, or of `full`. */
  readonly bar?: { readonly full?: number };
  /** Pixels. Default: what is left, shared with the others. */
  readonly width?: number;
  readonly links?: readonly Link[];
}

/** The latest values: a row for each set of labels, a column for each query. */
export interface TableSpec extends Base {
  readonly kind: 'table';
  /** Labels that are columns, in their order, by their titles. All others are left out. */
  readonly labels: Readonly<Record<string, string>>;
  readonly columns: readonly Column[];
  /** Titles of the columns by which it is sorted, largest first. */
  readonly sortBy: readonly string[];
  /** Links of label columns, by the columns' titles. */
  readonly links?: Readonly<Record<string, readonly Link[]>>;
}

export type PanelSpec = StatSpec | GraphSpec | StatesSpec | HeatmapSpec | TableSpec;

export interface RowSpec {
  readonly title: string;
  readonly isCollapsed?: boolean;
  readonly panels: readonly PanelSpec[];
}

export const one = (expr: string): readonly [Query] => [{ expr, legend: '' }];
export const each = (legend: string, expr: string): readonly [Query] => [{ expr, legend }];
