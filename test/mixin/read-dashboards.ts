import { DASHBOARDS } from '../../mixin/dashboard-links.ts';
import { generatedFiles } from '../../mixin/generated.ts';

export interface Override {
  readonly matcher: { readonly id: string; readonly options: string };
  readonly properties: readonly { readonly id: string; readonly value: unknown }[];
}

export interface Target {
  readonly expr: string;
  readonly legendFormat: string;
  readonly instant: boolean;
  readonly range: boolean;
  readonly format: string;
  readonly datasource: { readonly uid: string };
}

/** The parts of a panel's JSON that tests use. */
export interface Panel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly description: string;
  readonly interval?: string;
  readonly datasource: { readonly uid: string };
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  readonly fieldConfig: {
    readonly defaults: {
      readonly unit?: string;
      readonly decimals?: number;
      readonly min?: number;
      readonly noValue?: string;
      readonly color?: { readonly mode: string; readonly fixedColor?: string };
      readonly mappings?: readonly { readonly options: Readonly<Record<string, { readonly color: string }>> }[];
      readonly links?: readonly { readonly url: string }[];
      readonly custom?: {
        readonly axisSoftMax?: number;
        readonly lineWidth?: number;
        readonly drawStyle?: string;
        readonly stacking?: { readonly mode: string };
      };
    };
    readonly overrides: readonly Override[];
  };
  readonly options: {
    readonly legend?: {
      readonly showLegend?: boolean;
      readonly show?: boolean;
      readonly displayMode?: string;
      readonly placement?: string;
      readonly calcs?: readonly string[];
    };
    readonly tooltip?: { readonly mode: string; readonly sort?: string };
    readonly textMode?: string;
    readonly yAxis?: { readonly unit: string };
    readonly cellValues?: { readonly unit: string };
    readonly sortBy?: readonly { readonly displayName: string }[];
  };
  readonly transformations?: readonly {
    readonly id: string;
    readonly options: {
      readonly renameByName?: Readonly<Record<string, string>>;
      readonly excludeByName?: Readonly<Record<string, boolean>>;
      readonly sort?: readonly { readonly field: string }[];
    };
  }[];
  readonly targets: readonly Target[];
  readonly panels?: readonly Panel[];
  readonly collapsed?: boolean;
}

export interface Dashboard {
  readonly __inputs: readonly object[];
  readonly __requires: readonly { readonly type: string; readonly id: string; readonly name: string }[];
  readonly uid: string;
  readonly editable: boolean;
  readonly panels: readonly Panel[];
  readonly links: readonly { readonly url: string; readonly includeVars: boolean; readonly keepTime: boolean }[];
  readonly annotations: {
    readonly list: readonly { readonly name: string; readonly expr: string; readonly iconColor: string }[];
  };
  readonly templating: {
    readonly list: readonly {
      readonly name: string;
      readonly type: string;
      readonly label: string;
      readonly query: string | { readonly query: string };
      readonly datasource?: { readonly uid: string };
      readonly multi?: boolean;
      readonly allValue?: string;
      readonly refresh?: number;
      readonly hide?: number;
      readonly current: { readonly value?: string | readonly string[] };
    }[];
  };
}

const generated = generatedFiles();

/** Names and contents of the generated dashboards. */
export const dashboards = Object.keys(DASHBOARDS).map(
  name => [name, JSON.parse(generated[`dashboards/${name}.json`] ?? '') as Dashboard] as const,
);

/** Returns all panels except for rows, including panels in collapsed rows. */
export const panelsOf = ({ panels }: Dashboard): readonly Panel[] =>
  panels.flatMap(panel => (panel.type === 'row' ? (panel.panels ?? []) : [panel]));
