import * as common from '@grafana/grafana-foundation-sdk/common';
import { FieldColorBuilder, FieldColorModeId } from '@grafana/grafana-foundation-sdk/dashboard';
import * as heatmap from '@grafana/grafana-foundation-sdk/heatmap';
import { PromQueryFormat } from '@grafana/grafana-foundation-sdk/prometheus';
import * as stat from '@grafana/grafana-foundation-sdk/stat';
import * as statetimeline from '@grafana/grafana-foundation-sdk/statetimeline';
import type * as table from '@grafana/grafana-foundation-sdk/table';
import * as timeseries from '@grafana/grafana-foundation-sdk/timeseries';
import { DATASOURCE, dashboardLinks, formatOf, instant, overTime } from './grafana.ts';
import { colourOverrides, limitOverrides, mappingsOf, stepsOf } from './palette.ts';
import { type GraphSpec, type HeatmapSpec, type PanelSpec, type StatesSpec, type StatSpec, UNITS } from './panel.ts';
import { tablePanel } from './table-builder.ts';

type Panel =
  | stat.PanelBuilder
  | timeseries.PanelBuilder
  | statetimeline.PanelBuilder
  | heatmap.PanelBuilder
  | table.PanelBuilder;

function statPanel({ queries, words, thresholds }: StatSpec) {
  const isNamed = queries[0].legend !== '';
  const colour =
    words || thresholds
      ? new FieldColorBuilder().mode(FieldColorModeId.Thresholds)
      : new FieldColorBuilder().mode(FieldColorModeId.Fixed).fixedColor('text');
  return new stat.PanelBuilder()
    .colorScheme(colour)
    .thresholds(stepsOf(thresholds ?? { warning: 1, critical: 1, calm: 'text' }))
    .mappings(words ? mappingsOf(words) : [])
    .reduceOptions(new common.ReduceDataOptionsBuilder().calcs(['lastNotNull']).fields('').values(false))
    .textMode(isNamed ? common.BigValueTextMode.ValueAndName : common.BigValueTextMode.Value)
    .colorMode(words ? common.BigValueColorMode.BackgroundSolid : common.BigValueColorMode.Value)
    .graphMode(common.BigValueGraphMode.None)
    .justifyMode(common.BigValueJustifyMode.Center)
    .wideLayout(false)
    .text(new common.VizTextDisplayOptionsBuilder().titleSize(14).valueSize(28))
    .targets(instant(queries));
}

const listBelow = () =>
  new common.VizLegendOptionsBuilder()
    .showLegend(true)
    .displayMode(common.LegendDisplayMode.List)
    .placement(common.LegendPlacement.Bottom)
    .calcs([]);

const tooltip = (sort: common.SortOrder) =>
  new common.VizTooltipOptionsBuilder().mode(common.TooltipDisplayMode.Multi).sort(sort);

function graphPanel({ kind, queries, unit = 'count', limits = [] }: GraphSpec) {
  const isStack = kind !== undefined;
  return (
    new timeseries.PanelBuilder()
      .colorScheme(new FieldColorBuilder().mode(FieldColorModeId.PaletteClassic))
      .drawStyle(kind === 'bars' ? common.GraphDrawStyle.Bars : common.GraphDrawStyle.Line)
      // Areas have no border, so that a series of zeros is invisible.
      .lineWidth(isStack ? 0 : 2)
      .fillOpacity(isStack ? 70 : 0)
      .lineInterpolation(common.LineInterpolation.Linear)
      .showPoints(common.VisibilityMode.Auto)
      .pointSize(4)
      .spanNulls(false)
      .min(0)
      .axisSoftMin(0)
      .axisSoftMax(UNITS[unit].scale)
      .stacking(
        new common.StackingConfigBuilder()
          .mode(isStack ? common.StackingMode.Normal : common.StackingMode.None)
          .group('A'),
      )
      .overrides([...colourOverrides(queries.map(({ legend }) => legend)), ...limitOverrides(limits)])
      .legend(listBelow())
      .tooltip(tooltip(common.SortOrder.Descending).hideZeros(isStack))
      .targets(overTime([...queries, ...limits]))
  );
}

const statesPanel = ({ queries, words }: StatesSpec) =>
  new statetimeline.PanelBuilder()
    .colorScheme(new FieldColorBuilder().mode(FieldColorModeId.Thresholds))
    .thresholds(stepsOf({ warning: 1, critical: 1, calm: 'text' }))
    .mappings(mappingsOf(words))
    .fillOpacity(80)
    .lineWidth(0)
    .mergeValues(true)
    .showValue(common.VisibilityMode.Never)
    .alignValue(common.TimelineValueAlignment.Left)
    .rowHeight(0.8)
    .legend(listBelow())
    .tooltip(tooltip(common.SortOrder.None))
    .targets(overTime(queries));

function heatmapPanel({ queries, unit = 'seconds' }: HeatmapSpec) {
  const { unit: countUnit, decimals = 0 } = UNITS.count;
  return (
    new heatmap.PanelBuilder()
      .scaleDistribution(new common.ScaleDistributionConfigBuilder().type(common.ScaleDistribution.Linear))
      .calculate(false)
      .yAxis(
        new heatmap.YAxisConfigBuilder().axisPlacement(common.AxisPlacement.Left).unit(UNITS[unit].unit).reverse(false),
      )
      .rowsFrame(new heatmap.RowsHeatmapOptionsBuilder().layout(common.HeatmapCellLayout.Auto).value('Messages'))
      .cellValues(new heatmap.CellValuesBuilder().unit(countUnit).decimals(decimals))
      .cellGap(1)
      .color(
        new heatmap.HeatmapColorOptionsBuilder()
          .mode(heatmap.HeatmapColorMode.Scheme)
          .scheme('Oranges')
          .scale(heatmap.HeatmapColorScale.Exponential)
          .exponent(0.5)
          .steps(64)
          .reverse(false),
      )
      // Without exemplars, too: the default colour has no name.
      .exemplarsColor('purple')
      .filterValues(new heatmap.FilterValueRangeBuilder().le(1e-9))
      .showValue(common.VisibilityMode.Never)
      .showLegend()
      .tooltip(
        new heatmap.HeatmapTooltipBuilder()
          .mode(common.TooltipDisplayMode.Single)
          .yHistogram(false)
          .showColorScale(false),
      )
      .targets(overTime(queries, PromQueryFormat.Heatmap))
  );
}

function builderOf(spec: PanelSpec): Panel {
  switch (spec.kind) {
    case 'stat':
      return statPanel(spec);
    case 'states':
      return statesPanel(spec);
    case 'heatmap':
      return heatmapPanel(spec);
    case 'table':
      return tablePanel(spec);
    default:
      return graphPanel(spec);
  }
}

/** Returns the builder of a panel, without its position. */
export function panelBuilder(spec: PanelSpec): Panel {
  const { title, description, noValue, kind } = spec;
  const panel = builderOf(spec).title(title).description(description).datasource(DATASOURCE).interval('1m');
  if (noValue !== undefined) panel.noValue(noValue);
  if ('queries' in spec && 'links' in spec) panel.dataLinks([...dashboardLinks(spec.links ?? [])]);
  // Heatmaps have separate units for the axis and the cells.
  if (kind === 'heatmap') return panel;
  const { unit, decimals } = formatOf(spec.unit ?? (kind === 'states' ? 'state' : 'count'));
  panel.unit(unit);
  if (decimals !== undefined) panel.decimals(decimals);
  return panel;
}
