/** Does what Grafana's application does outside of its panels: fills the registries and prepares data frames. */
import {
  applyFieldOverrides,
  cacheFieldDisplayNames,
  type DataFrame,
  FieldConfigOptionsRegistry,
  type FieldConfigPropertyItem,
  type FieldConfigSource,
  type GrafanaTheme2,
  identityOverrideProcessor,
  standardTransformers,
  standardTransformersRegistry,
  transformDataFrame,
} from '@grafana/data';
import { firstValueFrom } from 'rxjs';
import { type Panel, warn } from './model.ts';
import type { Replace } from './variables.ts';

const STANDARD = [
  ['displayName', 'displayName'],
  ...'unit min max decimals noValue fieldMinMax thresholds mappings color links description filterable'
    .split(' ')
    .map(name => [name, name]),
] as const;

const CUSTOM = {
  timeseries:
    'lineWidth fillOpacity gradientMode pointSize lineInterpolation lineStyle lineColor drawStyle showPoints spanNulls insertNulls axisPlacement axisLabel axisWidth axisSoftMin axisSoftMax axisGridShow axisCenteredZero axisColorMode axisBorderShow scaleDistribution barAlignment barWidthFactor barMaxWidth stacking thresholdsStyle hideFrom transform fillBelowTo',
  table: 'align width minWidth cellOptions inspect filterable hidden hideFrom wrapText wrapHeaderText',
  'state-timeline': 'lineWidth fillOpacity hideFrom',
  heatmap: 'hideFrom scaleDistribution',
  stat: '',
  bargauge: '',
  gauge: '',
} as const;

/** Default colour mode by panel type. */
const DEFAULT_COLOR: Record<string, string> = {
  timeseries: 'palette-classic',
  'state-timeline': 'continuous-GrYlRd',
};

const DEFAULT_CUSTOM: Record<string, object> = {
  timeseries: {
    drawStyle: 'line',
    lineInterpolation: 'linear',
    lineWidth: 1,
    fillOpacity: 0,
    gradientMode: 'none',
    barAlignment: 0,
    lineStyle: { fill: 'solid' },
    pointSize: 5,
    showPoints: 'auto',
    spanNulls: false,
    axisPlacement: 'auto',
    axisColorMode: 'text',
    axisBorderShow: false,
    scaleDistribution: { type: 'linear' },
    stacking: { mode: 'none', group: 'A' },
    thresholdsStyle: { mode: 'off' },
    hideFrom: { tooltip: false, viz: false, legend: false },
  },
  table: { align: 'auto', cellOptions: { type: 'auto' }, inspect: false },
  'state-timeline': { lineWidth: 0, fillOpacity: 70 },
};

function item(id: string, path: string, isCustom: boolean): FieldConfigPropertyItem {
  return {
    id,
    path,
    isCustom,
    name: id,
    description: '',
    settings: {},
    editor: () => null,
    override: () => null,
    process: identityOverrideProcessor,
    shouldApply: () => true,
  } as unknown as FieldConfigPropertyItem;
}

const customNames = (type: string) => (CUSTOM[type as keyof typeof CUSTOM] ?? '').split(' ').filter(Boolean);

const registryOf = (type: string) =>
  new FieldConfigOptionsRegistry(() => [
    ...STANDARD.map(([id, path]) => item(id as string, path as string, false)),
    ...customNames(type).map(name => item(`custom.${name}`, name, true)),
  ]);

export const isKnownProperty = (type: string, id: string) =>
  id.startsWith('custom.') ? customNames(type).includes(id.slice(7)) : STANDARD.some(([each]) => each === id);

export function registerTransformers(): void {
  // Some transformations are registered under two names.
  const byId = new Map(Object.values(standardTransformers).map(each => [each.id, each]));
  const items = [...byId.values()].map(transformation => ({
    id: transformation.id,
    name: transformation.name,
    transformation: async () => transformation,
    editor: () => null,
    imageDark: '',
    imageLight: '',
  }));
  standardTransformersRegistry.setInit(() => items as never);
}

/** Returns a panel's field configuration with the defaults of its type. */
export function fieldConfigOf({ type, fieldConfig }: Panel): FieldConfigSource {
  const { defaults = {}, overrides = [] } = fieldConfig ?? {};
  return {
    defaults: {
      ...defaults,
      color: defaults.color ?? { mode: DEFAULT_COLOR[type] ?? 'thresholds' },
      thresholds: defaults.thresholds ?? {
        mode: 'absolute',
        steps: [
          { value: Number.NEGATIVE_INFINITY, color: 'green' },
          { value: 80, color: 'red' },
        ],
      },
      custom: { ...DEFAULT_CUSTOM[type], ...defaults.custom },
    } as FieldConfigSource['defaults'],
    overrides,
  };
}

/** Returns frames as a panel receives them: transformed, and with the field configuration applied. */
export async function prepare(
  panel: Panel,
  frames: DataFrame[],
  theme: GrafanaTheme2,
  replaceVariables: Replace,
): Promise<DataFrame[]> {
  const transformations = (panel.transformations ?? []).filter(({ disabled }) => !disabled);
  for (const { id } of transformations) {
    if (!standardTransformersRegistry.getIfExists(id)) warn(`${panel.title}: transformation ${id}`);
  }
  const transformed = await firstValueFrom(
    transformDataFrame(transformations, frames, { interpolate: text => replaceVariables(text) }),
  );
  const ready = applyFieldOverrides({
    data: transformed,
    fieldConfig: fieldConfigOf(panel),
    fieldConfigRegistry: registryOf(panel.type),
    replaceVariables: replaceVariables as never,
    theme,
    timeZone: 'utc',
  });
  // Tables show only cached display names.
  cacheFieldDisplayNames(ready);
  return ready;
}
