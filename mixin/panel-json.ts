import { DATASOURCE, formatOf, INSTANT, linksOf, RANGE, targetsOf } from './fields.ts';
import { colourOverrides, mappingsOf, stepsOf } from './palette.ts';
import { type GraphSpec, type HeatmapSpec, type PanelSpec, type StatesSpec, type StatSpec, UNITS } from './panel.ts';
import { table } from './table-json.ts';

function stat({ queries, words, unit = 'count', thresholds, noValue, links }: StatSpec) {
  const isNamed = queries[0].legend !== '';
  const colour = words || thresholds ? { mode: 'thresholds' } : { mode: 'fixed', fixedColor: 'text' };
  return {
    type: 'stat',
    fieldConfig: {
      defaults: {
        ...formatOf(unit, noValue),
        color: colour,
        thresholds: stepsOf(thresholds ?? { warning: 1, critical: 1, calm: 'text' }),
        mappings: words ? mappingsOf(words) : [],
        ...linksOf(links),
      },
      overrides: [],
    },
    options: {
      reduceOptions: { calcs: ['lastNotNull'], fields: '', values: false },
      textMode: isNamed ? 'value_and_name' : 'value',
      colorMode: words ? 'background_solid' : 'value',
      graphMode: 'none',
      justifyMode: 'center',
      orientation: 'auto',
      wideLayout: false,
      text: { titleSize: 14, valueSize: 28 },
    },
    targets: targetsOf(queries, INSTANT),
  };
}

/** Pixels: half of a panel on a small screen is left for its lines. */
const LEGEND_WIDTH = 290;

function graph({ kind, queries, unit = 'count', thresholds, noValue, hasManyLines, isSigned, links }: GraphSpec) {
  const isStack = kind === 'stack';
  return {
    type: 'timeseries',
    fieldConfig: {
      defaults: {
        ...formatOf(unit, noValue),
        ...(isSigned ? {} : { min: 0 }),
        color: { mode: 'palette-classic' },
        thresholds: stepsOf(thresholds ?? { warning: 1, critical: 1, calm: 'transparent' }),
        ...linksOf(links),
        custom: {
          drawStyle: 'line',
          // An area without an edge: one of nothing at all is not seen.
          lineWidth: isStack ? 0 : 2,
          fillOpacity: isStack ? 70 : 0,
          lineInterpolation: 'linear',
          showPoints: 'auto',
          pointSize: 4,
          spanNulls: false,
          axisSoftMin: 0,
          axisSoftMax: UNITS[unit].scale,
          stacking: { mode: isStack ? 'normal' : 'none', group: 'A' },
          thresholdsStyle: { mode: thresholds ? 'dashed' : 'off' },
        },
      },
      overrides: colourOverrides(queries.map(({ legend }) => legend)),
    },
    options: {
      legend: hasManyLines
        ? {
            showLegend: true,
            displayMode: 'table',
            placement: 'right',
            width: LEGEND_WIDTH,
            calcs: ['lastNotNull', 'max'],
            sortBy: 'Max',
            sortDesc: true,
          }
        : { showLegend: true, displayMode: 'list', placement: 'bottom', calcs: [] },
      tooltip: { mode: 'multi', sort: 'desc', hideZeros: isStack },
    },
    targets: targetsOf(queries, RANGE),
  };
}

const states = ({ queries, words, unit = 'state', noValue }: StatesSpec) => ({
  type: 'state-timeline',
  fieldConfig: {
    defaults: {
      ...formatOf(unit, noValue),
      color: { mode: 'thresholds' },
      thresholds: stepsOf({ warning: 1, critical: 1, calm: 'text' }),
      mappings: mappingsOf(words),
      custom: { fillOpacity: 80, lineWidth: 0 },
    },
    overrides: [],
  },
  options: {
    mergeValues: true,
    showValue: 'never',
    alignValue: 'left',
    rowHeight: 0.8,
    legend: { showLegend: true, displayMode: 'list', placement: 'bottom' },
    tooltip: { mode: 'multi', sort: 'none' },
  },
  targets: targetsOf(queries, RANGE),
});

const heatmap = ({ queries, unit = 'seconds', noValue, links }: HeatmapSpec) => ({
  type: 'heatmap',
  fieldConfig: {
    defaults: {
      ...(noValue === undefined ? {} : { noValue }),
      ...linksOf(links),
      custom: { scaleDistribution: { type: 'linear' } },
    },
    overrides: [],
  },
  options: {
    calculate: false,
    yAxis: { axisPlacement: 'left', unit: UNITS[unit].unit, reverse: false },
    rowsFrame: { layout: 'auto', value: 'Messages' },
    cellValues: { unit: UNITS.count.unit, decimals: UNITS.count.decimals },
    cellGap: 1,
    color: { mode: 'scheme', scheme: 'Oranges', scale: 'exponential', exponent: 0.5, steps: 64, reverse: false },
    exemplars: { color: 'purple' },
    filterValues: { le: 1e-9 },
    showValue: 'never',
    legend: { show: true },
    tooltip: { mode: 'single', yHistogram: false, showColorScale: false },
  },
  targets: targetsOf(queries, { ...RANGE, format: 'heatmap', exemplar: true }),
});

function shapeOf(spec: PanelSpec) {
  switch (spec.kind) {
    case 'stat':
      return stat(spec);
    case 'states':
      return states(spec);
    case 'heatmap':
      return heatmap(spec);
    case 'table':
      return table(spec);
    default:
      return graph(spec);
  }
}

/** One panel, but for its place. */
export function panelJson(spec: PanelSpec) {
  const { title, description } = spec;
  const { type, ...shape } = shapeOf(spec);
  return { type, title, description, datasource: DATASOURCE, transparent: false, ...shape };
}
