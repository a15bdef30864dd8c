import { type FieldDisplay, getDisplayValueAlignmentFactors, getFieldDisplayValues } from '@grafana/data';
import { BarGauge, BigValue, BigValueTextMode, VizRepeater } from '@grafana/ui';
import type { VizProps } from './props.ts';

function valuesOf({ panel, frames, fieldConfig, theme, replace }: VizProps): FieldDisplay[] {
  return getFieldDisplayValues({
    fieldConfig,
    reduceOptions: panel.options.reduceOptions,
    replaceVariables: replace as never,
    theme,
    data: frames,
    sparkline: panel.type === 'stat' && panel.options.graphMode !== 'none',
    timeZone: 'utc',
  });
}

/** A name that the panel was given is shown, also where there is one value alone. */
const textModeOf = ({ panel, fieldConfig }: VizProps) =>
  panel.options.textMode === BigValueTextMode.Auto && (fieldConfig.defaults.displayName || !panel.title)
    ? BigValueTextMode.ValueAndName
    : panel.options.textMode;

export function StatViz(props: VizProps) {
  const { panel, width, height, theme, timeRange } = props;
  const { options } = panel;
  const values = valuesOf(props);
  return (
    <VizRepeater
      getValues={() => values}
      getAlignmentFactors={getDisplayValueAlignmentFactors}
      width={width}
      height={height}
      source={values}
      renderCounter={0}
      itemSpacing={3}
      autoGrid
      orientation={options.orientation}
      renderValue={({ value, alignmentFactors, width, height, count }) => (
        <BigValue
          value={value.display}
          count={count}
          {...(value.sparkline ? { sparkline: { ...value.sparkline, timeRange } } : {})}
          colorMode={options.colorMode}
          graphMode={options.graphMode}
          justifyMode={options.justifyMode}
          textMode={textModeOf(props)}
          alignmentFactors={alignmentFactors}
          text={options.text}
          width={width}
          height={height}
          theme={theme}
          disableWideLayout={!options.wideLayout}
          percentChangeColorMode={options.percentChangeColorMode}
        />
      )}
    />
  );
}

export function BarGaugeViz(props: VizProps) {
  const { panel, width, height, theme } = props;
  const { options } = panel;
  const values = valuesOf(props);
  return (
    <VizRepeater
      getValues={() => values}
      getAlignmentFactors={getDisplayValueAlignmentFactors}
      width={width}
      height={height}
      source={values}
      renderCounter={0}
      minVizWidth={options.minVizWidth}
      minVizHeight={options.minVizHeight}
      orientation={options.orientation}
      renderValue={({ value, alignmentFactors, width, height, orientation }) => (
        <BarGauge
          value={value.display}
          field={value.field}
          {...(value.view?.getFieldDisplayProcessor(value.colIndex ?? 0)
            ? { display: value.view.getFieldDisplayProcessor(value.colIndex ?? 0) }
            : {})}
          alignmentFactors={alignmentFactors}
          width={width}
          height={height}
          orientation={orientation}
          text={options.text}
          displayMode={options.displayMode}
          showUnfilled={options.showUnfilled}
          valueDisplayMode={options.valueMode}
          namePlacement={options.namePlacement}
          theme={theme}
        />
      )}
    />
  );
}
