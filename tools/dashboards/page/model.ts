/** The parts of a dashboard's JSON that the drawing reads. */
import type { DataTransformerConfig, FieldConfigSource } from '@grafana/data';

export interface Target {
  readonly refId: string;
  readonly expr: string;
  readonly legendFormat?: string;
  readonly format?: 'time_series' | 'table' | 'heatmap';
  readonly instant?: boolean;
  readonly range?: boolean;
  readonly interval?: string;
  readonly hide?: boolean;
}

export interface Panel {
  readonly id: number;
  readonly type: string;
  readonly title?: string;
  readonly description?: string;
  readonly transparent?: boolean;
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  readonly targets?: readonly Target[];
  readonly fieldConfig?: FieldConfigSource;
  // biome-ignore lint/suspicious/noExplicitAny: the options depend on the panel type, and Grafana publishes no types for them.
  readonly options?: any;
  readonly transformations?: DataTransformerConfig[];
  readonly interval?: string;
  readonly maxDataPoints?: number;
  /** Whether a row is collapsed; only set for rows. */
  readonly collapsed?: boolean;
  readonly panels?: readonly Panel[];
}

export interface Variable {
  readonly name: string;
  readonly type: string;
  readonly label?: string;
  readonly hide?: unknown;
  readonly query?: string | { readonly query?: string };
  readonly multi?: boolean;
  readonly includeAll?: boolean;
  readonly allValue?: string;
  readonly regex?: string;
  readonly current?: { readonly value?: string | readonly string[] };
}

export interface Annotation {
  readonly name: string;
  readonly enable: boolean;
  readonly iconColor: string;
  readonly expr: string;
  readonly step?: string;
  readonly useValueForTime?: boolean;
}

export interface Dashboard {
  readonly title: string;
  readonly panels: readonly Panel[];
  readonly links?: readonly { readonly title: string }[];
  readonly time: { readonly from: string };
  readonly templating?: { readonly list: readonly Variable[] };
  readonly annotations?: { readonly list: readonly Annotation[] };
}

/** A time range (seconds since the Unix epoch). */
export interface Range {
  readonly from: number;
  readonly to: number;
}

const warnings = new Set<string>();

/** Records a warning, for example about an option that the drawing ignores. */
export function warn(text: string): void {
  warnings.add(text);
}

export const allWarnings = (): readonly string[] => [...warnings];
